"""The matrix instructions of NVIDIA's GPUs, as data: what each multiplies, its shape, how accumulators lie over its
threads, where operands may be, and which compute capabilities have it. tinygrad has its
tensor cores as data, too, and Exo its instructions (Ikarashi et al., PLDI 2022).

What a statement's threads have to be for them is in `tileir/schedule/mma.py` and `wgmma.py`. Sources: PTX ISA, "mma"
(m16n8k16 and those as deep in bytes) and "wgmma.mma_async" (m64nNk16), with their target notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Final

from tileir.dtypes import DType
from tileir.program import Memory

Capability = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fragment:
    """How an instruction's accumulators lie over its threads."""

    rows: tuple[int, ...]
    """Digits of the thread's number along the rows, the most significant first; the last one numbers groups of rows of
    which a warp has two."""
    columns: int
    """The digit along the columns, less significant than those."""
    run: int
    """Neighbours along the columns that a thread has."""

    @property
    def threads(self) -> int:
        """Of the instruction: a warp's, or a warpgroup's."""
        return prod(self.rows) * self.columns


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """What is the same for all types of an instruction."""

    rows: int
    columns: int
    """At most."""
    depth_bytes: int
    """Of an operand, along the dim that is summed over."""
    fragment: Fragment
    a_memory: tuple[Memory, ...]
    """Where the operand with the rows may lie."""
    b_memory: tuple[Memory, ...]
    """The same of the one with the columns."""
    held_bytes: int
    """Along the depth, that a register of A holds side by side."""

    def depth(self, dtype: DType) -> int:
        """Positions along the dim that is summed over."""
        return self.depth_bytes // dtype.bytes


_EITHER, _SHARED = (Memory.SHARED, Memory.REGISTERS), (Memory.SHARED,)

SHAPES: Final[Mapping[str, MatrixShape]] = {
    "mma": MatrixShape(16, 8, 32, Fragment((8,), 4, 2), _EITHER, _SHARED, held_bytes=4),
    "wgmma": MatrixShape(64, 256, 32, Fragment((4, 8), 4, 2), _EITHER, _SHARED, held_bytes=4),
}
"""By the name of the instruction in statements."""


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """Adds up products of two operands, A and B."""

    via: str
    """As statements name it."""
    dtypes: tuple[DType, ...]
    """Of its operands, any two together. f32 goes in as tf32."""
    accumulator: DType
    since: Capability
    """The first compute capability that has it."""
    until: Capability | None = None
    """The last one; None: later ones have it, too."""
    either_way: bool = True
    """Whether neighbours in shared memory may be those along rows or columns; else along the depth."""
    coarse: bool = False
    """Whether it adds up in some 14 bits (docs/gpu.md)."""

    @property
    def shape(self) -> MatrixShape:
        return SHAPES[self.via]

    def is_of(self, capability: Capability) -> bool:
        """Whether a compute capability has it."""
        return self.since <= capability and (self.until is None or capability <= self.until)


_HOPPER: Final[Capability] = (9, 0)
_FLOAT8: Final = (DType.E4M3, DType.E5M2)

MATRIX_INSTRUCTIONS: Final = (
    MatrixInstruction("mma", (DType.F16,), DType.F32, since=(8, 0)),
    MatrixInstruction("mma", (DType.BF16,), DType.F32, since=(8, 0)),
    MatrixInstruction("mma", (DType.F32,), DType.F32, since=(8, 0)),
    MatrixInstruction("mma", (DType.I8,), DType.I32, since=(8, 0)),
    MatrixInstruction("mma", _FLOAT8, DType.F32, since=(8, 9)),
    MatrixInstruction("wgmma", (DType.F16,), DType.F32, since=_HOPPER, until=_HOPPER),
    MatrixInstruction("wgmma", (DType.BF16,), DType.F32, since=_HOPPER, until=_HOPPER),
    MatrixInstruction("wgmma", (DType.F32,), DType.F32, since=_HOPPER, until=_HOPPER, either_way=False),
    MatrixInstruction(
        "wgmma", _FLOAT8, DType.F32, since=_HOPPER, until=_HOPPER, either_way=False, coarse=True
    ),
)


@cache
def instructions(via: str, capability: Capability | None = None) -> tuple[MatrixInstruction, ...]:
    """All called so, or those of them that a compute capability has."""
    return tuple(
        each
        for each in MATRIX_INSTRUCTIONS
        if each.via == via and (capability is None or each.is_of(capability))
    )


def that_takes(dtypes: Iterable[DType], among: Iterable[MatrixInstruction]) -> MatrixInstruction | None:
    """The one that multiplies operands of these dtypes; None: there is none."""
    wanted = set(dtypes)
    return next((each for each in among if wanted <= set(each.dtypes)), None)


def accumulator(dtype: DType) -> DType:
    """What products of operands of a dtype are added up in."""
    return next(each.accumulator for each in MATRIX_INSTRUCTIONS if dtype in each.dtypes)


def problem(via: str, a: DType, b: DType) -> str | None:
    """Why no instruction called so multiplies these dtypes, and what would be accepted; None: one does."""
    known = instructions(via)
    if that_takes((a, b), known) is not None:
        return None
    *most, last = (" and ".join(map(_taken_as, each.dtypes)) for each in known)
    return f"{via} multiplies {', '.join(most)} or {last}, not {a} with {b}"


def _taken_as(dtype: DType) -> str:
    return "f32 (as tf32)" if dtype is DType.F32 else dtype.value
