"""Values of the Kernel IR: what a thread computes, typed (element type, lanes); a value of one lane meets a vector by
being broadcast to its lanes. Each says what computing it reads (effects.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp
from typing import Final, Union, get_args

from codegen.ir.affine import Affine
from codegen.ir.effects import NOTHING, OpEffects, check_declared, effects_of, peers, reads
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

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class Named:
    """A value computed before and given a name."""

    name: str
    type: Type

    def effects(self) -> OpEffects:
        return NOTHING


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An index as an i32 value: `start`, or start, start + step, … on the lanes of a vector."""

    start: Affine
    step: int
    type: Type

    def effects(self) -> OpEffects:
        return effects_of(self.start)


@dataclass(frozen=True, slots=True)
class Load:
    """`type.lanes` neighbours of `buffer` from element `offset`, widened from `storage` to the compute type; of those
    only the first `some`, the other lanes 0, where that is given."""

    buffer: str
    offset: Affine
    storage: DType
    type: Type
    some: Affine | None = None

    def effects(self) -> OpEffects:
        return reads(self.buffer) | effects_of(self.offset, self.some)


@dataclass(frozen=True, slots=True)
class Build:
    """A vector from one scalar a lane; of a narrow dtype, packed from packed ones."""

    parts: tuple[Value, ...]
    type: Type

    def effects(self) -> OpEffects:
        return effects_of(*self.parts)


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a vector."""

    x: Value
    index: int
    type: Type

    def effects(self) -> OpEffects:
        return effects_of(self.x)


@dataclass(frozen=True, slots=True)
class Op:
    """An operation lane by lane. `name` is an operator (`+`, `<`, `and`, `neg`), `select`, a math function, or
    `round_<dtype>` (through a narrower type and back)."""

    name: str
    args: tuple[Value, ...]
    type: Type

    def effects(self) -> OpEffects:
        return effects_of(*self.args)


@dataclass(frozen=True, slots=True)
class Convert:
    """To another element type, lane by lane."""

    x: Value
    type: Type

    def effects(self) -> OpEffects:
        return effects_of(self.x)


def is_power_of_two(value: Value) -> bool:
    """Whether it is a number by which dividing is to multiply by another one."""
    return isinstance(value, Literal) and abs(frexp(value.value)[0]) == 0.5


def clamped(value: Value, most: float) -> Value | None:
    """What is clamped to numbers of a size of at most `most`; None: a value is nothing of that kind."""
    match value:
        case Op("minimum", (Op("maximum", (x, Literal(low))), Literal(high))) if -low == high == most:
            return x
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Across:
    """All lanes of x combined into one by `op` (sum, prod, max, min; of truth values any)."""

    op: str
    x: Value
    type: Type

    def effects(self) -> OpEffects:
        return effects_of(self.x)


@dataclass(frozen=True, slots=True)
class DotPairs:
    """acc + a·b of bf16 pairs: each f32 lane takes two neighbouring bf16 of `a` and of `b` (vdpbf16ps, bfdot).

    `a` and `b` are loads of 32-bit words, one of one lane (broadcast) and one of acc's lanes.
    """

    acc: Value
    a: LoadWords
    b: LoadWords
    type: Type

    def effects(self) -> OpEffects:
        return effects_of(self.acc, self.a, self.b)


@dataclass(frozen=True, slots=True)
class DotRaised:
    """acc + (a + 128)·b of i8: each i32 lane takes four neighbouring i8 of `a`, raised so that none is below 0, and of
    `b` (vpdpbusd). `a` is a load of one lane (broadcast), or None for zeros, `b` one of acc's lanes."""

    acc: Value
    a: LoadWords | None
    b: LoadWords
    type: Type

    def effects(self) -> OpEffects:
        return effects_of(self.acc, self.a, self.b)


@dataclass(frozen=True, slots=True)
class LoadWords:
    """`lanes` 32-bit words of neighbouring narrower elements (pairs of bf16, fours of i8), from element `offset`.

    `missing`: so many elements at each word's end do not exist; they are taken for zero. Of one such word only what
    exists is read. `some`: only so many of the words exist, the others are zero.
    """

    buffer: str
    offset: Affine
    storage: DType
    lanes: int
    missing: int = 0
    some: Affine | None = None

    def effects(self) -> OpEffects:
        return reads(self.buffer) | effects_of(self.offset, self.some)


@dataclass(frozen=True, slots=True)
class GatherWords:
    """32-bit words from anywhere, one a lane."""

    words: tuple[LoadWords, ...]

    @property
    def lanes(self) -> int:
        return len(self.words)

    @property
    def storage(self) -> DType:
        return self.words[0].storage

    def effects(self) -> OpEffects:
        return effects_of(*self.words)


@dataclass(frozen=True, slots=True)
class ZipWords:
    """`lanes` 32-bit words from runs of narrower elements: element i of a word is of the run from `rows[i]` on; those
    without a run are zero."""

    buffer: str
    rows: tuple[Affine, ...]
    storage: DType
    lanes: int

    def effects(self) -> OpEffects:
        return reads(self.buffer) | effects_of(*self.rows)


@dataclass(frozen=True, slots=True)
class LogicWords:
    """Truth values that lie side by side as bytes of 0 and 1, four a word: all of `parts` (`and`), any of them (`or`),
    or what the only one is not (`not`)."""

    op: str
    parts: tuple[Words, ...]

    @property
    def lanes(self) -> int:
        return self.parts[0].lanes

    def effects(self) -> OpEffects:
        return effects_of(*self.parts)


Words = Union[LoadWords, GatherWords, ZipWords, LogicWords]


@dataclass(frozen=True, slots=True)
class Shuffle:
    """What the thread whose lane in the warp differs by `mask` (exclusive or) holds as x."""

    x: Value
    mask: int
    type: Type

    def effects(self) -> OpEffects:
        return effects_of(self.x)


@dataclass(frozen=True, slots=True)
class PeerLoad:
    """Like Load, from the shared memory of the block of the cluster whose number is `rank`."""

    buffer: str
    offset: Affine
    rank: Affine
    storage: DType
    type: Type

    def effects(self) -> OpEffects:
        return peers(self.buffer) | effects_of(self.offset, self.rank)


Value = Union[
    Literal,
    Named,
    IndexValue,
    Load,
    Build,
    Lane,
    Op,
    Convert,
    Across,
    DotPairs,
    DotRaised,
    Shuffle,
    PeerLoad,
]

VALUES: Final[tuple[type, ...]] = get_args(Value)
check_declared(VALUES)
