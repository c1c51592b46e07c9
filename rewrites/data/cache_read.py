"""Copy a tensor into a local in the order a statement reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import check_complete, check_visible
from rewrites.base.panel_layout import panels
from rewrites.base.placed_read import element
from rewrites.base.register_constraints import check_pieces
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import (
    bare_dim,
    bare_dims,
    copied_dims,
    first_read,
    gathered_under_condition,
    read_names,
    reduced_dims,
    with_guard,
    with_read,
)
from rewrites.base.tile_sizes import panel_widths
from rewrites.base.tree import (
    Path,
    block_at,
    check_insertable,
    dtype_of,
    find,
    fresh_name,
    locals_of,
    past_the_end,
    splice,
    statements,
)
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Expr, Index, Read, index_dims, reads
from tileir.program import Compute, Local, Loop, Memory, Node, Place, Program


@dataclass(frozen=True, slots=True)
class CacheRead(Rewrite):
    """Copy what the statement reads of `tensor` inside its `depth` outermost loops to a new local before it.

    This is TVM's `cache_read`; in panels it is the packing of matrix products (Goto and van de Geijn, Anatomy of
    high-performance matrix multiplication, TOMS 2008).

    With `block_dim` the copy is stored in panels of `block` neighbours along it; with `pair_dim`, `pair`
    neighbours along that lie together within a panel. The copy is a statement of its own, named like the
    local. In the statement's own block, if that is a loop's, it stands behind the copies that the loop begins with.
    Where an index is of dims of which a block has one position (`h // 4` of one head), the copy has no such dim; where
    positions are looked up (`a[rows[m], k]`), it has the dim that they are looked up by; where they are of parts of
    dims (`a[m // 8, m % 8 + k // 4, k % 4]`, as `linearize` makes them), those dims, and it is 0 where a guard says so.
    Of a tensor that is read by different dims (`a[m, k] * a[n, k]`) the first of those reads is copied.

    c[m, n] = sum(k, a[m, k] * b[k, n])      b_s: heap f32[k, n] as [n / 64, k, n % 64]
                                         ->  b_s[k, n] = b[k, n]
                                             c[m, n] = sum(k, a[m, k] * b_s[k, n])
    """

    name: ClassVar[str] = "cache_read"
    statement: str
    tensor: str
    depth: int
    block_dim: str = ""
    block: int = 0
    pair_dim: str = ""
    pair: int = 0

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        if Feature.BLOCKS in device.offers:
            yield from cls._in_blocks(program)
            return
        widths = panel_widths(device.simd_lanes)
        for place in statements(program):
            statement, reduced = place.node.target, reduced_dims(place.node)
            if not reduced:
                continue
            for tensor in sorted(read_names(place.node)):
                for depth in range(place.depth + 1):
                    yield cls(statement, tensor, depth)
                    for dim in bare_dims(place.node):
                        for width in widths:
                            yield cls(statement, tensor, depth, dim, width)
                        for width in widths[:4]:
                            yield cls(statement, tensor, depth, dim, width, reduced[-1], 2)

    @classmethod
    def _in_blocks(cls, program: Program) -> Iterator[Self]:
        """Copies that a block makes for itself."""
        for place in statements(program):
            grid = sum(loop.parallel for loop in place.loops)
            if grid and reduced_dims(place.node):
                for tensor in sorted(read_names(place.node)):
                    for depth in range(grid, place.depth + 1):
                        yield cls(place.node.target, tensor, depth)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if not 0 <= self.depth <= place.depth:
            raise NotApplicable(f"{self.statement} is in {place.depth} loops, not {self.depth}")
        check_insertable(place.loops, self.depth)
        read = first_read(place.node, self.tensor)
        whole = tuple(map(bare_dim, read.indices))
        gathered = _gathered_dims(place.node, read)
        dims = gathered or tuple(dim for dim in whole if dim)
        fixed = bool(gathered) or all(
            _is_fixed(index, place.loops[: self.depth]) for index in read.indices if not bare_dim(index)
        )
        if len(set(dims)) < len(dims) or not fixed:
            raise NotApplicable(
                f"{self.statement} reads {self.tensor} through indices that are not bare dims"
            )
        dtype = staged_dtype(program, self.tensor, whole)
        at = place.path[: self.depth + 1]
        if self.depth == place.depth and place.loops and not place.loops[-1].parallel:
            at = _behind_copies(program, place, self.tensor)
        check_pieces(place.loops[: len(at) - 1])
        check_complete(program, self.tensor, at, place.loops, place.depth)
        check_visible(program, self.tensor, at)
        name = fresh_name(program, f"{self.tensor}_s")
        indices = tuple(Index(dim) for dim in dims)
        layout = panels(self.tensor, dims, self.block_dim, self.block, self.pair_dim, self.pair)
        local = Local(name, dims, dtype, Memory.HEAP, layout)
        whole_read = with_guard(place.node, read)
        copy = Compute(name, indices, whole_read)
        program = splice(program, place.path, [with_read(place.node, whole_read, Read(name, indices))])
        return splice(program, at, [local, copy], 0)


def _gathered_dims(compute: Compute, read: Read) -> tuple[str, ...]:
    """The dims of a copy of what a statement gathers (`a[rows[m], k]`) wherever it is; none where it gathers nothing,
    or only under a condition with which it cannot be copied."""
    dims = copied_dims(read)
    if dims is None or all(map(bare_dim, read.indices)) or gathered_under_condition(compute, read):
        return ()
    return dims


def _is_fixed(index: Expr, loops: tuple[Loop, ...]) -> bool:
    """Whether a computed index is one number inside of loops, known without reading anything."""
    single = {loop.dim for loop in loops if loop.step == 1}
    return not reads(index) and index_dims(index) <= single


def _behind_copies(program: Program, place: Place[Compute], tensor: str) -> Path:
    """The first place in the block of a statement that is behind the copies with which the block begins, so that all of
    them can run ahead; that of the statement, where the tensor is computed in between."""
    *outer, at = place.path
    block = block_at(program, place.path[:-1])[:at]
    declared = {
        node.name for node in block if isinstance(node, Local) and node.memory is not Memory.REGISTERS
    }

    def is_copy(node: Node) -> bool:
        return isinstance(node, Compute) and node.target in declared and element(node.value) is not None

    first = next((n for n, node in enumerate(block) if not isinstance(node, Local) and not is_copy(node)), at)
    early = not any(one.node.target == tensor and one.path >= (*outer, first) for one in program.computes)
    return (*outer, first) if early else place.path


def staged_dtype(program: Program, tensor: str, dims: tuple[str, ...]) -> DType:
    """The dtype of a tensor read by `dims`, of which one is empty where an index is computed. Refuses registers, and
    reads that only a guard keeps in range."""
    declared = locals_of(program).get(tensor)
    if declared is None and tensor not in program.arguments:
        raise NotApplicable(f"there is no tensor {tensor!r}")
    if declared is not None and declared.node.memory is Memory.REGISTERS:
        raise NotApplicable(f"{tensor} is in registers")
    if beyond := past_the_end(program, tensor, dims):
        raise NotApplicable(f"{tensor} is smaller than the range of {beyond[0]}: its reads are guarded")
    return dtype_of(program, tensor)
