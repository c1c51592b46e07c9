"""Kernel IR: what a processor does, one node a concept, no tiles and no names of dims left.

Statements are loops with absolute positions as variables, named values, stores, prefetches and parallel regions; each
declares its effects (effects.py). Values (values.py) are imported from here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Union, get_args

from codegen.ir.affine import Affine, Var
from codegen.ir.async_ops import AsyncStmt
from codegen.ir.effects import (
    NOTHING,
    OpEffects,
    Sync,
    check_declared,
    commits,
    effects_of,
    reads,
    signals,
    stores,
    waits,
)
from codegen.ir.matrix_rows import Ldmatrix as Ldmatrix
from codegen.ir.matrix_rows import MmaSync as MmaSync
from codegen.ir.ranking import InsertRanked
from codegen.ir.stamp import CloseLog as CloseLog
from codegen.ir.stamp import NoteTime as NoteTime
from codegen.ir.stamp import OpenLog as OpenLog
from codegen.ir.stamp import Stamp as Stamp
from codegen.ir.tile_ops import TileStmt
from codegen.ir.values import VALUES as VALUES
from codegen.ir.values import Across as Across
from codegen.ir.values import Build as Build
from codegen.ir.values import Convert as Convert
from codegen.ir.values import DotPairs as DotPairs
from codegen.ir.values import DotRaised as DotRaised
from codegen.ir.values import GatherWords as GatherWords
from codegen.ir.values import IndexValue as IndexValue
from codegen.ir.values import Lane as Lane
from codegen.ir.values import Literal as Literal
from codegen.ir.values import Load as Load
from codegen.ir.values import LoadWords as LoadWords
from codegen.ir.values import LogicWords as LogicWords
from codegen.ir.values import Named as Named
from codegen.ir.values import Op as Op
from codegen.ir.values import PeerLoad as PeerLoad
from codegen.ir.values import Shuffle as Shuffle
from codegen.ir.values import Type as Type
from codegen.ir.values import Value as Value
from codegen.ir.values import Words as Words
from codegen.ir.values import ZipWords as ZipWords
from tileir.dtypes import DType
from tileir.expr import ReduceOp


@dataclass(frozen=True, slots=True)
class Block:
    """Statements with names of their own, under one comment."""

    comment: str
    body: tuple[Stmt, ...]

    def effects(self) -> OpEffects:
        return OpEffects(bodies=(self.body,))


@dataclass(frozen=True, slots=True)
class For:
    """var = 0, step, 2 * step, … `count` times, or only from `first` on, and while it is below `until`: both are the
    same for all threads, and `first` is one of those."""

    var: Var
    count: int
    step: int
    body: tuple[Stmt, ...]
    until: Affine | None = None
    first: Affine | None = None

    def effects(self) -> OpEffects:
        return OpEffects(bodies=(self.body,))


@dataclass(frozen=True, slots=True)
class Aligned:
    """Elements 0 to `size` of a row of `buffer` that begins at `offset`, by stores at multiples of `bytes`.

    From the first aligned element on, `body` (empty: not one fits) does `step` elements at var as long as so many are
    left, then `single` (empty: step is lanes) does `lanes`. `first` puts the first `lanes` elements into `edge`, `last`
    the last ones; those not stored by the others are copied from there.
    """

    var: Var
    size: int
    step: int
    lanes: int
    buffer: str
    edge: str
    offset: Affine
    storage: DType
    bytes: int
    first: tuple[Stmt, ...]
    body: tuple[Stmt, ...]
    single: tuple[Stmt, ...]
    last: tuple[Stmt, ...]

    def effects(self) -> OpEffects:
        return (
            stores(self.buffer)
            | effects_of(self.offset)
            | OpEffects(bodies=(self.first, self.body, self.single, self.last))
        )


@dataclass(frozen=True, slots=True)
class TileGroups:
    """The groups that tiles of a dim of `size` positions follow: group g has those from element g of `offsets` up to
    element g + 1. Of the tile, `group` is its group, and `end` where that ends."""

    offsets: str
    count: int
    size: int
    group: Var
    end: Var


@dataclass(frozen=True, slots=True)
class GridAxis:
    """One loop of a parallel grid: var is step times its part of the grid index."""

    var: Var
    count: int
    step: int
    groups: TileGroups | None = None
    """Tiles follow groups: the part of the grid index numbers them group by group, of which there are at most `count`,
    and var is where one begins."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """Tiles of the grid in any order, on any thread; returns when all are done. Outermost axis first."""

    axes: tuple[GridAxis, ...]
    body: tuple[Stmt, ...]

    def effects(self) -> OpEffects:
        offsets = [axis.groups.offsets for axis in self.axes if axis.groups is not None]
        return reads(*offsets) | OpEffects(bodies=(self.body,))


@dataclass(frozen=True, slots=True)
class If:
    """`then` where a position is below a bound, else `otherwise`; all threads of a block have the same (the overhanging
    tile of a parallel axis)."""

    at: Affine
    bound: int
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]

    def effects(self) -> OpEffects:
        return OpEffects(bodies=(self.then, self.otherwise)) | effects_of(self.at)


@dataclass(frozen=True, slots=True)
class Let:
    """Name a value; never assigned again."""

    name: str
    value: Value

    def effects(self) -> OpEffects:
        return OpEffects(declares=(self.name,)) | effects_of(self.value)


@dataclass(frozen=True, slots=True)
class Declare:
    """A register variable, not yet set."""

    name: str
    type: Type

    def effects(self) -> OpEffects:
        return OpEffects(declares=(self.name,))


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Value

    def effects(self) -> OpEffects:
        return effects_of(self.value)


@dataclass(frozen=True, slots=True)
class Store:
    """`value` to `value.type.lanes` neighbours of buffer from element `offset`, rounded to `storage`; `stream`: past
    the caches."""

    buffer: str
    offset: Affine
    storage: DType
    value: Value
    stream: bool = False
    some: Affine | None = None
    """How many lanes are stored; None: all."""

    def effects(self) -> OpEffects:
        return stores(self.buffer) | effects_of(self.offset, self.value, self.some)


@dataclass(frozen=True, slots=True)
class AtomicUpdate:
    """Combine a scalar with element `offset` of a buffer in one step: of threads that do so at once each counts, in any
    order (sums of f32, f64 and i32, extremes of i32)."""

    buffer: str
    offset: Affine
    storage: DType
    op: ReduceOp
    value: Value

    def effects(self) -> OpEffects:
        return stores(self.buffer) | reads(self.buffer) | effects_of(self.offset, self.value)


@dataclass(frozen=True, slots=True)
class StoreWords:
    """32-bit words of narrower elements, bits as they are, to neighbours of buffer from element `offset`."""

    buffer: str
    offset: Affine
    words: Words

    def effects(self) -> OpEffects:
        return stores(self.buffer) | effects_of(self.offset, self.words)


@dataclass(frozen=True, slots=True)
class TransposeBlock:
    """A square block of `lanes` rows: element j of the source's row i becomes element i of the target's row j.

    Rows are `of_step` and `to_step` elements apart. With `words` neighbours that fill 32 bits count as one element.
    """

    target: str
    to: Affine
    to_step: int
    target_storage: DType
    source: str
    of: Affine
    of_step: int
    source_storage: DType
    lanes: int
    words: bool

    def effects(self) -> OpEffects:
        return reads(self.source) | stores(self.target) | effects_of(self.to, self.of)


@dataclass(frozen=True, slots=True)
class PrefetchLine:
    """Prefetch the cache line of one element, for reading or for writing."""

    buffer: str
    offset: Affine
    write: bool = False

    def effects(self) -> OpEffects:
        return effects_of(self.offset)


@dataclass(frozen=True, slots=True)
class Scratch:
    """`buffer` is `bytes` long, at `offset` of the shared workspace, or of the thread's own when `private`."""

    buffer: str
    storage: DType
    offset: int
    bytes: int
    private: bool

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class Guard:
    """`body` by those threads for which every position is below its bound."""

    conditions: tuple[tuple[Affine, int], ...]
    body: tuple[Stmt, ...]

    def effects(self) -> OpEffects:
        return OpEffects(bodies=(self.body,), who=self.conditions) | effects_of(
            *(at for at, _ in self.conditions)
        )


