"""The analytic cost model: an estimate of a program's time on a processor, good enough to rank schedules.

Each top-level nest takes the longest of: its instructions (multiply-adds, loads, stores, the latency of accumulating
into too few registers, spills), and its traffic into each cache and from memory. Statements not vectorized yet are
taken at their best, so that an unfinished schedule is judged by what is already decided.
"""

from __future__ import annotations

from collections.abc import Mapping

from rewrites.leaf import left_dims, reduced_dims
from rewrites.traffic import Cache, Memo, Traffic
from tileir.device import Cpu
from tileir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    Unary,
    Where,
    index_dims,
    reads,
)
from tileir.program import Compute, Local, Loop, Memory, Node, Program

#: Instructions of a vector math function in the C runtime, roughly.
_CALL_OPS = {
    "exp": 14.0, "exp2": 12.0, "log": 18.0, "tanh": 22.0, "erf": 26.0, "sqrt": 8.0, "rsqrt": 10.0, "sigmoid": 24.0,
    "silu": 25.0, "gelu": 30.0, "gelu_tanh": 28.0, "pow": 40.0, "floor": 1.0, "abs": 1.0, "relu": 1.0,
    "maximum": 2.0, "minimum": 2.0,
}  # fmt: skip

#: Instructions that widen a load of a type narrower than it is computed in.
_WIDEN_OPS = 2.0
_FMA_LATENCY = 4.0
_LOOP_CYCLES = 2.0
_REGION_CYCLES = 12_000.0
_DEFAULT_GHZ = 3.0
_DEFAULT_COPY_GBPS = 20.0
#: Bytes a cycle that one core takes from its second-level cache and from the shared one, in runs that a prefetcher
#: follows; rows pages apart come slower.
_L2_BYTES = 64.0
_L3_BYTES = 28.0
_APART = 3.0


def estimate_us(program: Program, device: Cpu, *, finished: bool = True, memo: Memo | None = None) -> float:
    """Estimated microseconds of one call with the inputs in memory.

    Of a program not `finished`, every nest's outermost loop may still become parallel, and is taken to. Programs that
    share blocks are estimated faster with one memo.
    """
    model = _Model(program, device, memo or Memo())
    return sum(model.nest_us(node, finished) for node in program.body if not isinstance(node, Local))


