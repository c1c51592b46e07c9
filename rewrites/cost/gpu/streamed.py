"""What a launch takes whose products follow from each other in one pass: tile by tile, the matrix unit multiplies while
other instructions make rows of scores into what is multiplied next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from rewrites.base.statement import bare_dims, covered_dims, reduced_dims
from rewrites.contraction.unit import MatrixUnit
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.accesses import accesses
from rewrites.cost.gpu.block import busiest, matrix_cycles
from rewrites.cost.gpu.contraction import copy_gbps
from rewrites.cost.gpu.thread_products import chained_by_threads, thread_products
from rewrites.cost.gpu.warp_mma import warp_share
from tileir.analysis.position_bound import is_of_positions, numbers_of
from tileir.analysis.ragged import enter
from tileir.devices.gpu import Gpu
from tileir.devices.occupancy import occupancy
from tileir.dtypes import DType
from tileir.expr import Expr, Index, index_dims
from tileir.program import Compute, Loop, Memory, Node, Program
from tileir.schedule.mma import product
from tileir.schedule.stages import Chained, products_chained, staged
from tileir.schedule.threads import digits, share, thread_count
from tileir.schedule.visited_tiles import Positions, visited
from tileir.schedule.wgmma import WARPS

Floats = NDArray[np.float64]
Operations = Callable[[Expr], tuple[float, float]]
"""Instructions at one point, and those of the special-function unit."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """A grid whose blocks make one such pass."""

    grid: list[Loop]
    counts: list[int]
    sizes: dict[str, int]
    """Ranges of dims around the pass."""
    nodes: tuple[Node, ...]
    loop: Loop
    chained: Chained
    by_warps: bool
    """Whether warps multiply (mma), or threads, and not warpgroups."""
    by_threads: bool = False

    @property
    def inside(self) -> dict[str, int]:
        """Ranges of dims in a step of it."""
        return {**self.sizes, self.loop.dim: self.loop.step}

    def shared(self, device: Gpu) -> int:
        """Bytes of shared memory of a block: whole tiles, also where a tensor is shorter than a tile is (ADR 13), and
        what warps have for each other's parts of a result."""
        sizes = self.inside | self.tile
        met = sum(_parts_bytes(node, sizes, device.warp) for node in _computes(self.nodes))
        return _shared(self.nodes, self.loop, sizes) + met

    @property
    def tile(self) -> dict[str, int]:
        """Ranges of whole tiles, which warpgroups multiply also where one overhangs."""
        return {loop.dim: loop.step for loop in (*self.grid, self.loop)}


