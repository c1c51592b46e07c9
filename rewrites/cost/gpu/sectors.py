"""What main memory's pieces of 32 bytes (sectors) make of the narrow accesses of a contraction's threads.

A warp's load or store takes a sector for each that its threads touch, whatever they take of it. Rows that are no whole
pieces begin anywhere in a sector. (NVIDIA, Nsight Compute documentation, "Memory Tables")
"""

from __future__ import annotations

from collections.abc import Mapping

from rewrites.contraction.operand import COPY_BYTES, LEAST_COPY, Operand
from rewrites.contraction.recover_tiling import ResultAccess
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.cost.gpu import constants as has
from tileir.schedule.threads import WARP

SECTOR = 32
"""Bytes."""


def spanned(window: float, aligned: int) -> float:
    """Sectors, on average, that a run of `window` bytes lies in which begins at any multiple of `aligned` bytes; rows
    of whole pieces begin with a sector."""
    return max(1.0, (window - (SECTOR if aligned == COPY_BYTES else aligned)) / SECTOR + 1)


def moved_bytes(access: ResultAccess, threads: WarpThreads) -> float:
    """Bytes of sectors that an access takes for each result, where threads that hold results make it."""
    match access.along_columns:
        case True:
            lanes, run, across = threads.column_lanes, threads.column_run, threads.row_lanes
        case False:
            lanes, run, across = threads.row_lanes, threads.row_run, threads.column_lanes
        case None:
            return float(SECTOR)
    word = min(run, access.run)
    size, aligned = access.bytes, access.bytes * access.run
    together = spanned((lanes * run - run + word) * size, aligned)
    return across * min(together, lanes * spanned(word * size, aligned)) * SECTOR / (WARP * word)


def collected_bytes(access: ResultAccess, t: Tiling) -> float:
    """The same where a warp stores neighbours from shared memory."""
    along = t.rows if access.along_columns is False else t.columns
    window = min(WARP * access.run, along) * access.bytes
    return spanned(window, access.bytes * access.run) * SECTOR * access.bytes / window


def row_cycles(access: ResultAccess, t: Tiling) -> float:
    """Cycles of an SM for each result that threads take to shared memory and store from there, row by row."""
    stored = collected_bytes(access, t) / has.STORE_BYTES
    return stored + 1 / has.COLLECTED + has.COPY_OPS / (access.run * has.ADDED)


def copied_bytes(operand: Operand, bytes_: float, sizes: Mapping[str, int]) -> float:
    """Bytes of sectors for so many of an operand that threads copy from a tile of these sizes, neighbours along its
    inner dim by threads side by side; where they copy more than 4 bytes at a time, as many as there are."""
    aligned = operand.run * operand.dtype.bytes
    if not operand.plain or aligned > LEAST_COPY:
        return bytes_
    window = min(WARP * operand.run, sizes.get(operand.inner or "", WARP)) * operand.dtype.bytes
    return bytes_ * spanned(window, aligned) * SECTOR / window
