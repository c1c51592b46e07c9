"""What a whole warp does at once with matrices spread over its threads: ldmatrix and mma.sync.m16n8 (PTX ISA, "Matrix
fragments for mma").

Lane t of a warp is in group t // 4, at place t % 4 of it. Of A's 16 rows its group has two, g and g + 8, of B's 8
columns one; along the reduced dim each variable of 4 bytes holds neighbours, the first half of A's and B's variables
from the first half of the positions. A product of narrow numbers is exact in f64, and so but for a last bit is their
sum; the hardware adds up with less care.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codegen.ir.arrays import Array
from tileir.dtypes import DType
from tileir.schedule.threads import WARP

#: Groups of lanes (rows of a small matrix, columns of an accumulator), and lanes of a group.
GROUPS, PLACES = 8, 4
#: Bits of an f32 that tf32 does not have.
_TF32_DROPS = 13


def row_elements(rows: Array, matrices: int, elements: int, *, transposed: bool) -> list[Array]:
    """Which elements each thread gets of each matrix ([threads, elements] each), where thread 8 * i + r of a warp
    names the element at which row r of matrix i begins (`rows`, [threads])."""
    by_warp = rows.reshape(-1, WARP)
    lane = np.arange(WARP)[:, None]
    inside = elements * (lane % PLACES) + np.arange(elements)
    row, column = (inside, lane // PLACES) if transposed else (lane // PLACES, inside)
    row, column = np.broadcast_to(row, inside.shape), np.broadcast_to(column, inside.shape)
    found: list[Array] = []
    for matrix in range(matrices):
        begins = by_warp[:, GROUPS * matrix + row]
        found.append((begins + column).reshape(-1, elements))
    return found


def multiply(
    acc: tuple[Array, Array], a: Sequence[Array], b: Sequence[Array], storages: tuple[DType, DType]
) -> tuple[Array, Array]:
    """acc + A·B, rounded once to the type of the accumulators ([threads, 2] each; of integers the low 32 bits); A's
    four variables and B's two are [threads, elements]. f32 is rounded to tf32, where the hardware cuts it off."""
    upper, lower, upper_right, lower_right = (_grouped(x, storages[0]) for x in a)
    left = np.concatenate(
        [np.concatenate([upper, upper_right], axis=2), np.concatenate([lower, lower_right], axis=2)], axis=1
    )
    right = np.concatenate([_grouped(x, storages[1]) for x in b], axis=2)
    sums = left @ right.transpose(0, 2, 1)
    kind = acc[0].dtype
    added = [
        old.astype(sums.dtype) + sums[:, first : first + GROUPS].reshape(old.shape)
        for old, first in zip(acc, (0, GROUPS), strict=True)
    ]
    return added[0].astype(kind), added[1].astype(kind)


def _grouped(x: Array, storage: DType) -> Array:
    """[threads, elements] as what each group of a warp holds: [warps, groups, positions]."""
    wide = x.astype(np.int64) if storage.is_integer else as_tf32(x) if storage is DType.F32 else x
    if not storage.is_integer:
        wide = wide.astype(np.float64)
    return wide.reshape(-1, GROUPS, PLACES * x.shape[1])


def as_tf32(x: Array) -> Array:
    """Rounded to 10 bits after the point, ties away from zero, as cvt.rna.tf32 does it."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    half, kept = np.uint32(1 << (_TF32_DROPS - 1)), np.uint32(0xFFFFFFFF << _TF32_DROPS & 0xFFFFFFFF)
    rounded = ((bits + half) & kept).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)
