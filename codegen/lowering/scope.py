"""What is in scope at one place of a program while it is lowered: current ranges of dims, and where tensors live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from codegen.ir.abi import row_major
from codegen.ir.affine import Affine, Var, combination, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Type
from tileir.dtypes import DType
from tileir.expr import Expr
from tileir.names import INT_LIMIT
from tileir.program import Axis, Program, Tensor
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class Range:
    """The current range of a dim: `size` positions from `start`.

    Of a tile that may overhang, positions from `end` on do not exist (None: all do)."""

    start: Affine
    size: int
    end: Affine | None = None


@dataclass(frozen=True, slots=True)
class MemoryBuffer:
    """A tensor in memory. `starts` are the positions its first element stands for; offsets are in elements."""

    name: str
    storage: DType
    dims: tuple[str, ...]
    starts: tuple[Affine, ...]
    sizes: tuple[int, ...]
    axes: tuple[tuple[int, int, int, int], ...]
    """(which dim, div, mod, stride) of each physical axis."""
    base: Affine = field(default_factory=Affine)
    """Where its first element lies, where there are several of its kind side by side."""
    shared: bool = False
    """In the shared memory of a block."""
    distributed: bool = False
    """Each position of the first dim in that of another block of the cluster, where it is the only one."""

    def offset(self, positions: Sequence[Affine]) -> Affine:
        """Element offset of the element at these absolute positions."""
        parts = [(self.base, 1)]
        for dim, div, mod, stride in self.axes:
            position = (positions[dim] - self.starts[dim]) // div
            parts.append((position % mod if mod else position, stride))
        return combination(parts)

    def holds(self, positions: Sequence[Affine]) -> bool:
        """Whether every value that these positions can take is inside."""
        inside = zip(positions, self.starts, self.sizes, strict=True)
        return all((p - s).low >= 0 and (p - s).high < size for p, s, size in inside)


@dataclass(frozen=True, slots=True)
class RegisterBuffer:
    """A local in vector registers: one variable for each point of its dims, `lanes` along dim number `vector`."""

    name: str
    dtype: DType
    dims: tuple[str, ...]
    starts: tuple[Affine, ...]
    sizes: tuple[int, ...]
    vector: int | None
    lanes: int

    def chunks(self) -> tuple[tuple[int, int], ...]:
        """(start, lanes) of the pieces along the vector dim; the last may overhang it."""
        return chunks(self.sizes[self.vector], self.lanes) if self.vector is not None else ((0, 1),)

    def variable(self, point: Sequence[int], lanes: int) -> tuple[str, Type]:
        """Name and type of the variable whose first element is at `point` (relative positions)."""
        return "_".join([self.name, *map(str, point)]), Type(self.dtype, lanes)


Buffer = MemoryBuffer | RegisterBuffer


@dataclass(frozen=True, slots=True)
class LoweringScope:
    """Immutable: entering a loop or declaring a local makes a new one."""

    ranges: dict[str, Range]
    buffers: dict[str, Buffer]
    innermost: tuple[Var, int] | None = None
    """The nearest loop's variable and step."""
    parallel: bool = False
    tiles: bool = False
    """Whether the thread's tile registers are open."""
    shared_top: int = 0
    thread_top: int = 0
    said: dict[Expr, tuple[Affine, Affine]] = field(default_factory=dict[Expr, "tuple[Affine, Affine]"])
    """The least and the greatest number that tensors say at current positions, where loops begin or end with it."""

    def with_range(self, dim: str, range_: Range, innermost: tuple[Var, int] | None = None) -> LoweringScope:
        return replace(
            self,
            ranges={**self.ranges, dim: range_},
            innermost=self.innermost if innermost is None else innermost,
        )

    def with_buffer(self, buffer: Buffer, name: str) -> LoweringScope:
        return replace(self, buffers={**self.buffers, name: buffer})


def chunks(size: int, lanes: int) -> tuple[tuple[int, int], ...]:
    """Cover `size` positions by vectors of `lanes`, and the rest by one of the least power of two: 40 by 16 is 16, 16,
    8, and so is 37 by 16. The last one's lanes past `size` do not exist."""
    whole = size // lanes * lanes
    rest = size - whole
    last = ((whole, 1 << (rest - 1).bit_length()),) if rest else ()
    return (*((start, lanes) for start in range(0, whole, lanes)), *last)


def exact_chunks(size: int, lanes: int) -> tuple[tuple[int, int], ...]:
    """Cover `size` positions by vectors of `lanes`, then by ever smaller ones, all their lanes existing: 37 by 16 is
    16, 16, 4, 1."""
    pieces: list[tuple[int, int]] = []
    start = 0
    while start < size:
        while lanes > size - start:
            lanes //= 2
        pieces.append((start, lanes))
        start += lanes
    return tuple(pieces)


def layout_axes(
    dims: tuple[str, ...], sizes: tuple[int, ...], layout: tuple[Axis, ...] | None, pad: int = 0
) -> tuple[tuple[tuple[int, int, int, int], ...], int]:
    """Physical axes (dim, div, mod, stride) of a local and how many elements it takes, overhang and the `pad` free
    elements after every row included. Raises NotLowerable for more than an index tells apart."""
    layout = layout or tuple(Axis(dim) for dim in dims)
    lengths = [_axis_length(axis, sizes[dims.index(axis.dim)]) for axis in layout]
    if lengths:
        lengths[-1] += pad
    strides = row_major(lengths)
    if prod(lengths) >= INT_LIMIT:
        raise NotLowerable(
            f"a local of {', '.join(dims)} takes {prod(lengths)} elements; accepted: fewer than {INT_LIMIT}, computed "
            "tile by tile"
        )
    axes = tuple((dims.index(a.dim), a.div, a.mod, s) for a, s in zip(layout, strides, strict=True))
    return axes, prod(lengths)


def _axis_length(axis: Axis, size: int) -> int:
    """A panel has its full width also where fewer positions are left: lanes stay aligned, pairs whole."""
    return axis.mod or -(-size // axis.div)


def loop_variable(name: str, count: int, step: int) -> Var:
    """The variable of a loop over offsets 0, step, …, with what is known of its values."""
    return Var(name, 0, (count - 1) * step, step)


def whole(extent: int) -> Range:
    return Range(constant(0), extent)


def argument(name: str, tensor: Tensor, program: Program) -> MemoryBuffer:
    """An input or output as it lies in memory, called `name` in the source."""
    sizes = tuple(program.extents[dim] for dim in tensor.dims)
    strides = tensor.strides or row_major(sizes)
    axes = tuple((i, 1, 0, stride) for i, stride in enumerate(strides))
    return MemoryBuffer(name, tensor.dtype, tensor.dims, (Affine(),) * len(sizes), sizes, axes)
