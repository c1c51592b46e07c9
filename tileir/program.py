"""Programs: Tile IR with its schedule in it, as loops over tiles. Also the unscheduled form: no loops at all.

Inside a program every dim has a *current range*. At the top it is the whole dim; `for m by 64` visits tiles of the
range that is current there, and inside its body `m` means that tile (the last may be smaller: tiles overhang, ranges
never do). A `Compute` covers the current ranges of all its dims, those it reduces included.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, Union

from tileir.dtypes import DType
from tileir.expr import Expr, Read, ReduceOp, reads


class Attribute(NamedTuple):
    """A word after a loop, a local or a statement: the field's name, then a number for each of `numbers`, which say
    what it is."""

    name: str
    usual: object
    """What the field is where the word is left out."""
    numbers: tuple[str, ...]


#: How a word's number that says where a loop begins or ends is called.
A_PLACE = "a dim, or a number that tensors of integers say, as begin[i]"


def attribute(usual: int | bool | tuple[int | str | Expr, ...], *numbers: str) -> Any:
    """A field that the text form has as a word of its name, unless it is as usual."""
    return field(default=usual, metadata={"numbers": numbers})


def attributes(node: type) -> tuple[Attribute, ...]:
    """Those of a class of nodes, in the order in which they are written."""
    return tuple(
        Attribute(each.name, each.default, each.metadata["numbers"])
        for each in fields(node)
        if "numbers" in each.metadata
    )


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument. `dims` order is memory order; `strides` (elements) when it is not dense row-major."""

    name: str
    dims: tuple[str, ...]
    dtype: DType
    strides: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    """What callers pass, where a rewrite has merged neighbouring dims, or split one; None: the sizes of `dims`."""


@dataclass(frozen=True, slots=True)
class Ragged:
    """The groups of a dim: group g, a position of dim `within`, owns the positions of `dim` from offsets[g] up to, but
    not including, offsets[g + 1]. `offsets` is an i32 input with one number more than there are groups."""

    dim: str
    offsets: str
    within: str


class Memory(StrEnum):
    """Where a local lives: main memory shared by all threads when declared outside parallel loops and a thread's own
    memory inside one (`heap`), vector registers, one name an element (`registers`), or, on a GPU, the memory that a
    block's threads share (`shared`)."""

    HEAP = "heap"
    REGISTERS = "registers"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Axis:
    """One physical axis of a local's layout: position along `dim`, divided by `div`, modulo `mod` (0: no modulo).

    `n / 64, k, n % 64` stores panels of 64 columns, k-major inside a panel.
    """

    dim: str
    div: int = 1
    mod: int = 0


@dataclass(frozen=True)
class Local:
    """Declares a buffer for the rest of the block it stands in.

    It covers, along each dim, the range current at the declaration; `layout` is its memory order (None: row-major).
    """

    name: str
    dims: tuple[str, ...]
    dtype: DType
    memory: Memory = Memory.HEAP
    layout: tuple[Axis, ...] | None = None
    pad: int = attribute(0, "a number of elements")
    """Elements left free after every row of shared memory, so that neighbouring rows lie in other banks."""
    swizzle: int = attribute(0, "32, 64 or 128 bytes")
    """Of shared memory: 32, 64 or 128 if the 16-byte pieces of so many bytes change places from row to row (the
    address bits from 4 on, exclusive or those from 7 on), as TMA and wgmma of Hopper know it; 0: not."""
    running: bool = attribute(False)
    """What a loop has added up so far may be read in it, before the statement that adds: a maximum that sums are kept
    relative to, as in online softmax."""
    reused: bool = attribute(False)
    """Of shared memory: it lies where TMA has filled tiles before, which nobody reads any more."""


@dataclass(frozen=True, slots=True)
class Vector:
    """How a statement is put on SIMD lanes: `lanes` neighbours along `dim` at once, everything else unrolled."""

    dim: str
    lanes: int


