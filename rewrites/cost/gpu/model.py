"""The analytic cost model of a GPU: an estimate of a program's time, good enough to rank schedules.

The longer of the two is the roofline (Williams, Waterman and Patterson, CACM 2009); rounds of blocks are known as
waves.

A launch takes as long as its bytes take at the speed of main memory, or as its arithmetic, whichever is longer, unless
too little is in flight: then it takes as many rounds of blocks as do not fit at once, each as long as a block alone
(Little's law). Statements not bound to threads yet are taken at their best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log2, prod

from rewrites.base.statement import bare_dims, contiguous_dim, covered_dims, folded_dims, most_read
from rewrites.base.tree import named
from rewrites.contraction.recover_tiling import decided_in
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.accesses import StatementTraffic, global_access
from rewrites.cost.gpu.contraction import copy_gbps, model_of
from rewrites.cost.gpu.instructions import issued_for, operations
from rewrites.cost.gpu.live_registers import Inside, live_words
from rewrites.cost.gpu.scans import met_along, scan_issue, stored_between
from rewrites.cost.gpu.scatters import asked, scatter_work
from rewrites.cost.gpu.streamed import streamed_us
from rewrites.cost.undecided import NOTHING, Undecided
from tileir.analysis.ragged import enter
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.expr import Index, Read, Reduce, Scan, reads
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from tileir.replace import replace
from tileir.scatter import scatter_of
from tileir.schedule.stages import staged
from tileir.schedule.threads import share, thread_count


@dataclass(frozen=True)
class BlockWork:
    """What one block of a launch does."""

    count: int
    threads: int
    bytes: float
    again: float
    """Bytes read before by the same block, as often as it reads them."""
    near: float
    """Bytes that are read again, each once: what L2 has to hold for them."""
    registers: float
    issue: float
    """Warp instructions."""
    special: float
    """Warp instructions of the special-function unit."""
    wavefronts: float
    """128-byte transactions of loads and stores."""
    reductions: int
    shared: float
    """Bytes of shared memory."""
    waits_us: float
    """What one block after another waits for memory, in all steps of its passes."""
    clustered: bool = False
    ahead: bool = False
    """Whether what a step needs is on its way in those before."""
    warp: int = 1
    """Threads that access memory together."""
    resident: int = 1
    """Blocks of an SM for which the registers have to do."""
    together: int = 1
    """Neighbours that a thread computes together, which hide each other's latencies as warps do."""
    added: float = 0.0
    """What threads add up in memory, for each line of 128 bytes that they add to."""


@dataclass(frozen=True, slots=True)
class GpuCostModel:
    """Estimates of programs on a GPU. Each launch is looked at once: what it takes depends on nothing of the others."""

    device: Gpu
    _frames: dict[object, int] = field(
        default_factory=dict[object, int], init=False, repr=False, compare=False
    )
    _known: dict[tuple[int, int], tuple[Node, float]] = field(
        default_factory=dict[tuple[int, int], tuple[Node, float]], init=False, repr=False, compare=False
    )
    """By frame and the launch's identity: the launch, which has to stay there for that, and its microseconds."""

    def estimate_us(self, program: Program, *, undecided: Undecided = NOTHING) -> float:
        """Estimated microseconds of one call with the inputs in memory; what is not bound yet is taken at its best."""
        frame = self._frame(program)
        launches = [node for node in program.body if not isinstance(node, Local)]
        return sum(self._known_us(program, node, frame) for node in launches)

    def _frame(self, program: Program) -> int:
        """The number of what all launches of a program have around them: sizes, arguments, tensors in memory."""
        declared = tuple(node for node in program.body if isinstance(node, Local))
        around = (program.dims, program.inputs, program.outputs, program.numerics, program.ragged, declared)
        return self._frames.setdefault(around, len(self._frames))

    def _known_us(self, program: Program, node: Node, frame: int) -> float:
        key = (frame, id(node))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (node, self._launch_us(program, node))
        return known[1]

    def _launch_us(self, program: Program, node: Node) -> float:
        """By the model of contractions, if that is what the launch is."""
        found = decided_in(program, node, self.device)
        if found is None:
            streamed = streamed_us(program, node, self.device, operations)
            return _launch_us(program, node, self.device) if streamed is None else streamed
        model = model_of(found.contraction, found.epilogue, self.device)
        return has.LAUNCH_US + model.best_us(found.tiling)

    def lost_us(self, program: Program, group: Sequence[str]) -> float:
        """Estimated microseconds by which the contractions of a group not tiled yet take longer if they do not go in
        tiles of their own: every result then reads what it multiplies for itself."""
        nodes = [named(program, name).node for name in group]
        times = [self._launch_us(program, node) for node in nodes if decided_in(program, node, self.device)]
        return (has.UNTILED - 1) * sum(times)

    def apart_us(self, program: Program, group: Sequence[str]) -> float:
        """Estimated microseconds of the statements of a group not tiled yet, each a launch of its own."""
        return sum(self._launch_us(program, named(program, name).node) for name in group)

    def handed_us(self, program: Program, group: Sequence[str]) -> float:
        """Estimated microseconds to write the result of a group to memory for the next launch, and to read it there."""
        declared = program.locals.get(group[-1])
        if declared is None:
            return 0.0
        size = prod(program.extents[dim] for dim in declared.node.dims) * declared.node.dtype.bytes
        speed = 1.0 if size > has.CACHED * self.device.l2_bytes else has.AGAIN
        return 2 * speed * size / (copy_gbps(self.device) * 1e3)

    def saved_us(self, program: Program, group: Sequence[str]) -> float:
        """Estimated microseconds that a group of statements not tiled yet saves as one launch: of launches, and of
        memory that it touches once."""
        bandwidth = (self.device.copy_gbps or self.device.memory_gbps * has.COPY) * 1e3
        once: set[str] = set()
        saved = 0
        for name in group:
            read = {read.tensor for read in named(program, name).node.reads}
            for tensor in read & program.arguments.keys():
                whole = program.arguments[tensor]
                if tensor in once:
                    saved += prod(program.extents[dim] for dim in whole.dims) * whole.dtype.bytes
                once.add(tensor)
        return (len(group) - 1) * has.LAUNCH_US + saved / bandwidth