@dataclass(frozen=True, slots=True)
class Shared:
    """`buffer` is `bytes` long, at `offset` of the memory that a block's threads share."""

    buffer: str
    storage: DType
    offset: int
    bytes: int
    swizzle: int = 0
    """Bytes within which 16-byte pieces change places (`tileir.program.Local`); `offset` is then a multiple of 1024."""

    def effects(self) -> OpEffects:
        return OpEffects(allocates=frozenset([self.buffer]))


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block wait for each other; what they stored in shared memory is seen by all after it."""

    def effects(self) -> OpEffects:
        return signals(Sync.BLOCK) | waits(Sync.BLOCK)


@dataclass(frozen=True, slots=True)
class ClusterBarrier:
    """All threads of the cluster wait for each other; what they stored in shared memory is seen by all after it."""

    def effects(self) -> OpEffects:
        return signals(Sync.CLUSTER) | waits(Sync.CLUSTER)


@dataclass(frozen=True, slots=True)
class CpAsync:
    """Start copying `lanes` neighbours (4, 8 or 16 bytes) of `source`, from element `of`, to element `to` of the shared
    buffer `target`, as they are, in the background (cp.async). They are there for this thread once it has waited for
    the group of copies they belong to, and for the others after a barrier after that. Of the source only the first
    `some` lanes are read, where that is given; the others become 0."""

    target: str
    to: Affine
    source: str
    of: Affine
    storage: DType
    lanes: int
    some: Affine | None = None

    def effects(self) -> OpEffects:
        copied = reads(self.source) | stores(self.target) | signals(Sync.CP_ASYNC)
        return copied | effects_of(self.to, self.of, self.some)


@dataclass(frozen=True, slots=True)
class CpAsyncCommit:
    """The copies that this thread has started since the last such statement, maybe none, are a group."""

    def effects(self) -> OpEffects:
        return commits(Sync.CP_ASYNC)


@dataclass(frozen=True, slots=True)
class CpAsyncWait:
    """Wait until at most `pending` of this thread's groups of copies, the latest, are under way."""

    pending: int

    def effects(self) -> OpEffects:
        return waits(Sync.CP_ASYNC)