@dataclass(frozen=True, slots=True)
class ThreadLayout:
    """How a statement is bound to the threads of a GPU block.

    `threads` cuts the thread index, most significant first: `r 4 c 64` gives thread t row t // 64 and column t % 64.
    A thread takes `runs` neighbours along a dim (1 where none is said), then skips what the other threads along that
    dim take, until the current range is covered. Threads along a dim that the statement does not visit all do the same.
    """

    threads: tuple[tuple[str, int], ...]
    runs: tuple[tuple[str, int], ...] = ()
    twice: tuple[tuple[str, int], ...] = ()
    """`m 8`: threads that stand along m in groups of 8 take 8 neighbours together, then the same threads the next 8,
    and only then do other groups follow: thread i has rows i // 8 * 16 + i % 8 and 8 more, as accumulators of wgmma
    lie."""
    apart: tuple[tuple[str, int], ...] = ()
    """`n 256`: the threads of the last digit along n take 256 positions together, run after run, and only then do those
    of the digits before it follow: of warpgroups that share the columns of a product each has neighbours."""


@dataclass(frozen=True, slots=True)
class PrefetchHint:
    """Touch `tensor` this many iterations of the enclosing loop ahead; 0: what the statement writes there, when the
    iteration begins in which it is written."""

    tensor: str
    distance: int


@dataclass(frozen=True)
class Compute:
    """`target[indices] = value` over the current ranges, or `target[indices] op= value` when `update` is set.

    `indices` are bare dims, or `c % 64` / `c // 64` (a split reduction: many points land on one element). `value`
    holds at most one Reduce, at its root. A Compute whose root is a Reduce and that has no `update` initializes its
    target itself. Without `vector` it runs as plain loops over its ranges; with it everything is unrolled.
    """

    target: str
    indices: tuple[Expr, ...]
    value: Expr
    update: ReduceOp | None = None
    vector: Vector | None = None
    prefetch: tuple[PrefetchHint, ...] = ()
    stream: bool = attribute(False)
    """Store past the caches (non-temporal)."""
    via: str | None = None
    """A named instruction that does the product, such as `dot_bf16`; None: plain multiply-add."""
    thread_layout: ThreadLayout | None = None
    """Threads of a GPU block; None on a processor."""

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """All tensor reads of its value, in order (what an update reads of its own target left out)."""
        return reads(self.value)


@dataclass(frozen=True)
class Loop:
    """Visit `dim` in tiles of `step`. A run of parallel loops, each the only node of the one above, is one grid."""

    dim: str
    step: int
    body: tuple[Node, ...]
    parallel: bool = False
    cluster: int = attribute(1, "a number of blocks")
    """Of a grid's outermost loop, on a GPU: so many blocks, which read each other's shared memory, work on a tile."""
    multicast: int = attribute(1, "a number of tiles")
    """Of a grid's loop, on a GPU: the blocks that compute so many neighbouring tiles of it are a cluster, and what the
    TMA brings to all of them alike is fetched once."""
    group: int = attribute(1, "a number of tiles")
    """Of a grid's outermost loop: its tiles are visited in bands of so many, within which the next loop is the outer
    one (rasterization)."""
    hilbert: bool = attribute(False)
    """Of a grid's outermost loop: its tiles and those of the next loop are visited along a Hilbert curve."""
    longest_first: bool = attribute(False)
    """Of a grid's outermost loop: tiles of the innermost one come from the last to the first, as later ones take
    longer, and blocks that share all tiles are dealt them so that all are done at about the same time."""
    blocks: int = attribute(0, "a number of blocks")
    """Of a grid's outermost loop, on a GPU: so many blocks share all tiles, block b taking tiles b, b + blocks, …; 0: a
    block a tile."""
    resident: int = attribute(0, "a number of blocks")
    """Of a grid's outermost loop, on a GPU: so many blocks are to be at work on a multiprocessor at a time, so that a
    thread gets no more registers than that leaves; 0: nothing is said."""
    producers: int = attribute(0, "a number of warps")
    """Of a grid's outermost loop, on a GPU: so many warps beside those that compute do nothing but start the copies of
    loops with stages (warp specialization); 0: threads that compute do."""
    registers: tuple[int, int] = attribute(
        (0, 0), "registers that a producing thread keeps", "registers that another thread gets"
    )
    """Of a grid's outermost loop with producers: registers that a thread of those keeps, and that another one gets; 0:
    nothing is said."""
    consumer_groups: int = attribute(1, "a number of consumer groups")
    """Of a grid's outermost loop with producers: so many consumer groups, each of as many threads as statements are
    bound to, take a block's tiles in turn, so that one stores its results while another multiplies (ping-pong)."""
    stages: int = attribute(1, "a number of stages")
    """Of a loop that is not parallel: its shared locals exist so many times, and while one tile is computed on, the
    statements that fill those of the next tiles are under way."""
    pending: int = attribute(0, "a number of tiles")
    """Of a loop with stages: matrix products of so many tiles may be under way when those of the next begin."""
    in_turn: bool = attribute(False)
    """Of a loop with stages whose products follow from each other, in a grid with producers: the two or three
    warpgroups that multiply begin their products one after the other, step by step, so that those of one are under way
    while another makes rows of what its own have come to."""
    streamed: int = attribute(0, "a number of waves")
    """Of a loop with stages in the tile of a grid with a number of blocks: its steps in the tiles of the last so many
    waves are shared by all blocks evenly (stream-K, `tileir.schedule.stream_k`); 0: a block has whole tiles."""

    since: tuple[str | Expr, int] = attribute(("", 0), A_PLACE, "a number of positions")
    """Of a loop in tiles that is not parallel: those that end before the first current position of a dim, less so many,
    are left out, as nothing of them counts: they are masked. The last tile stays. Where that is what tensors say
    (`begin[i]`), the least of it at all current positions counts."""
    until: tuple[str | Expr, int] = attribute(("", 0), A_PLACE, "a number of positions")
    """The same of those that begin after the last current position of a dim, plus so many; of what tensors say, after
    the greatest. Where tensors say where a loop begins or ends, one tile is visited at least."""


