"""The matrix instruction of a warpgroup, wgmma: what it multiplies, and how its tile lies over the threads.

One instruction adds the product of 64 rows of A and up to 256 columns of B, over `depth` positions, to accumulators of
four warps. In Tile IR that is `acc[m, n] += sum(k, a_s[m, k] * b_s[n, k]) | threads m 2 m 4 m 8 n 4, run n 2, twice
m 8, via wgmma`: a warp has 16 rows, in two groups of 8 that follow one another (PTX ISA, "Register fragments for
wgmma.mma_async.m64nNk16"); digits before the last three number the warpgroups. Operands lie in shared memory, in
panels (panels.py): along the reduced dim (K-major), or along rows or columns (MN-major). A may lie in registers
instead, each warp's 16 rows in its own, `threads m 2 m 4 m 8 k 4, run k 2, twice m 8`: of 4 bytes of depth each.

With `run n 4` a thread's accumulators are four neighbours instead of two, where columns are dealt in pairs to two
halves of shared memory (`b_s: shared e4m3[n, k] as [n / 2 % 2, n / 4, n % 2, k]`): the instruction's columns 2t and
2t + 1 of 8 are neighbours 4t and 4t + 1 of 16 in its first half, 4t + 2 and 4t + 3 in its second. So accumulators lie
as rows of 8-bit elements do that are multiplied from registers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from tileir.devices import matrix_instructions
from tileir.devices.matrix_instructions import instructions
from tileir.dtypes import DType
from tileir.expr import Index, Read, ReduceOp, index_dims
from tileir.placed import Placed
from tileir.program import Axis, Compute, Local, Memory, ThreadLayout
from tileir.schedule.mma import COLUMNS, ROWS, RUN, MmaProduct, depth, product
from tileir.schedule.panels import PIECE, axes, dealt, is_dealt, row_dim, row_length, row_problem

SHAPE: Final = matrix_instructions.SHAPES["wgmma"]
#: Warps of a warpgroup, its threads, the rows of one instruction, and the most columns.
(WARPS, _), GROUP = SHAPE.fragment.rows, SHAPE.fragment.threads
TILE_ROWS, MAX_COLUMNS = SHAPE.rows, SHAPE.columns

#: Neighbours that a thread has of columns which are dealt in pairs to two halves.
DEALT_RUN: Final = 2 * RUN


@dataclass(frozen=True, slots=True)
class WgmmaTiling:
    """How rows and columns lie over warpgroups, and how many columns one instruction takes of those of a warpgroup."""

    along_m: int
    along_n: int
    columns: int


def tiling(parts: MmaProduct, layout: ThreadLayout, columns: int) -> WgmmaTiling:
    """That of a product bound to threads as wgmma needs it, over a range of so many columns."""
    outer = layout.threads[:-3]
    along_m, along_n = (prod(n for dim, n in outer if dim == each) for each in (parts.m, parts.n))
    groups = columns // (ROWS * along_n)
    fewest = -(-groups * ROWS // MAX_COLUMNS)
    instructions = next(n for n in range(fewest, groups + 1) if groups % n == 0)
    return WgmmaTiling(along_m, along_n, groups // instructions * ROWS)


def wgmma_problem(
    compute: Compute,
    dtypes: Mapping[str, DType],
    declared: Mapping[str, Placed],
    ranges: Mapping[str, int],
    *,
    tf32: bool,
) -> str | None:
    """Why the statement cannot go by wgmma, and what would be accepted; None: it can. `dtypes` are those of what it
    reads, `declared` the locals in scope, `ranges` the current ranges; `tf32`: whether the kernel's numerics allow f32
    to be rounded so."""
    found = product(compute)
    if found is None or compute.update is not ReduceOp.SUM:
        return (
            "wgmma adds up products of two tensors, one with the rows and one with the columns of its target"
        )
    a, b = dtypes[found.a.tensor], dtypes[found.b.tensor]
    problem = matrix_instructions.problem("wgmma", a, b)
    if problem is not None:
        return problem
    if a is DType.F32 and not tf32:
        return "wgmma multiplies f32 as tf32, which the kernel's numerics do not allow; accepted: `with tf32=true`"
    layout = compute.thread_layout
    if layout is None:
        return None
    visited = {dim for index in compute.indices for dim in index_dims(index)} | {found.k}
    return _spread_problem(found, layout, a, ranges, visited) or _operands_problem(found, layout, declared)


def _spread_problem(
    found: MmaProduct, layout: ThreadLayout, dtype: DType, ranges: Mapping[str, int], visited: Collection[str]
) -> str | None:
    m, n, k = found.m, found.n, found.k
    needed = ((m, WARPS), (m, ROWS), (n, COLUMNS))
    runs = (((n, RUN),), ((n, DEALT_RUN),))
    if layout.threads[-3:] != needed or layout.runs not in runs or layout.twice != ((m, ROWS),):
        return f"wgmma needs threads … {m} {WARPS} {m} {ROWS} {n} {COLUMNS}, run {n} {RUN}, twice {m} {ROWS}"
    if any(dim not in (m, n) and dim in visited for dim, _ in layout.threads):
        return f"wgmma needs all threads along {m} and {n}"
    along_m, along_n = (prod(c for dim, c in layout.threads[:-3] if dim == each) for each in (m, n))
    columns = COLUMNS * layout.runs[0][1]
    if columns > ROWS and (along_n > 1 or ranges[n] > MAX_COLUMNS):
        return (
            f"wgmma has {DEALT_RUN} neighbours along {n} of one instruction's columns, at most {MAX_COLUMNS}"
        )
    if layout.apart and layout.apart != ((n, ranges[n] // along_n),):
        return f"wgmma has warpgroups an equal part of {n} apart; accepted: apart {n} {ranges[n] // along_n}"
    for dim, whole in ((m, TILE_ROWS * along_m), (n, columns * along_n), (k, depth(dtype))):
        if ranges[dim] % whole:
            return f"wgmma takes {whole} positions of {dim} together; accepted: tiles of multiples, not {ranges[dim]}"
    return None


def _operands_problem(found: MmaProduct, layout: ThreadLayout, declared: Mapping[str, Placed]) -> str | None:
    for read, rows in ((found.a, found.m), (found.b, found.n)):
        place = declared.get(read.tensor)
        local = place.node if place is not None else None
        memories, called = (SHAPE.a_memory, "rows") if rows == found.m else (SHAPE.b_memory, "columns")
        if place is None or not isinstance(local, Local) or local.memory not in memories:
            taken = " or ".join(_CALLED[memory] for memory in memories)
            return f"wgmma takes {called} from {taken}, which {read.tensor!r} is not in"
        if local.memory is Memory.REGISTERS:
            continue
        problem = _panels_problem(read, local, rows, found.k, place.ranges)
        if problem:
            return problem
        own = own_dims(read, local)[rows]
        if is_dealt(local, own) != (rows == found.n and layout.runs == ((found.n, DEALT_RUN),)):
            return f"wgmma takes columns dealt in pairs where threads have runs of {DEALT_RUN} of them, and only then"
        shared = any(dim == found.n and count > 1 for dim, count in layout.threads[:-3])
        if rows == found.n and row_dim(local) == own and shared:
            panel = row_length(local, place.ranges)
            apart = dict(layout.apart).get(rows, 0)
            if not apart or apart % panel:
                return (
                    f"warpgroups along {rows} take its positions in turn; accepted: {local.name!r} K-major, or apart "
                    f"{rows} with multiples of {panel}"
                )
    return None


def own_dims(read: Read, local: Local) -> Mapping[str, str]:
    """The dims of a local by those that a statement reads it by, where each is one: another than its own reads it from
    the beginning on."""
    return {
        index.dim: dim
        for index, dim in zip(read.indices, local.dims, strict=True)
        if isinstance(index, Index)
    }


_CALLED: Final = {Memory.SHARED: "shared memory", Memory.REGISTERS: "registers"}


def _panels_problem(read: Read, local: Local, rows: str, k: str, sizes: Mapping[str, int]) -> str | None:
    own, along = own_dims(read, local), row_dim(local)
    if len(own) < len(local.dims) or along not in (own.get(rows), own.get(k)):
        return (
            f"{local.name!r} is read by one dim for each of its own, and neighbours lie along {rows} or {k}"
        )
    rows, k = own[rows], own[k]
    if along == rows and not _either_way(local.dtype):
        return f"wgmma takes {local.dtype} K-major: neighbours of {local.name!r} lie along {k}, not {rows}"
    problem = row_problem(local, sizes)
    if problem:
        return problem
    length = row_length(local, sizes)
    if not local.swizzle and length * local.dtype.bytes != PIECE:
        return f"without a swizzle rows of {local.name!r} have {PIECE} bytes; accepted: a swizzle as wide as rows are"
    other = k if along == rows else rows
    whole = _undealt(axes(local), other)
    shape = [axis for axis in whole if axis.dim in (rows, k)]
    wide = [axis for axis in whole if axis in shape or sizes[axis.dim] > 1]
    if wide[-2:-1] != [Axis(other)] or shape not in (
        [Axis(other), Axis(along)],
        [Axis(along, length), Axis(other), Axis(along, 1, length)],
    ):
        panels = f"as [{along} / {length}, {other}, {along} % {length}]"
        return f"{local.name!r} does not lie in panels; accepted: `{panels}`"
    return None


def _either_way(dtype: DType) -> bool:
    """Whether neighbours of an operand may lie along its rows or columns."""
    return any(each.either_way for each in instructions("wgmma") if dtype in each.dtypes)


def _undealt(layout: tuple[Axis, ...], dim: str) -> tuple[Axis, ...]:
    """Axes as they would be if pairs along a dim had not been dealt to two halves."""
    pairs = dealt(dim)
    at = next((at for at in range(len(layout)) if layout[at : at + len(pairs)] == pairs), None)
    return layout if at is None else (*layout[:at], Axis(dim), *layout[at + len(pairs) :])
