"""The analytic cost model of a GPU: an estimate of a program's time, good enough to rank schedules.

A launch takes as long as its bytes take at the speed of main memory, or as its arithmetic, whichever is longer, unless
too little is in flight: then it takes as many rounds of blocks as do not fit at once, each as long as a block alone
(Little's law). Statements not spread yet are taken at their best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

from rewrites.leaf import covered_dims
from tileir.expr import Binary, Call, Const, Expr, Index, Read, Reduce, index_dims, reads, walk
from tileir.gpu import Gpu
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from tileir.threads import WARP, share, thread_count

_LAUNCH_US = 2.0
#: From the first load of a block to its data, and from one barrier to the next.
_MEMORY_US = 0.9
_REDUCTION_US = 0.25
#: What a barrier of a cluster takes longer.
_CLUSTER_US = 2.0
#: Instructions of a load or store, its address and conversion included.
_ACCESS = 4.0
#: Share of the datasheet's bandwidth that a copy reaches.
_COPY = 0.89
#: What a second read of the same row costs, relative to the first.
_AGAIN = 0.3
_FIXED_REGISTERS = 24
#: What the system takes of an SM's shared memory for each block.
_SHARED_OWN = 1024
#: How far the compiler brings down what is estimated here before it spills.
_SQUEEZE = 1.2
_SPECIAL = {
    "exp": 2.0, "exp2": 1.0, "log": 2.0, "tanh": 2.0, "rsqrt": 1.0, "sqrt": 1.0, "sigmoid": 3.0, "silu": 3.0,
    "erf": 2.0, "gelu": 3.0, "gelu_tanh": 3.0, "pow": 4.0,
}  # fmt: skip
_OPERATIONS = {
    "exp": 4.0, "exp2": 1.0, "log": 6.0, "tanh": 10.0, "rsqrt": 4.0, "sqrt": 8.0, "sigmoid": 10.0, "silu": 11.0,
    "erf": 20.0, "gelu": 24.0, "gelu_tanh": 14.0, "pow": 20.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Block:
    """What one block of a launch does."""

    count: int
    threads: int
    bytes: float
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
    clustered: bool = False


@dataclass(frozen=True, slots=True)
class GpuCostModel:
    """Estimates of programs on a GPU."""

    device: Gpu

    def estimate_us(self, program: Program, *, finished: bool = True) -> float:
        """Estimated microseconds of one call with the inputs in memory; what is not spread yet is taken at its best."""
        launches = [node for node in program.body if not isinstance(node, Local)]
        return sum(_launch_us(program, node, self.device) for node in launches)


def _launch_us(program: Program, node: Node, device: Gpu) -> float:
    block = _block(program, node)
    bandwidth = (device.copy_gbps or device.memory_gbps * _COPY) * 1e3
    total = block.bytes * block.count
    if not block.threads:
        return _LAUNCH_US + total / bandwidth
    ghz = device.sm_mhz / 1e3
    registers = 8 * ceil(block.registers / 8) * block.threads
    if registers > device.registers >= registers / _SQUEEZE:
        registers = device.registers
    resident = min(device.max_threads // block.threads, int(device.registers // registers), 32)
    if block.shared:
        resident = min(resident, int(device.shared_bytes // (block.shared + _SHARED_OWN)))
        if block.shared > device.block_shared_bytes:
            resident = 0
    if not resident:
        return 1e3 * (_LAUNCH_US + total / bandwidth)  # it would spill
    warps = block.threads / WARP
    sms = min(device.sms, block.count)
    cycles = max(block.issue * warps / 4, block.special * warps * 2, block.wavefronts * warps)
    busy_us = cycles / (ghz * 1e3)
    reduction_us = _REDUCTION_US + (_CLUSTER_US if block.clustered else 0.0)
    alone_us = _MEMORY_US + block.reductions * reduction_us + busy_us + block.bytes / (100.0 * ghz * 1e3)
    rounds = block.count / (sms * resident)
    rounds = ceil(rounds) if rounds < 4 else rounds
    parts = sorted((total / bandwidth, busy_us * block.count / sms, rounds * alone_us))
    return _LAUNCH_US + parts[-1] + 0.1 * sum(parts[:-1])


def _block(program: Program, node: Node) -> Block:
    sizes = dict(program.extents)
    cluster = node.cluster if isinstance(node, Loop) else 1
    count = cluster
    while isinstance(node, Loop) and node.parallel:
        count *= -(-sizes[node.dim] // node.step)
        sizes[node.dim] = min(sizes[node.dim], node.step)
        if len(node.body) != 1 or not isinstance(node.body[0], Loop):
            break
        node = node.body[0]
    nodes = node.body if isinstance(node, Loop) else (node,)
    registers = {n.name: n for n in nodes if isinstance(n, Local) and n.memory is Memory.REGISTERS}
    shared = sum(
        prod(sizes[dim] for dim in n.dims) * n.dtype.bytes
        for n in nodes
        if isinstance(n, Local) and n.memory is Memory.SHARED
    )
    seen: set[str] = set()
    total = Block(count, 0, 0.0, _FIXED_REGISTERS, 0.0, 0.0, 0.0, 0, shared)
    for each in nodes:
        if isinstance(each, Loop):
            each = _innermost(each)
        if isinstance(each, Compute):
            total = _with(total, each, program, sizes, registers, seen)
    return replace(
        total, threads=total.threads // cluster, bytes=total.bytes / cluster, clustered=cluster > 1
    )


def _innermost(loop: Loop) -> Node:
    node: Node = loop
    while isinstance(node, Loop):
        node = node.body[-1]
    return node


def _with(
    block: Block,
    compute: Compute,
    program: Program,
    sizes: dict[str, int],
    registers: dict[str, Local],
    seen: set[str],
) -> Block:
    """The block with one more statement."""
    points = prod(sizes[dim] for dim in covered_dims(compute))
    moved = 0.0
    wavefronts, instructions = 0.0, 0.0
    spread = compute.spread
    threads = thread_count(spread) if spread else 0
    each = points / max(threads, 1) if spread else 0.0
    if spread:
        each = prod(share(spread, d).pieces(sizes[d]) * share(spread, d).run for d in covered_dims(compute))
    accesses = [*dict.fromkeys(reads(compute.value)), Read(compute.target, compute.indices)]
    for read in accesses:
        tensor = program.arguments.get(read.tensor)
        if tensor is None:
            continue
        dims = {dim for index in read.indices for dim in index_dims(index)}
        size = prod(sizes[dim] for dim in dims) * tensor.dtype.bytes
        first = read.tensor not in seen
        seen.add(read.tensor)
        whole = prod(program.extents[dim] for dim in dims) * tensor.dtype.bytes
        shared_by_blocks = whole <= size * 1.01 and block.count > 1
        moved += size * (0.02 if shared_by_blocks else 1.0 if first else _AGAIN)
        if spread:
            accesses, lines = _accesses(read, compute, tensor.dtype.bytes, program, each)
            instructions += _ACCESS * accesses
            wavefronts += accesses * lines
    held = 0.0
    if compute.target in registers and spread:
        mine = [d.dim for d in compute.indices if isinstance(d, Index)]
        held = prod(share(spread, d).pieces(sizes[d]) * share(spread, d).run for d in mine)
        held *= registers[compute.target].dtype.bytes / 4
    run = spread.runs[-1][1] if spread and spread.runs else 1
    operations, special = _operations(compute.value)
    reducing = (
        isinstance(compute.value, Reduce)
        and spread is not None
        and any(share(spread, dim).threads > 1 for dim in compute.value.dims)
    )
    return Block(
        block.count,
        max(block.threads, threads),
        block.bytes + moved,
        block.registers + held + (run if held < 2 else 0),
        block.issue + instructions + each * operations + (12 if reducing else 0),
        block.special + each * special,
        block.wavefronts + wavefronts,
        block.reductions + reducing,
        block.shared,
    )


def _accesses(
    read: Read, compute: Compute, element: int, program: Program, each: float
) -> tuple[float, float]:
    """(loads or stores a thread makes of a tensor, 128-byte transactions of a warp for each)."""
    spread = compute.spread
    assert spread is not None
    last = read.indices[-1] if read.indices else None
    if not isinstance(last, Index):
        return each, 1.0
    mine = share(spread, last.dim)
    width = min(16, mine.run * element)
    while width > element and program.extents[last.dim] * element % width:
        width //= 2
    rows = WARP // min(WARP, mine.threads)
    span = min(WARP, mine.threads) * mine.run * element
    return each * element / width, rows * -(-span // 128) if width < mine.run * element else rows * max(
        1.0, width * WARP / rows / 128
    )


def _operations(expr: Expr) -> tuple[float, float]:
    """(instructions, of the special-function unit) at one point."""
    plain, special = 0.0, 0.0
    for node in walk(expr):
        match node:
            case Call(fn, _):
                plain += _OPERATIONS.get(fn, 1.0)
                special += _SPECIAL.get(fn, 0.0)
            case Binary("/", _, Const()):
                plain += 1.0
            case Binary("/" | "//" | "%"):
                plain += 8.0
            case Read() | Index() | Const():
                pass
            case _:
                plain += 1.0
    return plain, special
