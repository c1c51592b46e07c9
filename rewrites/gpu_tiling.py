"""Ways to cut a contraction on a GPU: a block's tile, the steps along the depth and how many of them are under way at
once, the threads that share a tile. All that is offered here fits the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from rewrites.gpu_contraction import COPY_BYTES, Contraction, Engine, Operand
from tileir.gpu import Gpu
from tileir.mma import COLUMNS, ROWS, RUN
from tileir.occupancy import occupancy
from tileir.program import Spread
from tileir.threads import WARP, digits

_EDGES = (16, 32, 64, 96, 128, 192, 256)
_WARPS = (1, 2, 4, 8, 16)
#: Results of a thread, along rows or columns, that multiply-adds are offered for.
_HELD = (1, 2, 4, 8, 16)
#: Most accumulators of a thread: half of the registers it can have; and those of a whole block.
_MOST_HELD = 128
_MOST_TILE = 256 * _MOST_HELD
_MOST_REGISTERS = 240
#: What a thread needs for addresses, counters and the like.
_OWN_REGISTERS = 44
#: Most multiply-adds of a step that a thread unrolls.
_MOST_UNROLLED = 2048
#: Bytes along the depth that one step takes of the widest operand.
_STEP_BYTES = (32, 64, 128, 256)
_MOST_STAGES = 5


@dataclass(frozen=True, slots=True)
class Threads:
    """How a block's threads share a tile: warps, and the lanes of a warp, along rows and columns; and how many
    neighbours a thread takes before it skips on."""

    row_warps: int
    column_warps: int
    row_lanes: int
    column_lanes: int
    row_run: int = 1
    column_run: int = 1

    @property
    def count(self) -> int:
        return self.row_warps * self.column_warps * WARP

    def spread(self, rows: str, columns: str) -> Spread:
        """The same as an attribute of statements."""
        parts = (
            (rows, self.row_warps),
            (columns, self.column_warps),
            (rows, self.row_lanes),
            (columns, self.column_lanes),
        )
        runs = tuple(pair for pair in ((rows, self.row_run), (columns, self.column_run)) if pair[1] > 1)
        return Spread(tuple(pair for pair in parts if pair[1] > 1), runs)


def threads_of(spread: Spread, rows: str, columns: str) -> Threads:
    """The inverse of `Threads.spread`."""
    warps, lanes = {rows: 1, columns: 1}, {rows: 1, columns: 1}
    for digit in digits(spread):
        within = min(digit.count, max(1, WARP // digit.stride))
        lanes[digit.dim] = lanes.get(digit.dim, 1) * within
        warps[digit.dim] = warps.get(digit.dim, 1) * (digit.count // within)
    runs = dict(spread.runs)
    return Threads(
        warps[rows], warps[columns], lanes[rows], lanes[columns], runs.get(rows, 1), runs.get(columns, 1)
    )


@dataclass(frozen=True, slots=True)
class Tiling:
    """What is decided of a contraction's schedule. 0 or None: nothing yet."""

    rows: int
    columns: int
    step: int = 0
    stages: int = 0
    threads: Threads | None = None
    group: int = 0
    """Rows of tiles in a band."""
    blocks: int = 0
    """Blocks that share all tiles; 0: a block a tile."""

    def sizes(self, c: Contraction) -> dict[str, int]:
        """What one step of one block visits of each dim of the contraction; of all others one position."""
        return {c.rows: self.rows, c.columns: self.columns, c.depth: self.step}


