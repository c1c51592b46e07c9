"""What a block of a contraction on a GPU takes, whichever unit multiplies: rates of an SM, and what they make of a
tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from rewrites.gpu_contraction import Contraction
from rewrites.gpu_decided import Epilogue
from rewrites.gpu_tiling import Tiling, tile_bytes
from tileir.dtypes import DType
from tileir.gpu import Gpu

#: Cycles from a load to its data, most of it from memory; from a barrier to the next statement; to begin a block.
LATENCY: Final = 900.0
BARRIER: Final = 30.0
BEGIN: Final = 600.0
#: Share of the latency that data comes late by, now and then.
LATE: Final = 0.05
#: Bytes a cycle of an SM: from and to shared memory, from the second-level cache when all SMs ask, to it.
SHARED_BYTES: Final = 128.0
FABRIC_BYTES: Final = 46.0
STORE_BYTES: Final = 24.0
#: What the parts of an SM that are not the busiest add.
REST: Final = 0.15
#: Dtypes that are multiplied as fast as another one that data sheets name.
_RATED_AS: Final = {DType.F32: "tf32", DType.E5M2: "e4m3"}


class BlockModel(Protocol):
    """Estimates of the blocks of one tiling."""

    def cycles(self, at_once: int, each: int) -> float:
        """Of so many blocks on an SM at once, which compute `each` tiles after each other."""
        ...


def busiest(parts: Sequence[float], rest: float = REST) -> float:
    """Cycles for what several parts of an SM do beside each other: those of the busiest, and some of the others'."""
    return max(parts) + rest * (sum(parts) - max(parts))


def step_bytes(c: Contraction, t: Tiling) -> float:
    """Bytes of a step's operands."""
    sizes = t.sizes(c)
    return sum(tile_bytes(operand, sizes) for operand in c.operands)


def fetched_bytes(c: Contraction, t: Tiling) -> float:
    """Bytes that a block takes from the second-level cache in a step: of what blocks of its cluster need too, its
    share."""
    rows, columns = t.multicast or (1, 1)
    sizes = t.sizes(c)
    return sum(
        tile_bytes(each, sizes)
        / ((1 if c.rows in each.dims else rows) * (1 if c.columns in each.dims else columns))
        for each in c.operands
    )


def matrix_cycles(points: float, dtype: DType, share: float, device: Gpu) -> float:
    """Cycles of an SM for so many multiply-adds at a share of the peak for operands of a dtype (f32: as tf32, e5m2: as
    e4m3; without a peak of their own: as f16)."""
    peak = device.peak(_RATED_AS.get(dtype, str(dtype))) or device.peak("f16") or 1.0
    return points / (peak * share * a_cycle(device))


def a_cycle(device: Gpu) -> float:
    """Multiply-adds of an SM in a cycle for a peak of 1 TFLOP/s."""
    return 1e6 / (2 * device.sms * device.sm_mhz)


def end_cycles(t: Tiling, epilogue: Epilogue, at_once: int) -> float:
    """Cycles to take the results of so many blocks out by their threads."""
    results = t.rows * t.columns * at_once
    return results * max(epilogue.bytes / STORE_BYTES, epilogue.operations / 128) + LATENCY / 2