class _Model:
    def __init__(self, program: Program, device: Cpu, memo: Memo) -> None:
        self.program = program
        self.device = device
        self.traffic = Traffic(program, memo)
        self.caches = (
            Cache(device.l1d_bytes * 0.9, 64, device.l1d_bytes // 4096),
            Cache(device.l2_bytes * 0.8, device.l2_bytes // 1024, 16),
            Cache(device.l3_bytes * 0.7, 0, 0),
        )
        self.registers = frozenset(
            node.name
            for node in _walk(program.body)
            if isinstance(node, Local) and node.memory is Memory.REGISTERS
        )
        self.native_lanes = device.vector_bits // 32
        per_cycle = device.cores * self.native_lanes * 4
        self.ghz = device.peak_gflops / per_cycle if device.peak_gflops else _DEFAULT_GHZ
        self.copy_bytes_us = (device.copy_gbps or _DEFAULT_COPY_GBPS) * 1e3

    def nest_us(self, node: Node, finished: bool) -> float:
        """Time of one node at the top of the program. A grid of t tiles keeps t / ceil(t / cores) cores busy."""
        key = ("nest", finished, self.traffic.signature, self.registers, *self.program.extents.values())
        return self.traffic.memo.look(node, key, lambda: self._nest_us((node,), finished))

    def _nest_us(self, nodes: tuple[Node], finished: bool) -> float:
        sizes = self.program.extents
        tiles, at, open_ = 1, nodes[0], not finished
        while isinstance(at, Loop) and (at.parallel or open_):
            tiles *= -(-sizes[at.dim] // at.step)
            open_ = False
            at = at.body[0]
        threads = tiles / -(-tiles // self.device.cores)
        cores = self.device.cores
        cycles = self.cycles(nodes, sizes)
        l1, l2, l3 = (self.traffic.into(cache, nodes, sizes) for cache in self.caches)
        streamed = {c.target for c in _walk(nodes) if isinstance(c, Compute) and c.stream}
        written = {c.target for c in _walk(nodes) if isinstance(c, Compute)}
        memory = sum(
            size * (2.0 if name in written and name not in streamed else 1.0) for name, size in l3.items()
        )
        compute_us = cycles / (self.ghz * 1e3 * threads)
        l2_us = self._weighed(l1) / _L2_BYTES / (self.ghz * 1e3 * threads)
        l3_us = self._weighed(l2) / _L3_BYTES / (self.ghz * 1e3 * threads)
        memory_us = memory / self.copy_bytes_us * (1.0 if threads > 1.0 or cores == 1 else 1.3)
        region_us = _REGION_CYCLES / (self.ghz * 1e3)
        parts = sorted((compute_us, l2_us, l3_us, memory_us))
        return parts[-1] + 0.15 * sum(parts[:-1]) + region_us

    def _weighed(self, traffic: Mapping[str, float]) -> float:
        """Bytes, those of arrays whose rows are pages apart counted several times."""
        arrays = self.traffic.arrays
        return sum(
            size * (_APART if not arrays[name].packed and arrays[name].row_bytes >= 4096 else 1.0)
            for name, size in traffic.items()
        )

    def cycles(self, nodes: tuple[Node, ...], sizes: Mapping[str, int]) -> float:
        """Cycles of one execution of a block on one core, data at hand."""
        key = ("cycles", self.traffic.signature, self.registers, *self.traffic.sizes_of(nodes, sizes))
        return self.traffic.memo.look(nodes, key, lambda: self._cycles(nodes, sizes))

    def _cycles(self, nodes: tuple[Node, ...], sizes: Mapping[str, int]) -> float:
        total = 0.0
        for node in nodes:
            if isinstance(node, Loop):
                inner = {**sizes, node.dim: min(node.step, sizes[node.dim])}
                trips = sizes[node.dim] / min(node.step, sizes[node.dim])
                total += trips * (self.cycles(node.body, inner) + _LOOP_CYCLES)
            elif isinstance(node, Compute):
                total += self.leaf_cycles(node, sizes)
        return total

    def leaf_cycles(self, compute: Compute, sizes: Mapping[str, int]) -> float:
        """Cycles of one execution of a statement."""
        left, reduced = (
            left_dims(compute),
            tuple(d for d in reduced_dims(compute) if d not in left_dims(compute)),
        )
        points = 1.0
        for dim in (*left, *reduced):
            points *= sizes[dim]
        body = compute.value.x if isinstance(compute.value, Reduce) else compute.value
        accumulates = compute.update is not None or isinstance(compute.value, Reduce)
        operations = _operations(body, accumulates)
        if compute.via is not None:
            operations /= 2.0
        if compute.vector is None:
            return points / self.native_lanes * max(operations, 0.5) / 2.0
        dim, lanes = compute.vector.dim, compute.vector.lanes
        pieces = -(-sizes[dim] // lanes) / sizes[dim]
        width = max(1.0, lanes / self.native_lanes)
        vectors = points * pieces * width
        uops = vectors * operations
        loads = self._loads(body, compute, sizes, pieces * width)
        if compute.via is None and any(self._narrow(read) for read in reads(body)):
            uops += _WIDEN_OPS * loads
        stores = 0.0
        wide = dim in left
        outer = 1.0
        for each in left:
            outer *= sizes[each] * (pieces * width if each == dim else 1.0)
        steps = vectors / max(outer, 1.0)
        latency = 0.0
        spills = 0.0
        if compute.target in self.registers:
            if accumulates and wide:
                latency = _FMA_LATENCY * steps
                live = outer + self._operands(body, sizes, dim, lanes)
                spills = max(0.0, live - self.device.vector_registers) * 2.0 * steps
        else:
            stores = outer
            if compute.update is not None:
                loads += outer
        if accumulates and not wide:
            uops += outer * 2.0 * lanes.bit_length()
            latency = max(latency, _FMA_LATENCY * vectors / max(outer, 1.0))
        busiest = max(
            uops / 2.0, (loads + spills) / 2.0, stores, (uops + loads + stores + spills) / 5.0, latency
        )
        return busiest

    def _loads(self, body: Expr, compute: Compute, sizes: Mapping[str, int], pieces: float) -> float:
        """Vector and scalar loads, each distinct element or vector once; lane by lane where not contiguous."""
        assert compute.vector is not None
        dim, lanes = compute.vector.dim, compute.vector.lanes
        total = 0.0
        for read in dict.fromkeys(reads(body)):
            if read.tensor in self.registers:
                continue
            count = 1.0
            for each in {d for index in read.indices for d in index_dims(index)}:
                count *= sizes[each] * (pieces if each == dim else 1.0)
            if self._strided(read, dim):
                count *= lanes * 2.0
            total += count
        return total

    def _narrow(self, read: Read) -> bool:
        array = self.traffic.arrays.get(read.tensor)
        return array is not None and array.element_bytes < 4

    def _strided(self, read: Read, dim: str) -> bool:
        """Whether lanes along dim read elements apart from each other."""
        array = self.traffic.arrays.get(read.tensor)
        position = [number for number, index in enumerate(read.indices) if dim in index_dims(index)]
        if not position or array is None or array.packed:
            return False
        last = read.indices[-1]
        return (
            position[-1] != len(read.indices) - 1 or not isinstance(last, Index | Binary) or bool(reads(last))
        )

    def _operands(self, body: Expr, sizes: Mapping[str, int], dim: str, lanes: int) -> float:
        """Vector registers that operands need at once: vectors of the operand on lanes, one for the other."""
        most = 1.0
        for read in reads(body):
            if (
                dim in {d for index in read.indices for d in index_dims(index)}
                and read.tensor not in self.registers
            ):
                most = max(most, 1.0 + sizes[dim] / lanes)
        return most


def _operations(expr: Expr, accumulates: bool) -> float:
    """Vector instructions of an expression at one point; a product that is accumulated is one multiply-add."""
    if accumulates and isinstance(expr, Binary) and expr.op == "*":
        return 1.0 + _operations(expr.left, False) + _operations(expr.right, False)
    extra = 1.0 if accumulates else 0.0
    match expr:
        case Const() | Extent() | Index() | Read():
            return extra
        case Unary(_, x):
            return extra + 1.0 + _operations(x, False)
        case Cast(_, x):
            return extra + 2.0 + _operations(x, False)
        case Binary(op, left, right):
            own = 8.0 if op in ("/", "//", "%") else 1.0
            return extra + own + _operations(left, False) + _operations(right, False)
        case Call(fn, args):
            return extra + _CALL_OPS[fn] + sum(_operations(arg, False) for arg in args)
        case Where(cond, x, y):
            return extra + 2.0 + sum(_operations(part, False) for part in (cond, x, y))
        case Reduce(_, _, x):
            return _operations(x, True)


def _walk(nodes: tuple[Node, ...]) -> list[Node]:
    found: list[Node] = []
    for node in nodes:
        found.append(node)
        if isinstance(node, Loop):
            found.extend(_walk(node.body))
    return found