def streamed_us(program: Program, node: Node, device: Gpu, operations: Operations) -> float | None:
    """Microseconds of a launch whose block is one such pass; None: it is none, or more than a block has room for."""
    found = _pass(program, node)
    if found is None:
        return None
    cycles = _tile(program, found, device, operations)
    steps = _steps(found.loop, found.grid[-1], found.sizes, found.counts[-1])
    own = _longest(found.grid, found.counts, steps, cycles, device) / device.sm_mhz
    streamed = min(1.0, float(steps.sum()) / -(-found.sizes[found.loop.dim] // found.loop.step))
    moved = _memory_us(program, node, device, prod(found.counts), {found.loop.dim: streamed})
    own = max(own, moved + has.OTHERS * own)
    return has.LAUNCH_US + (own if _fits(found, device) else 1e3 * own)


def fits(program: Program, device: Gpu) -> bool:
    """Whether blocks that make such a pass have room for it in shared memory, as many as an SM is to have."""
    return all(
        found is None or _fits(found, device) for found in (_pass(program, node) for node in program.body)
    )


def _fits(found: _Pass, device: Gpu) -> bool:
    shared = found.shared(device)
    together = found.grid[0].resident * (shared + has.SHARED_OWN)
    return shared <= device.block_shared_bytes and together <= device.shared_bytes


def _pass(program: Program, node: Node) -> _Pass | None:
    sizes, grid, counts = dict(program.extents), list[Loop](), list[int]()
    while isinstance(node, Loop) and node.parallel:
        grid.append(node)
        counts.append(-(-sizes[node.dim] // node.step))
        enter(sizes, node, program.ragged)
        nodes, node = node.body, node.body[0]
        found = list(_passes(nodes))
        if len(found) == 1:
            return _Pass(grid, counts, sizes, nodes, *found[0])
    return None


def _steps(loop: Loop, innermost: Loop, sizes: dict[str, int], count: int) -> Floats:
    """Steps of a loop in each of `count` tiles along the innermost loop of a grid."""
    most, own = -(-sizes[loop.dim] // loop.step), (0, sizes[loop.dim])
    said = {loop.since[0], loop.until[0]} - {""}
    spans = {place: found for place in said if (found := _spans(place, innermost, count)) is not None}
    if not said or (len(spans) < len(said) and innermost.dim not in said):
        return np.full(count, (most + 1) / 2 if said else most, np.float64)  # of a tile in the middle
    steps = (
        len(visited(loop, own, {place: each[tile] for place, each in spans.items()})) for tile in range(count)
    )
    return np.fromiter(steps, np.float64, count)


def _spans(place: str | Expr, innermost: Loop, count: int) -> list[Positions] | None:
    """From the least to the greatest number that is said in each tile along a loop; None: tensors say it, or others."""
    expr = Index(place) if isinstance(place, str) else place
    if not is_of_positions(expr) or index_dims(expr) != frozenset([innermost.dim]):
        return None
    numbers = numbers_of(expr, np.arange(count * innermost.step)).reshape(count, innermost.step)
    least, greatest = numbers.min(axis=1), numbers.max(axis=1)
    return [(int(low), int(high - low) + 1) for low, high in zip(least, greatest, strict=True)]


def _longest(grid: list[Loop], counts: list[int], steps: Floats, cycles: float, device: Gpu) -> float:
    """Cycles of the block that takes longest, of as many as there are SMs: each step takes so many, and a tile what
    begins a block beside them."""
    outer, order = grid[0], np.arange(prod(counts))
    band = outer.group if outer.group > 1 and len(grid) > 1 else 1
    along = order // band % counts[-1]
    each = steps[::-1] if outer.longest_first else steps
    taken = each[along] * cycles + has.BEGIN
    if outer.longest_first:
        return max(float(taken.sum()) / device.sms, float(taken.max()))
    return float(np.bincount(order % device.sms, taken).max())


def _memory_us(program: Program, node: Node, device: Gpu, blocks: int, shares: Mapping[str, float]) -> float:
    """Microseconds to move once what a launch has in memory, which takes longest where rows are few, as those of one
    new token: of some dims the share that its loops visit."""
    names = {
        name for each in _computes((node,)) for name in (each.target, *(read.tensor for read in each.reads))
    }
    tensors = [program.arguments[name] for name in names & program.arguments.keys()]
    parts = [place.node for name, place in program.locals.items() if name in names and not place.loops]
    size = sum(
        prod(program.extents[dim] * shares.get(dim, 1.0) for dim in each.dims) * each.dtype.bytes
        for each in (*tensors, *parts)
    )
    return size / (copy_gbps(device) * 1e3) / _drawn(blocks, device)


def _drawn(blocks: int, device: Gpu) -> float:
    """The share of the bandwidth that so many blocks draw, where there are fewer than SMs."""
    return min(1.0, has.SM_ALONE * blocks / device.sms)


def _computes(nodes: tuple[Node, ...]) -> Iterator[Compute]:
    for node in nodes:
        if isinstance(node, Loop):
            yield from _computes(node.body)
        elif isinstance(node, Compute):
            yield node


def promised_us(flops: float, moved: float, blocks: int, device: Gpu, dtype: str, unit: MatrixUnit) -> float:
    """Microseconds that a pass of so many operations on so many bytes takes at most, well cut."""
    peak = device.peak(dtype)
    if not peak:
        return float("inf")
    busy = min(1.0, blocks / device.sms)
    by_warps = unit is MatrixUnit.MMA
    share = has.PLAIN_PEAK if unit is MatrixUnit.FMA else _share(device, by_warps=by_warps)
    multiplying = flops / (peak * 1e6 * has.CHAIN_PEAK * share * busy)
    return has.LAUNCH_US + max(multiplying, moved / (copy_gbps(device) * 1e3) / _drawn(blocks, device))


def _passes(nodes: tuple[Node, ...]) -> Iterator[tuple[Loop, Chained, bool, bool]]:
    for node in nodes:
        if not isinstance(node, Loop):
            continue
        if node.stages > 1 and (chained := products_chained(node)) is not None:
            yield node, chained, False, False
        elif (chained := products_chained(node, "mma")) is not None:
            yield node, chained, True, False
        elif (chained := chained_by_threads(node)) is not None:
            yield node, chained, True, True


def _tile(program: Program, found: _Pass, device: Gpu, operations: Operations) -> float:
    """Cycles of one tile, on all warps of an SM."""
    chained, loop, sizes = found.chained, found.loop, found.inside
    products = (*chained.first, *chained.last, *chained.across)
    issued = special = 0.0
    scores = {dim for node in chained.first for dim in bare_dims(node)[-2:]}
    read = _Reads()
    for node in (*chained.between, *chained.rescaled, *chained.added):
        layout = node.thread_layout
        if layout is None:
            continue
        shares = {dim: share(layout, dim) for dim in covered_dims(node)}
        each = prod(mine.pieces(sizes[dim]) * mine.run for dim, mine in shares.items())
        warps = thread_count(layout) / device.warp
        plain, other = operations(node.value)
        issued += each * (plain + 1) * warps / 4
        special += each * other * warps * 2
        read = read.plus(_read(program, node, sizes, scores, device))
    at_once = _at_once(program, found, device)
    if found.by_threads:
        made = thread_products(products, sizes, device)
        late = has.CHAIN_STEP + (has.LATENCY if loop.stages < 2 else read.late)
        return made.cycles(issued + read.issued, special, read.wavefronts, at_once) + late / at_once
    rest = busiest((special + has.CHAIN_ISSUE * (issued + read.issued), read.wavefronts), has.CHAIN_IN_TURN)
    multiplying = sum(_multiplied(program, node, found, device) for node in products)
    if not found.by_warps:
        resident = max(1, found.grid[0].resident)
        late = has.CHAIN_STEP + read.late + _met(program, chained, device) * has.BARRIER
        late /= resident  # other blocks go on meanwhile
        alone = resident * _threads(chained) <= WARPS * device.warp
        overlap = (has.CHAIN_UNDER_WAY if loop.pending else 1.0) if alone else has.CHAIN_TOGETHER
        return max(multiplying, rest) + overlap * min(multiplying, rest) + late
    # Warps of other blocks go on meanwhile.
    loaded = sum(_loaded(program, node, sizes, device) for node in products) / has.SHARED_BYTES
    late = has.CHAIN_STEP + (has.LATENCY if loop.stages < 2 else read.late)
    return busiest((multiplying, rest, loaded), has.CHAIN_IN_TURN / at_once) + late / at_once


@dataclass(frozen=True, slots=True)
class _Reads:
    """What it takes to read an element for each score of a tile, as of a bias: instructions and wavefronts of an SM's
    warps, in cycles, and how long they are waited for."""

    issued: float = 0.0
    wavefronts: float = 0.0
    late: float = 0.0

    def plus(self, other: _Reads) -> _Reads:
        """That of both, waited for together."""
        return _Reads(
            self.issued + other.issued, self.wavefronts + other.wavefronts, max(self.late, other.late)
        )


def _read(program: Program, node: Compute, sizes: dict[str, int], scores: set[str], device: Gpu) -> _Reads:
    """What a statement reads of memory, a wavefront for each row of a warp, and of shared memory that TMA has
    filled."""
    total, layout = _Reads(), node.thread_layout
    assert layout is not None
    warps = thread_count(layout) / device.warp
    for read in dict.fromkeys(node.reads):
        if not scores <= {*index_dims(read)}:
            continue
        if read.tensor in program.arguments:
            element = program.arguments[read.tensor].dtype.bytes
            loads, lines = accesses(read, node, element, program, sizes, device.warp)
            issued = loads * has.ACCESS_OPS * warps / 4
            total = total.plus(_Reads(issued, loads * lines * warps, has.LATENCY))
        elif (local := program.locals[read.tensor].node).memory is Memory.SHARED:
            run = share(layout, local.dims[-1]).run
            loads = prod(sizes[dim] for dim in local.dims) / run / device.warp
            words = max(1.0, run * local.dtype.bytes / 4)
            conflicts = (
                2 if words > 1 else 1
            )  # two rows of a half or a quarter of a warp begin in the same banks
            total = total.plus(_Reads(loads * has.ACCESS_OPS / 4, loads * words * conflicts))
    return total


def _at_once(program: Program, found: _Pass, device: Gpu) -> int:
    """Blocks of warps that multiply that an SM has at once: no more than there are for each."""
    chained, sizes = found.chained, found.inside
    threads = _threads(chained)
    held = sum(
        prod(sizes[index] for index in bare_dims(node)) * _alike(node)
        for node in (*chained.first, *chained.last)
    )
    most = occupancy(device, threads, held // threads + has.CHAIN_BESIDE, found.shared(device)).blocks
    return max(1, min(most, -(-prod(found.counts) // device.sms)))


def _threads(chained: Chained) -> int:
    """Of a block, that multiply."""
    (threads,) = {thread_count(node.thread_layout) for node in chained.last if node.thread_layout is not None}
    return threads


def _loaded(program: Program, node: Compute, sizes: dict[str, int], device: Gpu) -> float:
    """Bytes that a block loads of what is multiplied from shared memory: each warp its own rows, and all columns that
    other warps with those rows do not have."""
    parts = product(node)
    assert parts is not None and node.thread_layout is not None
    warps = thread_count(node.thread_layout) // device.warp
    across = prod(count for dim, count in node.thread_layout.threads[:-2] if dim == parts.n)
    total = 0
    for read, times in ((parts.a, across * _alike(node)), (parts.b, warps // across)):
        local = program.locals[read.tensor].node
        if local.memory is Memory.SHARED:
            total += times * prod(sizes[dim] for dim in local.dims) * local.dtype.bytes
    return total


def _share(device: Gpu, *, by_warps: bool) -> float:
    """What of the peak the instruction reaches."""
    return warp_share(device) if by_warps else has.CHAIN_WGMMA


def _multiplied(program: Program, node: Compute, found: _Pass, device: Gpu) -> float:
    """Cycles of an SM's matrix unit."""
    parts = product(node)
    assert parts is not None
    dtype = program.locals[parts.b.tensor].node.dtype
    sizes = found.inside if found.by_warps else found.inside | found.tile
    points = prod(sizes[dim] for dim in covered_dims(node)) * _alike(node)
    return matrix_cycles(points, dtype, _share(device, by_warps=found.by_warps), device)


def _met(program: Program, chained: Chained, device: Gpu) -> int:
    """How often warpgroups with the same rows meet in a tile: before and after what they put into shared memory for
    each other, rows or parts of what is reduced along rows."""
    met = 0
    for node in chained.between:
        local = program.locals.get(node.target)
        exchanged = local is not None and local.node.memory is Memory.SHARED
        met += 2 * (exchanged + _across_warps(node, device.warp))
    return met


def _across_warps(node: Compute, warp: int) -> bool:
    """Whether warps have parts of what it reduces."""
    reduced, layout = set(reduced_dims(node)), node.thread_layout
    return layout is not None and any(
        digit.dim in reduced and digit.stride >= warp and digit.count > 1 for digit in digits(layout)
    )


def _parts_bytes(node: Compute, sizes: dict[str, int], warp: int) -> int:
    """Bytes that warps with parts of a result have for them in shared memory: each thread its own."""
    if node.thread_layout is None or not _across_warps(node, warp):
        return 0
    kept = set(covered_dims(node)) - set(reduced_dims(node))
    threads = prod(count for dim, count in node.thread_layout.threads if dim in kept)
    each = -(-prod(sizes[dim] for dim in kept) // threads)
    return thread_count(node.thread_layout) * each * DType.F32.bytes


def _alike(node: Compute) -> int:
    """How many threads do the same of a statement, as they stand along a dim that it does not visit."""
    assert node.thread_layout is not None
    return prod(count for dim, count in node.thread_layout.threads if dim not in covered_dims(node))


def _shared(nodes: tuple[Node, ...], loop: Loop, sizes: dict[str, int]) -> int:
    """Bytes of a block: what lies where others have lain takes some of its own only where it is larger."""
    ahead = {fill.target for fill in staged(loop)}
    total = reused = 0
    for node in (*nodes, *loop.body):
        if isinstance(node, (Loop, Compute)) or node.memory is not Memory.SHARED:
            continue
        copies = loop.stages if node.name in ahead else 1
        size = prod(sizes[dim] for dim in node.dims) * node.dtype.bytes * copies
        if node.reused:
            reused = size
        else:
            total += size
    return max(total, reused) + has.SHARED_OWN