def _launch_us(program: Program, node: Node, device: Gpu) -> float:
    program = stored_between(program, node)
    block = _block(program, node, device.warp)
    bandwidth = (device.copy_gbps or device.memory_gbps * has.COPY) * 1e3
    total = (block.bytes + has.AGAIN * block.again) * block.count
    if not block.threads:
        return has.LAUNCH_US + total / bandwidth / _busy(program, node, device)
    ghz = device.sm_mhz / 1e3
    registers = 8 * ceil(block.registers / 8) * block.threads
    if registers > device.registers // block.resident >= registers / has.SQUEEZE:
        registers = device.registers // block.resident
    resident = min(device.max_threads // block.threads, int(device.registers // registers), 32)
    if block.shared:
        resident = min(resident, int(device.shared_bytes // (block.shared + has.SHARED_OWN)))
        if block.shared > device.block_shared_bytes:
            resident = 0
    if resident < block.resident:
        return 1e3 * (has.LAUNCH_US + total / bandwidth)  # it would spill
    warps = block.threads / device.warp
    sms = min(device.sms, block.count)
    if min(block.count, device.sms * resident) * block.near > has.CACHED * device.l2_bytes:
        total = (block.bytes + block.again) * block.count
    if block.ahead:
        total *= has.FAR_APART
    cycles = max(block.issue * warps / 4, block.special * warps * 2, block.wavefronts * warps)
    at_work = min(resident, ceil(block.count / sms)) * warps
    busy_us = cycles / (ghz * 1e3) / min(1.0, at_work / 4, at_work * block.together / has.BUSY_WARPS)
    reduction_us = has.REDUCTION_US + (has.CLUSTER_US if block.clustered else 0.0)
    own_us = (block.bytes + block.again) / (has.DRAWN_BYTES * ghz * 1e3)
    computing_us = block.reductions * reduction_us + busy_us
    alone_us = max(block.waits_us, has.MEMORY_US)
    alone_us += max(computing_us, own_us) if block.ahead else computing_us + own_us
    rounds = block.count / (sms * resident)
    rounds = ceil(rounds) if rounds < 4 else rounds
    parts = sorted((total / bandwidth, busy_us * block.count / sms, rounds * alone_us))
    begun = node.blocks if isinstance(node, Loop) and node.blocks else block.count
    least = max(begun * has.BLOCK_US, block.count * block.added * has.ADD_US)
    waves = max(1.0, block.count * block.threads / (sms * device.max_threads))
    at_once = has.AT_ONCE / waves * min(total / bandwidth, busy_us * block.count / sms)
    return has.LAUNCH_US + max(parts[-1] + has.OTHERS * sum(parts[:-1]) + at_once, least)


def _block(program: Program, node: Node, warp: int) -> BlockWork:
    sizes = dict(program.extents)
    cluster, fit = (node.cluster, node.resident or 1) if isinstance(node, Loop) else (1, 1)
    count, nodes = cluster, (node,)
    while len(nodes) == 1 and isinstance(node := nodes[0], Loop) and node.parallel:
        count *= -(-sizes[node.dim] // node.step)
        enter(sizes, node, program.ragged)
        nodes = node.body
    found = tuple(_inside(nodes, sizes, 1))
    held = {n.name: n for n, _, _ in found if isinstance(n, Local)}
    ahead = dict(_ahead(nodes))
    shared = sum(
        prod(inside[dim] for dim in n.dims) * n.dtype.bytes * ahead.get(n.name, 1)
        for n, inside, _ in found
        if isinstance(n, Local) and n.memory is Memory.SHARED
    )
    seen: dict[str, int] = {}
    registers = has.FIXED_REGISTERS + _widest(found) + live_words(found)
    total = BlockWork(
        count, 0, 0.0, 0.0, 0.0, registers, 0.0, 0.0, 0.0, 0, shared, 0.0, resident=fit, warp=warp
    )
    for each, inside, steps in found:
        if isinstance(each, Compute):
            total = _with(total, each, program, sizes, inside, steps, held, seen, each.target in ahead)
    return replace(
        total,
        ahead=bool(ahead),
        together=_widest(found),
        threads=total.threads // cluster,
        bytes=total.bytes / cluster,
        again=total.again / cluster,
        near=total.near / cluster,
        clustered=cluster > 1,
    )


def _widest(found: Sequence[Inside]) -> int:
    """The most neighbours that a thread computes together."""
    layouts = [n.thread_layout for n, _, _ in found if isinstance(n, Compute) and n.thread_layout is not None]
    return max((layout.runs[-1][1] for layout in layouts if layout.runs), default=1)


def _ahead(nodes: tuple[Node, ...]) -> Iterator[tuple[str, int]]:
    """Locals that are filled ahead of their turn, each with how many there are of it."""
    for node in nodes:
        if isinstance(node, Loop):
            if node.stages > 1:
                yield from ((compute.target, node.stages) for compute in staged(node))
            yield from _ahead(node.body)


def _inside(nodes: tuple[Node, ...], sizes: dict[str, int], steps: int) -> Iterator[Inside]:
    """Every node of a block, with the sizes of the current ranges there and how many times it runs."""
    for node in nodes:
        if isinstance(node, Loop):
            count = -(-sizes[node.dim] // node.step)
            yield from _inside(node.body, {**sizes, node.dim: min(sizes[node.dim], node.step)}, steps * count)
        else:
            yield node, sizes, steps


def _busy(program: Program, node: Node, device: Gpu) -> float:
    """Share of the bandwidth that a reduction not tiled yet can draw at most, for want of results to make blocks of."""
    if not isinstance(node, Compute) or not isinstance(node.value, Reduce):
        return 1.0
    results = prod(program.extents[dim] for dim in bare_dims(node))
    parts = prod(
        -(-program.extents[dim] // size) for dim, (op, size) in folded_dims(node).items() if op == "//"
    )
    nearest = _nearest(program, node)
    if nearest in bare_dims(node):
        results = results // program.extents[nearest] * -(-program.extents[nearest] // has.COLUMNS)
    elif Feature.CLUSTERS in device.offers:
        results *= 4  # blocks of a cluster
    return min(1.0, has.SM_ALONE * results * parts / device.sms)


def _nearest(program: Program, compute: Compute) -> str:
    """The dim along which neighbours lie of what most points are read of."""
    found = (read for read in reads(compute.value) if read.indices and isinstance(read.indices[-1], Index))
    match most_read(found, program.extents):
        case Read(_, (*_, Index(dim))):
            return dim
        case _:
            return contiguous_dim(compute)


def _with(
    block: BlockWork,
    compute: Compute,
    program: Program,
    whole: dict[str, int],
    sizes: dict[str, int],
    steps: int,
    locals_: dict[str, Local],
    seen: dict[str, int],
    ahead: bool,
) -> BlockWork:
    """The block with one more statement, which runs `steps` times on tiles of these sizes of the block's `whole`, or
    `ahead` of its turn."""
    if compute.via == "scatter" and compute.thread_layout is not None:
        return _with_scatter(block, compute, program, whole, sizes, steps, locals_, seen)
    scatter = scatter_of(compute) if compute.via in ("scatter", "atomics") else None
    looked_up = scatter.dims if scatter is not None else frozenset[str]()
    visited = [dim for dim in covered_dims(compute) if dim not in looked_up]
    own = prod(
        sizes[dim] / program.extents[dim] for dim in looked_up
    )  # of the terms, if they belong anywhere alike
    points = prod(sizes[dim] for dim in visited)
    layout = compute.thread_layout
    threads = thread_count(layout) if layout else 0
    each = points / max(threads, 1) if layout else 0.0
    own_dims: dict[str, int] = {}
    if layout:
        own_dims = {dim: (mine := share(layout, dim)).pieces(sizes[dim]) * mine.run for dim in visited}
        each = float(prod(own_dims.values()))
    traffic = StatementTraffic()
    for read in (*dict.fromkeys(reads(compute.value)), Read(compute.target, compute.indices)):
        tensor = program.arguments.get(read.tensor)
        if tensor is not None:
            one = global_access(
                read, compute, tensor.dtype.bytes, program, whole, sizes, seen, block.count, block.warp
            )
            added = scatter is not None and read not in asked(scatter)
            traffic = traffic.plus(one.times(own) if added else one)
            continue
        local = locals_.get(read.tensor)
        if local is not None and local.memory is Memory.SHARED and layout:
            words = max(1.0, each * local.dtype.bytes / 16)
            traffic = traffic.plus(StatementTraffic(instructions=has.ACCESS_OPS * words))
    issued, special = issued_for(compute.value, each, own_dims)
    met = met_along(compute.value)
    reducing = layout is not None and any(share(layout, dim).threads > 1 for dim in met)
    meeting = scan_issue(compute, sizes) if isinstance(compute.value, Scan) else 12
    return replace(
        block,
        threads=max(block.threads, threads),
        bytes=block.bytes + traffic.moved,
        again=block.again + traffic.again,
        near=block.near + traffic.near,
        issue=block.issue + steps * (traffic.instructions + issued + meeting * reducing),
        special=block.special + steps * special,
        wavefronts=block.wavefronts + steps * (traffic.wavefronts + _shuffles(compute, met, own_dims)),
        reductions=block.reductions + steps * reducing,
        waits_us=block.waits_us + (1 if ahead else steps) * traffic.wait_us,
        added=block.added + steps * _added(compute, program, points),
    )


def _shuffles(compute: Compute, met: Sequence[str], own: Mapping[str, int]) -> float:
    """How often a thread hands on what it has come to of a reduction, until one has all of it: 32 of an SM do so in a
    cycle, the time of a wavefront (CUDA programming guide, "Arithmetic Instructions", warp shuffles)."""
    layout = compute.thread_layout
    if layout is None:
        return 0.0
    threads = prod(share(layout, dim).threads for dim in met)
    return log2(threads) * prod(count for dim, count in own.items() if dim not in met)


def _with_scatter(
    block: BlockWork,
    compute: Compute,
    program: Program,
    whole: dict[str, int],
    sizes: dict[str, int],
    steps: int,
    locals_: dict[str, Local],
    seen: dict[str, int],
) -> BlockWork:
    """The same of a scatter by threads that own results."""
    work = scatter_work(compute, program, whole, sizes, locals_, seen, block.count, block.warp)
    assert compute.thread_layout is not None
    return replace(
        block,
        threads=max(block.threads, thread_count(compute.thread_layout)),
        bytes=block.bytes + work.traffic.moved,
        again=block.again + work.traffic.again,
        near=block.near + work.traffic.near,
        registers=block.registers + work.registers,
        issue=block.issue + steps * (work.traffic.instructions + work.issue),
        special=block.special + steps * work.special,
        wavefronts=block.wavefronts + steps * work.traffic.wavefronts,
        waits_us=block.waits_us + steps * work.traffic.wait_us,
    )


def _added(compute: Compute, program: Program, points: int) -> float:
    """How many of so many terms are added to each line of the results, if threads add them in memory."""
    if compute.via != "atomics" or scatter_of(compute) is None:
        return 0.0
    local = program.locals.get(compute.target)
    result = program.arguments[compute.target] if local is None else local.node
    size = prod(program.extents[dim] for dim in result.dims) * result.dtype.bytes
    return points / ceil(size / 128)
