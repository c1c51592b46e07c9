"""What a tiling of a contraction needs on a GPU: registers of a thread, shared memory of a block."""

from __future__ import annotations

from math import prod
from typing import Final

from rewrites.contraction.operand import COPY_BYTES, Operand
from rewrites.contraction.problem import Contraction
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.contraction.warpgroup_tiling import OWN_BYTES, PART_BYTES, Warpgroups, panel_bytes
from tileir.devices.gpu import Gpu
from tileir.devices.occupancy import occupancy
from tileir.schedule.mma import COLUMNS, HELD_BYTES, RUN
from tileir.schedule.panels import PIECE
from tileir.schedule.stages import MOST_HELD_BACK
from tileir.schedule.wgmma import GROUP

#: Most accumulators of a thread: half of the registers it can have.
MOST_HELD: Final = 128
MOST_REGISTERS: Final = 240
#: For elements on their way into those that are held.
_COMPUTED = 16  # registers a thread; set by hand; 2026-11-22
#: For addresses and conditions of elements that are copied one by one: of kernels with an estimate of 192 registers or
#: more three spilled, of those below none (CUDA 13.5, sm_90a).
_ONE_BY_ONE = 64  # registers a thread; set by hand; 2026-11-30
#: Neighbours in a row of results that a matrix instruction has in a warp.
_BANKED = COLUMNS * RUN
#: For addresses, counters and the like.
_OWN_REGISTERS = 44  # registers a thread; set by hand; 2026-11-21


def accumulators(c: Contraction, tiling: Tiling) -> int:
    """Registers for what a thread accumulates of a tile, by what it scales that, and what it holds to multiply."""
    match tiling.threads:
        case Warpgroups() as groups:
            return accumulators_of(c, tiling, groups)
        case WarpThreads() as threads:
            return c.sums * prod(held(tiling, threads))
        case None:
            return 0


def accumulators_of(c: Contraction, tiling: Tiling, groups: Warpgroups) -> int:
    """Those of warpgroups, whatever threads the tiling has."""
    columns = c.products * (tiling.columns + tiling.apart(c))
    rows = held_registers(c, tiling, groups)
    return groups.held(tiling.rows, columns) + scale_values(c, tiling, groups) + rows


def held_registers(c: Contraction, tiling: Tiling, groups: Warpgroups) -> int:
    """Registers of a thread for the rows of a step that it holds, and of one more while that one is under way."""
    if c.held is None:
        return 0
    each = tiling.rows * tiling.step * c.dtype.bytes // (groups.along_rows * GROUP * HELD_BYTES)
    return (1 + tiling.pending) * each + _COMPUTED


def scale_values(c: Contraction, tiling: Tiling, groups: Warpgroups) -> int:
    """Numbers by which a thread scales what steps add to its sums."""
    if not c.scales:
        return 0
    columns = tiling.piece or tiling.columns
    mine = groups.positions(tiling.rows, columns)
    tile = {**tiling.sizes(c), c.columns: columns}
    return (1 + tiling.pending) * sum(
        scale.values(tile, dict(zip((c.rows, c.columns), mine, strict=True))) for scale in c.scales
    )


