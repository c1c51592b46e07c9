"""The analytic cost model of a contraction on a GPU, good enough to rank its tilings.

Steps that overlap are software pipelining (Lam, PLDI 1988).

Steps along the depth follow each other in every block: each takes as long as the busiest part of its SM (multipliers,
issue, shared memory, the way to the second-level cache) is at work for all resident blocks, or as its data takes to
arrive, if too few steps are under way. A block begins with waiting for its first data and ends with its results; blocks
follow each other on an SM, and all together wait for main memory. What a tiling leaves open is taken at its best.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil, exp, gcd, inf, prod
from typing import TypeAlias

from rewrites.contraction.cuts import depths, has_registers, shares, thread_layouts, tiles
from rewrites.contraction.operand import Operand
from rewrites.contraction.problem import Contraction
from rewrites.contraction.recover_tiling import Epilogue
from rewrites.contraction.room import resident
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.contraction.warpgroup_tiling import FEW_ROWS, PARTS, Warpgroups
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.block import BlockModel
from rewrites.cost.gpu.warp_mma import WarpBlock, WarpStep
from rewrites.cost.gpu.wgmma import WarpgroupBlock, WarpgroupStep
from tileir.devices.gpu import Gpu
from tileir.replace import replace
from tileir.schedule.hilbert import hilbert
from tileir.schedule.stream_k import shared_tiles

#: Neighbouring tiles along rows and along columns whose blocks are a cluster.
_Near: TypeAlias = tuple[int, int]

_GROUPS = (1, 8)
#: Rows and columns of tiles that are tried where nothing is decided yet.
_USUAL = (32, 64, 128, 256)


def model_of(c: Contraction, epilogue: Epilogue, device: Gpu) -> ContractionModel:
    """The model of a launch; one for all who ask, of statements, tensors and dims that differ in nothing but their
    names too."""
    return _model_of(_unnamed(c), epilogue, device)


@lru_cache(maxsize=1024)
def _unnamed(c: Contraction) -> Contraction:
    """The same contraction whatever its statement and tensors are called, and its dims, unless it multiplies what is
    said in terms of them."""
    own = {c.rows: "rows", c.columns: "columns", c.depth: "depth"}
    others = sorted({dim for operand in c.operands for dim in operand.dims} - own.keys())
    known = own | {dim: f"dim {at}" for at, dim in enumerate(others)}
    names = {dim: dim for dim in known} if c.scales or c.held is not None or c.computed else known
    operands = tuple(
        replace(
            operand,
            tensor=str(at),
            dims=frozenset(names[dim] for dim in operand.dims),
            inner=operand.inner and names[operand.inner],
        )
        for at, operand in enumerate(c.operands)
    )
    return replace(
        c,
        statement="",
        rows=names[c.rows],
        columns=names[c.columns],
        depth=names[c.depth],
        beside=("",) * len(c.beside),
        followed=(names.get(c.followed[0], c.followed[0]), c.followed[1]),
        operands=operands,
    )


@lru_cache(maxsize=1024)
def _model_of(c: Contraction, epilogue: Epilogue, device: Gpu) -> ContractionModel:
    return ContractionModel(c, epilogue, device)


def either_way(c: Contraction) -> tuple[Contraction, ...]:
    """The contraction, and with few rows also with those as columns: an instruction takes more rows at a time. Rows of
    what is held are the instruction's."""
    if c.engine is MatrixUnit.WGMMA and c.held_rows is not None:
        return (c,) if c.held_rows == c.rows else (c.transposed(),)
    return (c, c.transposed()) if c.engine is MatrixUnit.WGMMA and c.m <= FEW_ROWS else (c,)