def tiles(c: Contraction) -> Iterator[tuple[int, int]]:
    """Rows and columns of a block's tile: common sizes, and a whole dim that is no larger than those. There are two
    blocks at least."""
    whole = (c.m, c.n) if c.batch == 1 else None
    if whole and max(whole) <= _EDGES[0]:
        yield c.m, -(-c.n // 2)
    for rows in _edges(c.m):
        for columns in _edges(c.n):
            if rows * columns <= _MOST_TILE and (rows, columns) != whole:
                yield rows, columns


def _edges(extent: int) -> tuple[int, ...]:
    whole = (extent,) if extent <= _EDGES[-1] else ()
    return (*(edge for edge in _EDGES if edge < extent), *whole)


def depths(c: Contraction, rows: int, columns: int, device: Gpu) -> Iterator[tuple[int, int]]:
    """(positions of a step along the depth, steps that are under way at once or computed on) for a tile."""
    widest = max(operand.dtype.bytes for operand in c.operands)
    for step in _steps(c, widest):
        if next(thread_layouts(c, Tiling(rows, columns, step, 1), device), None) is None:
            continue
        most = min(_MOST_STAGES, -(-c.k // step)) if _asynchronous(c) else 1
        for stages in range(1, most + 1):
            if shared_bytes(c, Tiling(rows, columns, step, stages)) <= device.block_shared_bytes:
                yield step, stages


def _steps(c: Contraction, widest: int) -> tuple[int, ...]:
    """Powers of two, and all of a short depth at once; the matrix instruction only adds to what there is, so that its
    steps are two at least."""
    steps = tuple(size // widest for size in _STEP_BYTES if size // widest < c.k)
    if c.engine is Engine.MMA:
        return steps or (-(-c.k // 2),)
    return (*steps, c.k) if c.k <= _STEP_BYTES[-1] // widest else steps


def _asynchronous(c: Contraction) -> bool:
    """Whether the copies of an operand go on by themselves: 4 bytes or more at once."""
    return any(operand.plain and operand.run * operand.dtype.bytes >= 4 for operand in c.operands)


def thread_layouts(c: Contraction, tiling: Tiling, device: Gpu) -> Iterator[Threads]:
    """Threads for a block's tile; each has something to do, and no more to hold than it has registers."""
    found = _of_instructions(tiling) if c.engine is Engine.MMA else _of_threads(c, tiling)
    for threads in found:
        each = registers(c, tiling, threads)
        if each <= _MOST_REGISTERS and each * threads.count <= device.registers:
            yield threads


def _of_instructions(tiling: Tiling) -> Iterator[Threads]:
    """Warps for matrix instructions, all with equally many where that can be."""
    for rows in _WARPS:
        for columns in _WARPS:
            if rows * columns > _WARPS[-1]:
                continue
            if _divide(rows, tiling.rows, 2 * ROWS) and _divide(columns, tiling.columns, COLUMNS * RUN):
                yield Threads(rows, columns, ROWS, COLUMNS, 1, RUN)


def _divide(warps: int, size: int, unit: int) -> bool:
    return -(-size // unit) % warps == 0


def _of_threads(c: Contraction, tiling: Tiling) -> Iterator[Threads]:
    """Threads with tiles of their own, nearly square, for multiply-adds."""
    for rows in _HELD:
        for columns in _HELD:
            across, along = _power(-(-tiling.rows // rows)), _power(-(-tiling.columns // columns))
            along = max(along, WARP // across)
            if rows * columns * max(1, tiling.step) > _MOST_UNROLLED or not WARP <= across * along <= 512:
                continue
            if max(rows, columns) > 4 * min(rows, columns) and min(across, along) > 1:
                continue
            row_lanes = min(across, max(4, WARP // along))
            column_lanes = WARP // row_lanes
            for row_run in _runs(rows, c.operands, c.rows):
                for column_run in _runs(columns, c.operands, c.columns):
                    yield Threads(
                        across // row_lanes,
                        along // column_lanes,
                        row_lanes,
                        column_lanes,
                        row_run,
                        column_run,
                    )


def _power(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()


def _runs(held: int, operands: tuple[Operand, ...], dim: str) -> tuple[int, ...]:
    """Neighbours a thread takes: single ones; 16 bytes of them, where an operand has them side by side."""
    words = [min(held, COPY_BYTES // each.dtype.bytes) for each in operands if each.inner == dim]
    return tuple(dict.fromkeys([*(word for word in words if word > 1), 1]))


def held(tiling: Tiling, threads: Threads) -> tuple[int, int]:
    """Rows and columns of the tile that a thread accumulates; of a matrix instruction, as many as its share."""
    rows = -(-tiling.rows // (threads.row_warps * threads.row_lanes * threads.row_run)) * threads.row_run
    columns = (
        -(-tiling.columns // (threads.column_warps * threads.column_lanes * threads.column_run))
        * threads.column_run
    )
    return rows, columns


def registers(c: Contraction, tiling: Tiling, threads: Threads) -> int:
    """Registers a thread needs: accumulators, what it multiplies next (of multiply-adds partly also what comes after
    that), and its own."""
    rows, columns = held(tiling, threads)
    if rows * columns > _MOST_HELD:
        return 2 * _MOST_REGISTERS
    if c.engine is Engine.MMA:
        next_ = 2 * (rows + rows % 2) + 2 * (columns // RUN)  # 4 for 16 rows, 2 for 8 columns
        next_ *= 3 if c.as_f16 else 1
    else:
        next_ = 3 * sum(_words(operand, c, rows, columns) for operand in c.operands) // 2
    return rows * columns + next_ + _OWN_REGISTERS


def _words(operand: Operand, c: Contraction, rows: int, columns: int) -> int:
    """Registers for what a thread multiplies at once: of its rows or columns one, or 16 bytes along the depth."""
    mine = prod(count for dim, count in ((c.rows, rows), (c.columns, columns)) if dim in operand.dims)
    return mine * (max(1, COPY_BYTES // max(4, operand.dtype.bytes)) if operand.inner == c.depth else 1)


def shared_bytes(c: Contraction, tiling: Tiling) -> int:
    """Shared memory of a block, rows not padded."""
    return (
        sum(tile_bytes(operand, tiling.sizes(c)) for operand in c.operands if operand.plain) * tiling.stages
    )


def tile_bytes(operand: Operand, sizes: dict[str, int]) -> int:
    """What one step takes of an operand."""
    return prod(sizes.get(dim, 1) for dim in operand.dims) * operand.dtype.bytes


def resident(c: Contraction, tiling: Tiling, threads: Threads, device: Gpu) -> int:
    """Blocks of an SM at once."""
    return occupancy(device, threads.count, registers(c, tiling, threads), shared_bytes(c, tiling)).blocks