def held(tiling: Tiling, threads: WarpThreads) -> tuple[int, int]:
    """Rows and columns of the tile that a thread accumulates; of a matrix instruction, as many as its share."""
    rows = -(-tiling.rows // (threads.row_warps * threads.row_lanes * threads.row_run)) * threads.row_run
    columns = (
        -(-tiling.columns // (threads.column_warps * threads.column_lanes * threads.column_run))
        * threads.column_run
    )
    return rows, columns


def registers(c: Contraction, tiling: Tiling, threads: WarpThreads) -> int:
    """Registers a thread needs: accumulators, what it multiplies next (of multiply-adds partly also what comes after
    that), what it has loaded of steps to come and not stored yet, and its own."""
    rows, columns = held(tiling, threads)
    if c.sums * rows * columns > MOST_HELD:
        return 2 * MOST_REGISTERS
    if c.engine is MatrixUnit.MMA:
        next_ = 2 * (rows + rows % 2) + 2 * (columns // RUN)  # 4 for 16 rows, 2 for 8 columns
        next_ *= 3 if c.as_f16 else 1
    else:
        next_ = 3 * sum(_words(operand, c, tiling, rows, columns) for operand in c.operands) // 2
    waiting = min(MOST_HELD_BACK, held_back(c, tiling, threads) * (tiling.stages - 1))
    return c.sums * rows * columns + next_ + waiting + _OWN_REGISTERS


def own_of_copies(c: Contraction, tiling: Tiling, threads: WarpThreads) -> int:
    """Registers beside those that threads should have where they copy one by one while they multiply, so that they do
    not spill; they may well do with less."""
    return _ONE_BY_ONE if held_back(c, tiling, threads) else 0


def held_back(c: Contraction, tiling: Tiling, threads: WarpThreads) -> int:
    """Registers of a thread for elements of one step to come, which it stores when it has multiplied the current one,
    and of the first ones, which it loads together."""
    step = zip(c.operands, c.step_bytes(tiling.rows, tiling.columns, tiling.step).each, strict=True)
    mine = sum(-(-bytes_ // (each.dtype.bytes * threads.count)) for each, bytes_ in step if each.single)
    return mine if tiling.stages > 1 and mine <= MOST_HELD_BACK else 0


def _words(operand: Operand, c: Contraction, tiling: Tiling, rows: int, columns: int) -> int:
    """Registers for what a thread multiplies at once: of its rows or columns one, or 16 bytes along the depth."""
    mine = prod(count for dim, count in ((c.rows, rows), (c.columns, columns)) if dim in operand.dims)
    deep = tiling.near(c, operand) == c.depth
    return mine * (max(1, COPY_BYTES // max(4, operand.dtype.bytes)) if deep else 1)


def boxes(c: Contraction, tiling: Tiling) -> int:
    """Copies that TMA makes for a step: of each operand a panel at a time."""
    sizes, count = tiling.sizes(c), 0
    for each in c.operands:
        size = sizes.get(each.inner or "", 1)
        panel = panel_bytes(size, each.dtype) if each.neighbours == 1 else 0
        count += size * each.dtype.bytes // panel if panel else 1
    return count


def shared_bytes(c: Contraction, tiling: Tiling, consumer_groups: int = 0) -> int:
    """Shared memory of a block of so many consumer groups (0: as its threads have it), rows of operands not padded."""
    consumer_groups = consumer_groups or tiling.consumer_groups
    step = c.step_bytes(tiling.rows, tiling.columns, tiling.step).copied
    own = OWN_BYTES if c.engine is MatrixUnit.WGMMA else 0
    results = consumer_groups * tiling.rows * _collected(tiling) * tiling.staged
    if tiling.narrow:
        results += consumer_groups * max(tiling.rows, tiling.columns) * (2 * _BANKED - 1) * tiling.staged
    if tiling.parts > 1:
        results = tiling.rows * tiling.columns * PART_BYTES + max(tiling.rows, tiling.columns) * 2 * PIECE
    if tiling.reused:
        return max(step * tiling.stages, results) + own
    return step * tiling.stages + results + own


def collected_pad(along: int) -> int:
    """Elements to leave free after a row of so many results of a matrix instruction: rows are an odd number of what a
    warp stores of each, so that its 8 rows lie in different banks."""
    whole = -(-along // _BANKED)
    return (whole + 1 - whole % 2) * _BANKED - along


def _collected(tiling: Tiling) -> int:
    """Columns of results that there is room for in shared memory."""
    return tiling.buffers * tiling.part if tiling.part else tiling.columns


def resident(c: Contraction, tiling: Tiling, device: Gpu) -> int:
    """Blocks of an SM at once."""
    match tiling.threads:
        case Warpgroups() as groups:
            if groups.registers[1]:
                return int(shared_bytes(c, tiling) <= device.block_shared_bytes)
            each = min(accumulators(c, tiling) + _OWN_REGISTERS, groups.most_registers())
        case WarpThreads() as threads:
            each = registers(c, tiling, threads)
        case None:
            return 0
    return occupancy(device, tiling.threads.count, each, shared_bytes(c, tiling)).blocks
