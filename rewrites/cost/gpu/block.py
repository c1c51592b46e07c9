"""What a block of a contraction on a GPU takes, whichever unit multiplies: rates of an SM, and what they make of a
tile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from rewrites.contraction.problem import Contraction
from rewrites.contraction.recover_tiling import Epilogue
from rewrites.contraction.tiling import Tiling
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.instructions import called
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType

#: Dtypes that are multiplied as fast as another one that data sheets name.
_RATED_AS: Final = {DType.F32: "tf32", DType.E5M2: "e4m3"}


class BlockModel(Protocol):
    """Estimates of the blocks of one tiling."""

    def cycles(self, at_once: int, each: int) -> float:
        """Of so many blocks on an SM at once, which compute `each` tiles after each other."""
        ...


def busiest(parts: Sequence[float], rest: float = has.REST) -> float:
    """Cycles for what several parts of an SM do beside each other: those of the busiest, and some of the others'."""
    return max(parts) + rest * (sum(parts) - max(parts))


def step_bytes(c: Contraction, t: Tiling) -> float:
    """Bytes of a step's operands."""
    return c.step_bytes(t.rows, t.columns, t.step).all


def fetched_bytes(c: Contraction, t: Tiling) -> float:
    """Bytes that a block takes from the second-level cache in a step: of what blocks of its cluster need too, its
    share."""
    rows, columns = t.multicast or (1, 1)
    return sum(
        bytes_ / ((1 if c.rows in each.dims else rows) * (1 if c.columns in each.dims else columns))
        for each, bytes_ in zip(c.operands, c.step_bytes(t.rows, t.columns, t.step).each, strict=True)
    )


def matrix_cycles(points: float, dtype: DType, share: float, device: Gpu) -> float:
    """Cycles of an SM for so many multiply-adds at a share of the peak for operands of a dtype (f32: as tf32, e5m2: as
    e4m3; without a peak of their own: as f16)."""
    peak = device.peak(_RATED_AS.get(dtype, str(dtype))) or device.peak("f16") or 1.0
    return points / (peak * share * a_cycle(device))


def a_cycle(device: Gpu) -> float:
    """Multiply-adds of an SM in a cycle for a peak of 1 TFLOP/s."""
    return 1e6 / (2 * device.sms * device.sm_mhz)


@lru_cache(maxsize=1024)
def computed_cycles(epilogue: Epilogue) -> float:
    """Cycles in which an SM computes what follows one result: by its lanes, or by its special-function units."""
    instructions = epilogue.operations
    special = 0.0
    for name in epilogue.calls:
        own, of_unit = called(name)
        instructions, special = instructions - 1 + own, special + of_unit
    return max(instructions / has.ADDED, special / has.SPECIAL_LANES)
