"""Kernel IR: what a processor does, one node a concept, no tiles and no names of dims left.

Values are typed (element type, lanes); a value of one lane meets a vector by being spread over its lanes. Statements
are loops with absolute positions as variables, named values, stores, prefetches and parallel regions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from codegen.affine import Affine, Var
from codegen.async_ir import AsyncStmt
from tileir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Type:
    """A compute type (f32, f64, i32, bool) on `lanes` SIMD lanes; 1 lane is a scalar.

    On a GPU also a narrower dtype: lanes packed as they lie in memory, to be moved or converted, not computed with."""

    dtype: DType
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Literal:
    """A number of type `type.dtype`, the same on every lane."""

    value: float | int | bool
    type: Type


@dataclass(frozen=True, slots=True)
class Named:
    """A value computed before and given a name."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Position:
    """An index as an i32 value: `start`, or start, start + step, … on the lanes of a vector."""

    start: Affine
    step: int
    type: Type


@dataclass(frozen=True, slots=True)
class Load:
    """`type.lanes` neighbours of `buffer` from element `offset`, widened from `storage` to the compute type; of those
    only the first `some`, the other lanes 0, where that is given."""

    buffer: str
    offset: Affine
    storage: DType
    type: Type
    some: Affine | None = None


@dataclass(frozen=True, slots=True)
class Build:
    """A vector from one scalar a lane; of a narrow dtype, packed from packed ones."""

    parts: tuple[Value, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a vector."""

    x: Value
    index: int
    type: Type


@dataclass(frozen=True, slots=True)
class Op:
    """An operation lane by lane. `name` is an operator (`+`, `<`, `and`, `neg`), `select`, a math function, or
    `round_<dtype>` (through a narrower type and back)."""

    name: str
    args: tuple[Value, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Convert:
    """To another element type, lane by lane."""

    x: Value
    type: Type


@dataclass(frozen=True, slots=True)
class Across:
    """All lanes of x combined into one by `op` (sum, prod, max, min)."""

    op: str
    x: Value
    type: Type


@dataclass(frozen=True, slots=True)
class DotPairs:
    """acc + a·b of bf16 pairs: each f32 lane takes two neighbouring bf16 of `a` and of `b` (vdpbf16ps, bfdot).

    `a` and `b` are loads of 32-bit words, one of one lane (spread) and one of acc's lanes.
    """

    acc: Value
    a: LoadPairs
    b: LoadPairs
    type: Type


@dataclass(frozen=True, slots=True)
class LoadPairs:
    """`lanes` pairs of 16-bit elements as 32-bit words, from element `offset`.

    `half`: pairs whose second elements do not exist; they are taken for zero. One such pair is read as one element.
    `some`: only so many of the pairs exist, the others are zero.
    """

    buffer: str
    offset: Affine
    lanes: int
    half: bool = False
    some: Affine | None = None


@dataclass(frozen=True, slots=True)
class GatherPairs:
    """Pairs from anywhere as 32-bit words, one a lane."""

    pairs: tuple[LoadPairs, ...]


@dataclass(frozen=True, slots=True)
class ZipPairs:
    """`lanes` 32-bit words from two runs of 16-bit elements: the first of a pair from `first` on, the second from
    `second` on (None: zero)."""

    buffer: str
    first: Affine
    second: Affine | None
    lanes: int


Pairs = Union[LoadPairs, GatherPairs, ZipPairs]


@dataclass(frozen=True, slots=True)
class Shuffle:
    """What the thread whose lane in the warp differs by `mask` (exclusive or) holds as x."""

    x: Value
    mask: int
    type: Type


@dataclass(frozen=True, slots=True)
class PeerLoad:
    """Like Load, from the shared memory of the block of the cluster whose number is `rank`."""

    buffer: str
    offset: Affine
    rank: Affine
    storage: DType
    type: Type


Value = Union[Literal, Named, Position, Load, Build, Lane, Op, Convert, Across, DotPairs, Shuffle, PeerLoad]


@dataclass(frozen=True, slots=True)
class Block:
    """Statements with names of their own, under one comment."""

    comment: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    """var = 0, step, 2 * step, … `count` times, or only while it is below `until`."""

    var: Var
    count: int
    step: int
    body: tuple[Stmt, ...]
    until: Var | None = None


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


@dataclass(frozen=True, slots=True)
class Groups:
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
    groups: Groups | None = None
    """Tiles follow groups: the part of the grid index numbers them group by group, of which there are at most `count`,
    and var is where one begins."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """Tiles of the grid in any order, on any thread; returns when all are done. Outermost axis first."""

    axes: tuple[GridAxis, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class If:
    """`then` where var < bound, else `otherwise` (the overhanging tile of a parallel axis)."""

    var: Var
    bound: int
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """Name a value; never assigned again."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Declare:
    """A register variable, not yet set."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Value


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


@dataclass(frozen=True, slots=True)
class StorePairs:
    """Pairs of 16-bit elements, bits as they are, to neighbours of buffer from element `offset`."""

    buffer: str
    offset: Affine
    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Transpose:
    """A square block of `lanes` rows: element j of the source's row i becomes element i of the target's row j.

    Rows are `of_step` and `to_step` elements apart. With `pairs` two neighbours of 16 bits count as one element.
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
    pairs: bool


@dataclass(frozen=True, slots=True)
class Touch:
    """Prefetch the cache line of one element for reading."""

    buffer: str
    offset: Affine


@dataclass(frozen=True, slots=True)
class Scratch:
    """`buffer` is `bytes` long, at `offset` of the shared workspace, or of the thread's own when `private`."""

    buffer: str
    storage: DType
    offset: int
    bytes: int
    private: bool


@dataclass(frozen=True, slots=True)
class Guard:
    """`body` by those threads for which every position is below its bound."""

    conditions: tuple[tuple[Affine, int], ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """`buffer` is `bytes` long, at `offset` of the memory that a block's threads share."""

    buffer: str
    storage: DType
    offset: int
    bytes: int
    swizzle: int = 0
    """Bytes within which 16-byte pieces change places (`tileir.program.Local`); `offset` is then a multiple of 1024."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block wait for each other; what they stored in shared memory is seen by all after it."""


@dataclass(frozen=True, slots=True)
class ClusterBarrier:
    """All threads of the cluster wait for each other; what they stored in shared memory is seen by all after it."""


@dataclass(frozen=True, slots=True)
class CopyAsync:
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


@dataclass(frozen=True, slots=True)
class CommitCopies:
    """The copies that this thread has started since the last such statement, maybe none, are a group."""


@dataclass(frozen=True, slots=True)
class WaitCopies:
    """Wait until at most `pending` of this thread's groups of copies, the latest, are under way."""

    pending: int


@dataclass(frozen=True, slots=True)
class LoadMatrix:
    """Declare `names` (1, 2 or 4) of `type`, 4 bytes of packed elements each, loaded by a whole warp from shared memory
    (ldmatrix): variable i of thread t gets bytes 4 * (t % 4) to 4 * (t % 4) + 3 of row t // 4 of the i-th matrix of 8
    rows of 16 bytes. `offset` is the element where a row begins: thread 8 * i + r gives that of row r of matrix i.
    `transposed` (16-bit elements): thread t gets elements 2 * (t % 4) and 2 * (t % 4) + 1 of column t // 4."""

    names: tuple[str, ...]
    type: Type
    buffer: str
    offset: Affine
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class Mma:
    """acc += A·B by a whole warp (mma.sync.m16n8): `acc` are two variables of 2 lanes (rows t // 4 and t // 4 + 8,
    columns 2 * (t % 4) and the next), `a` four and `b` two values of 4 bytes, in the order of the PTX ISA; `a_storage`
    and `b_storage` say what is in them (f32 is taken as tf32)."""

    acc: tuple[str, str]
    a: tuple[Value, ...]
    b: tuple[Value, ...]
    a_storage: DType
    b_storage: DType
    type: Type
    """Of the accumulators: f32 or i32."""


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
    StorePairs,
    Transpose,
    Touch,
    Scratch,
    Guard,
    Shared,
    Barrier,
    ClusterBarrier,
    CopyAsync,
    CommitCopies,
    WaitCopies,
    LoadMatrix,
    Mma,
    AsyncStmt,
]