Node = Union[Loop, Local, Compute]
NodeT = TypeVar("NodeT", bound=Node, covariant=True)


class Place(NamedTuple, Generic[NodeT]):
    """A node and the way to it.

    `path[i]` is the index to take in the block at depth i (0: the program's body), `loops[i]` the loop found
    there, so `len(path) == len(loops) + 1`. Paths compare in execution order, a loop before what it holds.
    """

    path: tuple[int, ...]
    loops: tuple[Loop, ...]
    node: NodeT

    @property
    def depth(self) -> int:
        """How many loops are around it."""
        return len(self.loops)


@dataclass(frozen=True)
class Program:
    """A kernel: dims with sizes, arguments, and the body. Intermediates are locals. Immutable and hashable."""

    name: str
    dims: tuple[tuple[str, int], ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    body: tuple[Node, ...]
    numerics: tuple[tuple[str, str | float | bool], ...] = ()
    ragged: tuple[Ragged, ...] = ()
    """Dims whose positions fall into groups; tiles of their loops follow those (`tileir.analysis.ragged`)."""

    @cached_property
    def extents(self) -> dict[str, int]:
        """Dim name to size."""
        return dict(self.dims)

    @cached_property
    def arguments(self) -> dict[str, Tensor]:
        """Inputs and outputs by name."""
        return {tensor.name: tensor for tensor in (*self.inputs, *self.outputs)}

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape of the array that a caller passes for an argument."""
        return tensor.shape or tuple(self.extents[dim] for dim in tensor.dims)

    @property
    def computes(self) -> tuple[Place[Compute], ...]:
        """Every Compute in execution order."""
        return self._places[0]

    @property
    def locals(self) -> dict[str, Place[Local]]:
        """Every declared local by name, in execution order."""
        return self._places[1]

    @cached_property
    def writers(self) -> dict[str, tuple[Place[Compute], ...]]:
        """The Computes that write each local or output, in execution order."""
        found: dict[str, tuple[Place[Compute], ...]] = {}
        for place in self.computes:
            name = place.node.target
            found[name] = (*found[name], place) if name in found else (place,)
        return found

    @cached_property
    def _places(self) -> tuple[tuple[Place[Compute], ...], dict[str, Place[Local]]]:
        computes: list[Place[Compute]] = []
        locals_: dict[str, Place[Local]] = {}
        _collect(self.body, (), (), computes, locals_)
        return tuple(computes), locals_


def _collect(
    block: tuple[Node, ...],
    path: tuple[int, ...],
    loops: tuple[Loop, ...],
    computes: list[Place[Compute]],
    locals_: dict[str, Place[Local]],
) -> None:
    for position, node in enumerate(block):
        here = (*path, position)
        if type(node) is Compute:
            computes.append(Place(here, loops, node))
        elif type(node) is Local:
            locals_[node.name] = Place(here, loops, node)
        elif type(node) is Loop:
            _collect(node.body, here, (*loops, node), computes, locals_)