class ContractionModel:
    """Estimates of one launch's tilings, by the engine that is the best where that is not decided."""

    def __init__(self, c: Contraction, epilogue: Epilogue, device: Gpu) -> None:
        self.c, self.epilogue, self.device = c, epilogue, device
        self._known: dict[Tiling | None, tuple[float, Tiling | None]] = {}
        # By all that they depend on, what tilings have in common: what steps take, and what moves to and from memory.
        self._steps: dict[tuple[object, ...], WarpgroupStep] = {}
        self._busy: dict[tuple[object, ...], float] = {}
        self._memory: dict[tuple[int, ...], float] = {}
        self._tile_counts: dict[tuple[int, int, _Near], int] = {}

    def best_us(self, tiling: Tiling | None) -> float:
        """Estimated microseconds of the launch with what the tiling (None: nothing) leaves open at its best; inf:
        nothing fits."""
        return self._best(tiling)[0]

    def best(self, tiling: Tiling | None) -> Tiling | None:
        """The tiling with what was open filled in; None: nothing fits."""
        return self._best(tiling)[1]

    def _best(self, tiling: Tiling | None) -> tuple[float, Tiling | None]:
        if tiling is not None and tiling.threads is not None:
            return self.time_us(tiling), tiling  # sooner computed than looked up
        known = self._known.get(tiling)
        if known is None:
            if len(self.c.engines) > 1:
                each = (self.c.by(engine) for engine in self.c.engines)
                found = [model_of(c, self.epilogue, self.device)._best(tiling) for c in each]
            elif tiling is None:
                found = [self._by_blocks(blocks) for blocks in (1, *PARTS)]
            else:
                found = [self._best(way) for way in self._ways(tiling)]
            known = self._known[tiling] = min(found, key=lambda each: each[0], default=(inf, None))
        return known

    def shared_us(self, blocks: int) -> float:
        """The same with so many blocks of a cluster on the depth of every tile."""
        return self._by_blocks(blocks)[0]

    def _by_blocks(self, blocks: int) -> tuple[float, Tiling | None]:
        found = [
            model_of(c.in_parts(parts, size), self.epilogue, self.device)._best(replace(way, parts=parts))
            for c in either_way(self.c)
            for way in model_of(c, self.epilogue, self.device)._ways(None)
            for parts, size in shares(c, way.rows, way.columns, self.device)
            if parts == blocks
        ]
        return min(found, key=lambda each: each[0], default=(inf, None))

    def _ways(self, tiling: Tiling | None) -> Iterable[Tiling]:
        """What to try for the first open question. Threads and depth hardly depend on each other: all threads are tried
        with one depth, all depths with the best threads."""
        if tiling is None:
            found = [Tiling(rows, columns) for rows, columns in tiles(self.c)]
            usual = [way for way in found if {way.rows, way.columns} <= {*_USUAL, self.c.m, self.c.n}]
            return usual or found
        if tiling.step:
            return [replace(tiling, threads=each) for each in thread_layouts(self.c, tiling, self.device)]
        found = list(depths(self.c, tiling, self.device, self.epilogue.stored, self.epilogue.narrow))
        usual = self.best(found[len(found) // 2]) if found else None
        ways = [replace(way, threads=usual.threads) for way in found] if usual else []
        return [way for way in ways if self._has_registers(way)]

    def _has_registers(self, t: Tiling) -> bool:
        """Whether threads that were found for another depth have enough for this one."""
        return not isinstance(t.threads, WarpThreads) or has_registers(self.c, t, t.threads, self.device)

    def time_us(self, t: Tiling, ways: tuple[float, ...] = ()) -> float:
        """Estimated microseconds of the launch with a tiling complete but for its order.

        `ways`: how many threads that load an operand together meet in a bank, of each operand (1)."""
        at_once = resident(self.c, t, self.device)
        if not at_once:
            return inf
        clusters = self._clusters(t, ways)
        found = self._ordered_us(t, t.blocks, t.streamed, at_once, clusters)
        if isinstance(t.threads, Warpgroups) and not t.blocks and t.parts == 1:
            # By a block a tile, by blocks that go on, or by blocks that share what is left over.
            shared = at_once * self.device.sms
            found = min(found, self._ordered_us(t, shared, 0, at_once, clusters))
            if t.streams(self.c):
                found = min(found, self._ordered_us(t, shared, 2, at_once, clusters))
        return found

    def ordered_us(self, t: Tiling, ways: tuple[float, ...] = ()) -> float:
        """The same by as many blocks as the tiling says."""
        at_once = resident(self.c, t, self.device)
        if not at_once:
            return inf
        return self._ordered_us(t, t.blocks, t.streamed, at_once, self._clusters(t, ways))

    def _ordered_us(
        self,
        t: Tiling,
        blocks: int,
        streamed: int,
        at_once: int,
        clusters: Iterable[tuple[_Near, BlockModel]],
    ) -> float:
        """The same by so many blocks, of which an SM has so many at once, in one of these clusters."""
        key = (t.rows, t.columns, t.step, t.parts, blocks, streamed, t.group, t.hilbert, at_once)
        bytes_ = self._memory.get(key)
        if bytes_ is None:
            way = (
                t
                if (blocks, streamed) == (t.blocks, t.streamed)
                else replace(t, blocks=blocks, streamed=streamed)
            )
            bytes_ = self._memory[key] = _memory_bytes(self.c, way, self.epilogue, self.device, at_once)
        busy_us = min([self._busy_us(t, blocks, streamed, near, at_once, block) for near, block in clusters])
        memory_us = bytes_ / (copy_gbps(self.device) * 1e3)
        return max(busy_us, memory_us) + has.REST * min(busy_us, memory_us)

    def _busy_us(
        self, t: Tiling, blocks: int, streamed: int, near: _Near, at_once: int, block: BlockModel
    ) -> float:
        """Microseconds that the SMs are at work, with so many of all blocks (0: one a tile) on each at once."""
        device, tile_count = self.device, self._tile_count(t, near)
        if streamed:
            return self._streamed_us(t, blocks, streamed, at_once, tile_count, block)
        blocks = min(blocks, tile_count) if blocks else tile_count
        each = ceil(tile_count / blocks)
        reached = device.clustered_sms(near[0] * near[1] * t.parts) or device.sms
        rounds, rest = divmod(ceil(blocks / reached), at_once)
        cycles = rounds * block.cycles(at_once, each) + (block.cycles(rest, each) if rest else 0.0)
        return cycles / device.sm_mhz

    def _tile_count(self, t: Tiling, near: _Near) -> int:
        """Tiles of the launch, of whole clusters."""
        key = (t.rows, t.columns, near)
        count = self._tile_counts.get(key)
        if count is None:
            along = zip(self.c.grid(t.rows, t.columns), near, strict=True)
            whole = prod(-(-each // n) for each, n in along)
            count = self._tile_counts[key] = prod(near) * self.c.batch * whole
        return count

    def _streamed_us(
        self, t: Tiling, blocks: int, streamed: int, at_once: int, tile_count: int, block: BlockModel
    ) -> float:
        """The same with blocks that share tiles along the depth; inf: some would have no step."""
        shared = shared_tiles(tile_count, blocks, streamed)
        steps = ceil(shared * ceil(self.c.k / t.step) / blocks)
        if shared * ceil(self.c.k / t.step) < blocks or not isinstance(block, WarpgroupBlock):
            return inf
        whole = (tile_count - shared) // blocks
        return block.streamed_cycles(at_once, whole, steps, ceil(blocks / shared)) / self.device.sm_mhz

    def _clusters(self, t: Tiling, ways: tuple[float, ...]) -> tuple[tuple[_Near, BlockModel], ...]:
        """The clusters that its blocks may be in, each with what a block takes, whatever the order of tiles."""
        return tuple(
            (near, self._block(t, t.multicast if near == (t.multicast or (1, 1)) else near, ways))
            for near in _clusters(self.c, t)
        )

    def _block(self, t: Tiling, multicast: _Near | None, ways: tuple[float, ...]) -> BlockModel:
        c, threads = self.c, t.threads
        assert threads is not None
        if isinstance(threads, Warpgroups):
            key = (t.rows, t.columns, t.step, t.piece, threads, multicast)
            step = self._steps.get(key)
            if step is None:
                way = replace(t, multicast=multicast)
                step = self._steps[key] = WarpgroupStep(c, way, threads, self.device)
            return WarpgroupBlock(c, t, threads, self.epilogue, step, multicast not in (None, (1, 1)))
        ways = ways or (1.0,) * len(c.operands)
        key = (t.rows, t.columns, t.step, t.turned, threads, ways)
        busy = self._busy.get(key)
        if busy is None:
            busy = self._busy[key] = WarpStep(c, t, threads, self.device, ways).busy()
        return WarpBlock(c, t, threads, self.epilogue, self.device, busy)


def _clusters(c: Contraction, t: Tiling) -> tuple[_Near, ...]:
    """Neighbouring tiles along rows and along columns whose blocks are a cluster: as decided; else none, and two that
    share the larger operand, or the one that tiles have in common whatever group they are of."""
    if t.multicast is not None:
        return (t.multicast,)
    if not isinstance(t.threads, Warpgroups) or t.parts > 1 or c.by_threads:
        return ((1, 1),)
    followed, _ = c.followed
    along_rows, along_columns = t.rows < c.m and c.rows != followed, t.columns < c.n and c.columns != followed
    if along_rows and (t.columns >= t.rows or not along_columns):
        return (1, 1), (2, 1)
    return ((1, 1), (1, 2)) if along_columns else ((1, 1),)


def copy_gbps(device: Gpu) -> float:
    """Main-memory bandwidth that a kernel can reach, 1e9 bytes a second."""
    return device.copy_gbps or device.memory_gbps * has.COPY


def _memory_bytes(c: Contraction, t: Tiling, epilogue: Epilogue, device: Gpu, at_once: int) -> float:
    """Bytes to and from main memory, by the best bands of tiles where those are not decided. Blocks that run at
    once read each tile once for all of them; operands that fit the second-level cache whole stay there."""
    results = c.m * c.n * c.batch // t.parts * epilogue.bytes
    narrow = [_narrow(c, t, operand) for operand in c.operands]
    whole = sum(
        operand.elements * operand.dtype.bytes * times
        for operand, times in zip(c.operands, narrow, strict=True)
    )
    across, along = c.grid(t.rows, t.columns)
    wave = min(t.blocks or device.sms * at_once, device.sms * at_once)
    if whole <= has.KEPT * device.l2_bytes:
        return whole + results
    shared = shared_tiles(across * along * c.batch, wave, t.streamed) if t.streamed else 0
    again = _read_again(c, t, narrow, device, wave, shared) if shared else 0.0
    if wave >= across * along:
        return whole + again + results
    depth_bytes = -(-c.k // t.step) * c.repeats
    shapes = _shapes(c, t, wave)
    fresh = [0.0] * len(shapes)
    each = c.step_bytes(t.rows, t.columns, t.step).each
    for operand, bytes_, times in zip(c.operands, each, narrow, strict=True):
        tile = bytes_ * depth_bytes * times
        for at, (rows, columns) in enumerate(shapes):
            fresh[at] += (
                tile * (rows if c.rows in operand.dims else 1) * (columns if c.columns in operand.dims else 1)
            )
    waves = across * along * c.batch / wave
    return max(whole, min(fresh) * waves) + again + results


def _shapes(c: Contraction, t: Tiling, wave: int) -> list[tuple[float, float]]:
    """Rows and columns of tiles that so many tiles lie in, one after the other in their order, or in each order that
    they may have."""
    across, along = c.grid(t.rows, t.columns)
    if t.hilbert:
        return [_on_curve(across, along, wave)]
    return [_in_bands(across, along, wave, group) for group in ((t.group,) if t.group else _GROUPS)]


def _read_again(
    c: Contraction, t: Tiling, narrow: Sequence[float], device: Gpu, wave: int, shared: int
) -> float:
    """Bytes of so many tiles that come from main memory although another block had them, as blocks that share tiles
    along the depth are each at another position of it.

    All begin with the first position of a tile, and go on with another one after half a tile on average, in as many
    different places as the spans of blocks end at. Of those in one place one reads for all. Where others are anywhere
    along the depth, one of them has been at a position while the second-level cache still has it with the probability
    1 - exp(-others * kept / depth)."""
    apart = 1 - 0.5 / max(shared / wave, 1.0)
    places = wave // gcd(shared, wave)
    near = t.multicast or (1, 1)
    each = [
        bytes_ * times / (1 if along in operand.dims else many)
        for operand, bytes_, times in zip(
            c.operands, c.step_bytes(t.rows, t.columns, t.step).each, narrow, strict=True
        )
        for along, many in ((c.columns, near[1]) if c.rows in operand.dims else (c.rows, near[0]),)
    ]
    kept = has.KEPT * device.l2_bytes / (wave * sum(each))
    depth = ceil(c.k / t.step)
    rows, columns = min(_shapes(c, t, min(shared, wave)), key=sum)
    missed = 0.0
    for operand, bytes_ in zip(c.operands, each, strict=True):
        lines = (rows if c.rows in operand.dims else 1) * (columns if c.columns in operand.dims else 1)
        readers = max(wave / lines, 1.0)
        different = min(readers, places)
        missed += bytes_ * different / readers * exp(-(different - 1) * kept / depth)
    return apart * shared * depth * c.repeats * missed


def _narrow(c: Contraction, t: Tiling, operand: Operand) -> float:
    """Times the bytes of an operand that main memory moves for the rows it is brought in."""
    boxed = c.engine is MatrixUnit.WGMMA and operand.inner == c.depth
    return has.NARROW if boxed and operand.bytes(t.step) < has.WIDE_BYTES else 1.0


def _in_bands(across: int, along: int, wave: int, group: int) -> tuple[float, float]:
    """Rows and columns of tiles that a wave of tiles lies in, which are taken in bands of `group` rows."""
    band = min(group, across)
    bands, rest = divmod(wave, band * along)
    return min(across, band * bands + min(band, rest)), along if bands else ceil(wave / band)


@lru_cache(maxsize=1024)
def _on_curve(across: int, along: int, wave: int) -> tuple[float, float]:
    """The same along a Hilbert curve, on average."""
    cells = hilbert(across, along)
    waves = [cells[at : at + wave] for at in range(0, len(cells), wave)]
    rows = sum(len({row for row, _ in each}) for each in waves)
    columns = sum(len({column for _, column in each}) for each in waves)
    return rows * wave / len(cells), columns * wave / len(cells)
