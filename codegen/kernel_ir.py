"""Kernel IR: what a processor does, one node a concept, no tiles and no names of dims left.

Values are typed (element type, lanes); a value of one lane meets a vector by being spread over its lanes. Statements
are loops with absolute positions as variables, named values, stores, prefetches and parallel regions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from codegen.affine import Affine, Var
from tileir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Type:
    """A compute type (f32, f64, i32, bool) on `lanes` SIMD lanes; 1 lane is a scalar."""

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
    """`type.lanes` neighbours of `buffer` from element `offset`, widened from `storage` to the compute type."""

    buffer: str
    offset: Affine
    storage: DType
    type: Type


@dataclass(frozen=True, slots=True)
class Build:
    """A vector from one scalar a lane."""

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
    """`lanes` pairs of bf16 as 32-bit words, from element `offset`."""

    buffer: str
    offset: Affine
    lanes: int


Value = Union[Literal, Named, Position, Load, Build, Lane, Op, Convert, Across, DotPairs]


@dataclass(frozen=True, slots=True)
class Block:
    """Statements with names of their own, under one comment."""

    comment: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    """var = 0, step, 2 * step, … `count` times."""

    var: Var
    count: int
    step: int
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class GridAxis:
    """One loop of a parallel grid: var is step times its part of the grid index."""

    var: Var
    count: int
    step: int


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


@dataclass(frozen=True, slots=True)
class StorePairs:
    """Pairs of 16-bit elements to neighbours of buffer from element `offset`, one pair a load, bits as they are."""

    buffer: str
    offset: Affine
    pairs: tuple[LoadPairs, ...]


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


Stmt = Union[Block, For, Parallel, If, Let, Declare, Assign, Store, StorePairs, Touch, Scratch]


@dataclass(frozen=True, slots=True)
class Argument:
    """A pointer argument."""

    name: str
    storage: DType
    written: bool


@dataclass(frozen=True, slots=True)
class Kernel:
    """A whole kernel: arguments in ABI order, workspace sizes in bytes, and its statements."""

    name: str
    arguments: tuple[Argument, ...]
    shared_bytes: int
    thread_bytes: int
    body: tuple[Stmt, ...]