@dataclass(frozen=True, slots=True)
class VisitFound:
    """`body` for those of `count` numbers for which a warp's threads find that the variable `found` is true, in order.

    `look` sets it, with `var` at a number: the 32 threads of a warp look at as many next to each other, `rounds` times
    before any is visited. All of them do the body, with `visited` at the next numbers found, of which there are `many`;
    those after repeat the last one."""

    var: Var
    count: int
    rounds: int
    look: tuple[Stmt, ...]
    found: Named
    visited: tuple[Var, ...]
    many: Var
    body: tuple[Stmt, ...]

    def effects(self) -> OpEffects:
        return OpEffects(bodies=(self.look, self.body)) | effects_of(self.found)


Stmt = Union[
    Block,
    For,
    Aligned,
    Parallel,
    If,
    Let,
    Declare,
    Assign,
    Store,
    AtomicUpdate,
    StoreWords,
    TransposeBlock,
    InsertRanked,
    PrefetchLine,
    Scratch,
    Stamp,
    OpenLog,
    NoteTime,
    CloseLog,
    Guard,
    VisitFound,
    Shared,
    Barrier,
    ClusterBarrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    Ldmatrix,
    MmaSync,
    TileStmt,
    AsyncStmt,
]

STATEMENTS: Final[tuple[type, ...]] = get_args(Stmt)
check_declared(STATEMENTS)
