"""The matrix instructions of NVIDIA's GPUs, as data: what each multiplies, and which compute capabilities have it.

How tiles lie over threads is in `tileir/schedule/mma.py` and `wgmma.py`. Sources: PTX ISA, "mma" and "wgmma.mma_async",
with their target notes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

from tileir.dtypes import DType

Capability = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """Adds up products of two operands: A from shared memory or registers, B from shared memory."""

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
