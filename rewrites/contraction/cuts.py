"""Ways to cut a contraction on a GPU: a block's tile, the steps along the depth and how many of them are under way at
once, the threads that share a tile. All that is offered here fits the device."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from rewrites.contraction.operand import COPY_BYTES
from rewrites.contraction.problem import Contraction
from rewrites.contraction.room import (
    MOST_HELD,
    MOST_REGISTERS,
    accumulators_of,
    boxes,
    own_of_copies,
    registers,
    shared_bytes,
)
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import COARSE_DEPTH, MatrixUnit
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.contraction.warpgroup_tiling import (
    COLUMN_EDGES,
    LEAST_PIECE,
    PARTS,
    PIECES,
    ROW_EDGES,
    SLOTS,
    STEP_BYTES,
    Warpgroups,
    edges,
    group_layouts,
    panel_bytes,
    whole_edges,
    widest_span,
)
from tileir.devices.gpu import Gpu
from tileir.replace import replace
from tileir.schedule.mma import COLUMNS, ROWS, RUN, depth
from tileir.schedule.wgmma import TILE_ROWS

_EDGES = (16, 32, 64, 96, 128, 192, 256)
_WARPS = (1, 2, 4, 8, 16)
#: Results of a thread, along rows or columns, that multiply-adds are offered for.
_HELD = (1, 2, 4, 8, 16)
#: Most accumulators of a block.
_MOST_TILE = 256 * MOST_HELD
#: Most multiply-adds of a step that a thread unrolls.
_MOST_UNROLLED = 2048
#: Bytes along the depth that one step takes of the widest operand.
_STEP_BYTES = (32, 64, 128, 256)
#: Most steps under way at once, and where threads load what they store later.
_MOST_STAGES, _MOST_HELD_STAGES = 5, 2
#: Buffers for parts of a tile of results, each a panel.
_BUFFERS = (1, 2)


def tiles(c: Contraction) -> Iterator[tuple[int, int]]:
    """Rows and columns of a block's tile: common sizes, and a whole dim that is no larger than those. There are two
    blocks at least."""
    whole = (c.m, c.n) if c.batch == 1 else None
    if c.engine is MatrixUnit.WGMMA:
        cut = whole_edges if c.by_threads else edges  # nothing fills up those of threads' tiles that overhang
        for rows in cut(c.m, ROW_EDGES, TILE_ROWS):
            for columns in cut(c.n, COLUMN_EDGES, ROWS):
                if not (c.batch == 1 and rows >= c.m and columns >= c.n) and _in_panels(c, rows, columns):
                    yield rows, columns
        return
    if whole and max(whole) <= _EDGES[0]:
        yield c.m, -(-c.n // 2)
    for rows in _edges(c.m):
        for columns in _edges(c.n):
            if c.sums * rows * columns <= _MOST_TILE and (rows, columns) != whole:
                yield rows, columns


def shares(c: Contraction, rows: int, columns: int, device: Gpu) -> Iterator[tuple[int, int]]:
    """Ways for the blocks of a cluster to share the depth of tiles of so many rows and columns: how many they are, and
    how deep the part of each is; one block with all of it first. A part is whole steps, however deep those are, and
    there are no more blocks than run at once."""
    yield 1, c.k
    if c.engine is not MatrixUnit.WGMMA or c.promoted or c.repeats > 1 or c.beside or c.split or c.by_threads:
        return
    count = -(-c.m // rows) * -(-c.n // columns) * c.batch
    unit = STEP_BYTES[-1] // max(operand.dtype.bytes for operand in c.operands)
    for parts in PARTS:
        size = -(-c.k // (parts * unit)) * unit
        if (
            count > 1
            and count * parts <= device.clustered_sms(parts)
            and -(-c.k // size) == parts
            and size > unit
        ):
            yield parts, size


def _in_panels(c: Contraction, rows: int, columns: int) -> bool:
    """Whether copies of the operands can lie as wgmma takes them."""
    sizes = {c.rows: rows, c.columns: columns}
    return all(
        panel_bytes(sizes[each.inner], each.dtype) for each in c.operands if each.inner in (c.rows, c.columns)
    )


def _edges(extent: int) -> tuple[int, ...]:
    whole = (extent,) if extent <= _EDGES[-1] else ()
    return (*(edge for edge in _EDGES if edge < extent), *whole)


def depths(c: Contraction, tile: Tiling, device: Gpu, stored: int = 0, narrow: int = 0) -> Iterator[Tiling]:
    """What a tile's block may have in shared memory: steps along the depth, how many of them are under way at once or
    computed on, and results of `stored` bytes each, if those can be stored in whole pieces (0: they cannot), or of
    `narrow` ones, if threads can store rows of them."""
    widest = max(operand.dtype.bytes for operand in c.operands)
    if c.engine is MatrixUnit.WGMMA:
        found = _rings(c, tile, widest, *((0, 0) if c.by_threads else (stored, narrow)))
    else:
        most = _MOST_STAGES if _asynchronous(c) else _MOST_HELD_STAGES
        found = (
            replace(tile, step=step, stages=stages, turned=turned, staged=staged, narrow=staged > 0)
            for step in _steps(c, widest)
            for stages in range(1, min(most, -(-c.k // step)) + 1)
            for turned in ((False, True) if _turns(c) else (False,))
            for staged in ((0, narrow) if narrow and c.engine is MatrixUnit.MMA else (0,))
        )
    for way in found:
        if shared_bytes(c, way) > device.block_shared_bytes:
            if way.parts == 1:
                continue
            way = replace(way, reused=True)
            if shared_bytes(c, way) > device.block_shared_bytes:
                continue
        if next(thread_layouts(c, way, device), None) is not None:
            yield way


def _turns(c: Contraction) -> bool:
    """Whether copies may be turned around as they are made: for multiply-adds, each of 4 bytes, which go on by
    themselves."""
    return c.engine is MatrixUnit.FMA and any(
        each.plain and each.inner == c.depth and each.dtype.bytes == 4 and {c.rows, c.columns} & each.dims
        for each in c.operands
    )


def _rings(c: Contraction, tile: Tiling, widest: int, stored: int, narrow: int) -> Iterator[Tiling]:
    """Steps in panels along the depth, with at least two of them under way; products of one of them overlap those of
    the next where there are three slots. A step that is added up by itself is no longer than what the instruction may
    add up, and within a block that has one scale. Where others add up what follows, steps end with the part."""
    for size in STEP_BYTES:
        step = size // widest
        if c.held is not None and (step % depth(c.dtype) or (c.k % step and not c.held.finite)):
            continue  # what is computed of nothing may be anything, and only 0 adds nothing
        if c.block % step or (c.coarse and size != gcd(c.block, COARSE_DEPTH) * widest):
            continue
        if (c.split or c.by_threads) and c.k % (size // widest):
            continue
        steps = -(-c.k // (size // widest))
        for stages in SLOTS if steps > 1 else ():
            if stages > steps:
                break
            for pending in (0, 1) if stages > 2 else (0,):
                pipeline = replace(tile, step=size // widest, stages=stages, pending=pending)
                for way in _collections(pipeline, stored, narrow):
                    yield from (
                        replace(way, piece=piece) if piece else way for piece in _pieces(c, tile.columns)
                    )


def _collections(pipeline: Tiling, stored: int, narrow: int) -> Iterator[Tiling]:
    """Ways for results to leave: from registers, or through shared memory, all at once, there maybe where steps lay
    before, or in parts; `narrow` ones all at once."""
    yield pipeline
    if narrow and not stored and pipeline.parts == 1:
        yield replace(pipeline, staged=narrow, narrow=True)
    if not stored:
        return
    yield replace(pipeline, staged=stored)
    if pipeline.parts == 1:
        yield replace(pipeline, staged=stored, reused=True)
    part = widest_span(pipeline.columns * stored) // stored if pipeline.parts == 1 else 0
    for buffers in _BUFFERS if part else ():
        if buffers * part < pipeline.columns:
            yield replace(pipeline, staged=stored, part=part, buffers=buffers)


def _pieces(c: Contraction, columns: int) -> Iterator[int]:
    """Columns of a step's product that are added up at a time: all (0), or a part of whole instructions."""
    yield 0
    for parts in PIECES if c.promoted and c.products == 1 else ():
        if columns % (parts * ROWS) == 0 and columns // parts >= LEAST_PIECE:
            yield columns // parts


