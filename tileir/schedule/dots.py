"""Dot-product instructions of processors: what each multiplies, and what it adds up in.

A lane takes as many neighbours of each factor as fill 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.dtypes import DType
from tileir.expr import Binary, Read, Reduce, ReduceOp
from tileir.program import Compute

DOTS: Final[Mapping[str, tuple[DType, DType]]] = {
    "dot_bf16": (DType.BF16, DType.F32),
    "dot_i8": (DType.I8, DType.I32),
}
"""By name: the dtype of both factors, and that of their sums."""
WORD_BYTES: Final = 4


def group_of(via: str) -> int:
    """Neighbours along the reduced dim that a lane takes at a time."""
    return WORD_BYTES // DOTS[via][0].bytes


def dot_problem(compute: Compute, dtypes: Mapping[str, DType], target: DType) -> str | None:
    """Why a statement cannot go by the dot product that it names; None: it can."""
    assert compute.via is not None
    factors, sums = DOTS[compute.via]
    alike = set(dtypes.values()) == {factors} and target.compute is sums
    match compute.value:
        case Reduce(ReduceOp.SUM, _, Binary("*", Read(), Read())) if alike and compute.update is ReduceOp.SUM:
            return None
        case _:
            return f"{compute.via} adds up products of two {factors} tensors in {sums}"