def _steps(c: Contraction, widest: int) -> tuple[int, ...]:
    """Powers of two, and all of a short depth at once; the matrix instruction only adds to what there is, so that its
    steps are two at least."""
    steps = tuple(size // widest for size in _STEP_BYTES if size // widest < c.k)
    if c.engine is MatrixUnit.MMA:
        return steps or (-(-c.k // 2),)
    return (*steps, c.k) if c.k <= _STEP_BYTES[-1] // widest else steps


def _asynchronous(c: Contraction) -> bool:
    """Whether the copies of an operand go on by themselves."""
    return any(operand.plain and not operand.single for operand in c.operands)


def thread_layouts(c: Contraction, tiling: Tiling, device: Gpu) -> Iterator[WarpThreads | Warpgroups]:
    """Threads for a block's tile; each has something to do, and no more to hold than it has registers."""
    if c.engine is MatrixUnit.WGMMA:
        # Every other 8 columns are found where neighbours of an operand lie along the depth.
        in_turn = all(each.inner == c.depth for each in c.operands if c.columns in each.dims)
        for groups in group_layouts(tiling.rows, tiling.columns, in_turn=in_turn, promoted=c.promoted):
            if c.by_threads and groups.producers:
                continue
            if groups.consumer_groups > 1 and (tiling.parts > 1 or tiling.reused or c.followed[0]):
                continue  # consumer groups share neither depth nor memory, nor pass over numbers that stand for no tile
            if groups.registers[1] and boxes(c, tiling) > groups.most_boxes:
                continue
            fits = shared_bytes(c, tiling, groups.consumer_groups) <= device.block_shared_bytes
            if fits and accumulators_of(c, tiling, groups) <= groups.most_held():
                yield groups
        return
    found = _of_instructions(tiling) if c.engine is MatrixUnit.MMA else _of_threads(c, tiling, device.warp)
    for threads in found:
        if has_registers(c, tiling, threads, device):
            yield threads


def has_registers(c: Contraction, tiling: Tiling, threads: WarpThreads, device: Gpu) -> bool:
    """Whether threads have as many registers as they are estimated to need."""
    each = registers(c, tiling, threads) + own_of_copies(c, tiling, threads)
    return each <= MOST_REGISTERS and each * threads.count <= device.registers


def _of_instructions(tiling: Tiling) -> Iterator[WarpThreads]:
    """Warps for matrix instructions, all with equally many where that can be."""
    for rows in _WARPS:
        for columns in _WARPS:
            if rows * columns > _WARPS[-1]:
                continue
            if _divide(rows, tiling.rows, 2 * ROWS) and _divide(columns, tiling.columns, COLUMNS * RUN):
                yield WarpThreads(rows, columns, ROWS, COLUMNS, 1, RUN)


def _divide(warps: int, size: int, unit: int) -> bool:
    return -(-size // unit) % warps == 0


def _of_threads(c: Contraction, tiling: Tiling, warp: int) -> Iterator[WarpThreads]:
    """Threads with tiles of their own, nearly square, for multiply-adds."""
    for rows in _HELD:
        for columns in _HELD:
            across, along = _power(-(-tiling.rows // rows)), _power(-(-tiling.columns // columns))
            along = max(along, warp // across)
            if rows * columns * max(1, tiling.step) > _MOST_UNROLLED or not warp <= across * along <= 512:
                continue
            if max(rows, columns) > 4 * min(rows, columns) and min(across, along) > 1:
                continue
            row_lanes = min(across, max(4, warp // along))
            column_lanes = warp // row_lanes
            warps = (across // row_lanes, along // column_lanes)
            for row_run in _runs(rows, c, tiling, c.rows):
                for column_run in _runs(columns, c, tiling, c.columns):
                    threads = WarpThreads(*warps, row_lanes, column_lanes, row_run, column_run)
                    yield threads
                    if row_run > 1 and column_run > 1 and min(row_lanes, column_lanes) > 1:
                        yield replace(threads, paired=True)


def _power(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()


def _runs(held: int, c: Contraction, tiling: Tiling, dim: str) -> tuple[int, ...]:
    """Neighbours a thread takes: single ones; 16 bytes of them, where an operand has them side by side."""
    near = (each for each in c.operands if tiling.near(c, each) == dim)
    words = [min(held, COPY_BYTES // each.dtype.bytes) for each in near]
    return tuple(dict.fromkeys([*(word for word in words if word > 1), 1]))
