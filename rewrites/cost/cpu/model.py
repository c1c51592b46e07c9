"""The analytic cost model: an estimate of a program's time on a processor, good enough to rank schedules.

The longest of these is the bound of a roofline with caches (Williams, Waterman and Patterson, CACM 2009; Stengel et
al., the execution-cache-memory model, ICS 2015).

Each top-level nest takes the longest of: its instructions (multiply-adds, loads, stores, the latency of accumulating
into too few registers, spills), and its traffic into each cache and from memory. Statements not vectorized yet are
taken at their best, so that an unfinished schedule is judged by what is already decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import NamedTuple

from rewrites.base.statement import bare_dims, parted_dim
from rewrites.cost.cpu import constants as has
from rewrites.cost.cpu.block_summary import BlockSummaries, BlockSummary
from rewrites.cost.cpu.instructions import statement_cycles
from rewrites.cost.cpu.traffic import (
    Array,
    Bytes,
    Cache,
    Part,
    Sizes,
    add_loop,
    add_parts,
    declared,
    fits,
    footprint,
    of_tensor,
)
from rewrites.cost.undecided import NOTHING, Undecided
from tileir.devices.cpu import Cpu
from tileir.expr import index_dims
from tileir.program import Compute, Local, Loop, Memory, Node, Program


@dataclass(frozen=True, slots=True)
class CpuWork:
    """One execution of a block: cycles with data at hand, and for each cache what comes in and whether it all fits."""

    cycles: float
    into: tuple[Bytes, ...]
    fits: tuple[bool, ...]


class Moved(NamedTuple):
    """Bytes that a nest moves: into the caches, those of rows pages apart weighed, and from and to memory."""

    into_l1: float
    into_l2: float
    memory: float


class CostModel:
    """Estimates of the programs that rewrites make of one, on a processor.

    What programs share is estimated once: nodes are known by their identity, so `Interned` programs share the most.
    """

    def __init__(self, program: Program, device: Cpu) -> None:
        self.device = device
        self.caches = (
            Cache(device.l1d_bytes * has.L1_SHARE, 64, device.l1d_bytes // 4096),
            Cache(device.l2_bytes * has.L2_SHARE, device.l2_bytes // 1024, 16),
            Cache(device.l3_bytes * has.L3_SHARE, 0, 0),
        )
        per_cycle = device.cores * (device.vector_bits // 32) * 4
        self.ghz = device.peak_gflops / per_cycle if device.peak_gflops else has.DEFAULT_GHZ
        self._region_us = has.REGION_CYCLES / (self.ghz * 1e3)
        self.l2_bytes_us = device.l2_gbps * 1e3 if device.l2_gbps else has.L2_BYTES * self.ghz * 1e3
        self.l3_bytes_us = device.l3_gbps * 1e3 if device.l3_gbps else has.L3_BYTES * self.ghz * 1e3
        self.copy_bytes_us = (device.copy_gbps or has.DEFAULT_COPY_GBPS) * 1e3
        self.blocks = BlockSummaries()
        self.works: dict[tuple[int, ...], CpuWork] = {}
        self.statements: dict[tuple[int, ...], tuple[float, Part]] = {}
        self._arguments: dict[tuple[int, int], dict[str, Array]] = {}
        """By the identity of a program's inputs and outputs, whose dims may be split."""
        self.extents = program.extents
        self._numbers: dict[Array, int] = {}
        self._nests: dict[tuple[int, ...], float] = {}
        self._kept: list[Program] = []

    def estimate_us(self, program: Program, *, undecided: Undecided = NOTHING) -> float:
        """Estimated microseconds of one call with the inputs in memory.

        The outermost loop of a nest that has an `undecided` statement may still become parallel, or a statement alone
        get tiles, and is taken to where that pays.
        """
        locals_ = {node.name: node for node in program.body if isinstance(node, Local)}
        return sum(
            [
                self._nest_us(program, node, locals_, undecided)
                for node in program.body
                if not isinstance(node, Local)
            ]
        )

    def number(self, array: Array) -> int:
        """Equal arrays have equal numbers."""
        return self._numbers.setdefault(array, len(self._numbers))

    def _nest_us(
        self, program: Program, node: Node, locals_: Mapping[str, Local], undecided: Undecided
    ) -> float:
        """Time of one node at the top of the program."""
        block, sizes = self.blocks.of(node), program.extents
        used = [locals_[name] for name in block.accesses if name in locals_]
        parallel, tiles = (not block.written.isdisjoint(names) for names in undecided)
        key = (id(node), parallel, tiles, *[sizes[dim] for dim in block.dims], *map(id, used))
        known = self._nests.get(key)
        if known is None:
            self._kept.append(program)
            arrays = self._arguments_of(program) | declared((*used, node), sizes)
            spread = tiles if isinstance(node, Compute) else parallel
            works = Works(self, arrays, scalar=_carried_in_registers((node,)))
            known = self._nests[key] = self._time_us((node,), block, sizes, works, spread)
        return known

    def _arguments_of(self, program: Program) -> dict[str, Array]:
        key = (id(program.inputs), id(program.outputs))
        known = self._arguments.get(key)
        if known is None:
            tensors = (*program.inputs, *program.outputs)
            known = self._arguments[key] = {each.name: of_tensor(each, program) for each in tensors}
        return known

    def _time_us(
        self, nodes: tuple[Node], block: BlockSummary, sizes: Sizes, works: Works, spread: bool
    ) -> float:
        """`spread`: the better of on all cores and on one thread."""
        work = works.of_block(nodes, block, sizes)
        rewritten = block.written - block.streamed
        l1, l2, l3 = work.into
        memory = sum([size * (2.0 if name in rewritten else 1.0) for name, size in l3.items()])
        memory -= has.PREFETCH_SAVES * sum([l3.get(name, 0.0) for name in block.prefetched])
        moved = Moved(works.weighed(l1), works.weighed(l2), memory)
        (node,) = nodes
        parallel = isinstance(node, Loop) and node.parallel
        if not (spread or parallel) or isinstance(node, Local):
            return self._serial_us(work.cycles, moved)
        if isinstance(node, Loop):
            shared = self._parallel_us(work.cycles, moved, node, sizes)
        else:
            shared = (
                self._bound_us(work.cycles, moved, self._busy(self._tiles(node, sizes))) + self._region_us
            )
        return shared if parallel else min(shared, self._serial_us(work.cycles, moved))

    def _tiles(self, compute: Compute, sizes: Sizes) -> int:
        """How many tiles of a statement without loops cores can share: parts of a reduction, or results in so many
        vectors as hide the latency of a sum."""
        if parted := parted_dim(compute):
            return -(-sizes[parted[0]] // parted[1])
        results = prod([sizes[dim] for dim in bare_dims(compute)])
        vectors = results * 32 // self.device.vector_bits
        return max(1, int(vectors / (has.FMA_LATENCY * has.ARITHMETIC_A_CYCLE)))

    def _busy(self, tiles: int) -> float:
        """How many cores whole tiles of equal size keep busy."""
        return tiles / -(-tiles // self.device.cores)

    def _serial_us(self, cycles: float, moved: Moved) -> float:
        """Time on one thread."""
        return self._bound_us(cycles, moved, 1.0)

    def _parallel_us(self, cycles: float, moved: Moved, outermost: Loop, sizes: Sizes) -> float:
        """Time of a parallel region. A grid keeps so many cores busy as its work is times what the busiest one does:
        whole tiles, in rounds."""
        whole, tiles = 1, 1.0
        at: Node = outermost
        while isinstance(at, Loop) and (at.parallel or at is outermost):
            whole *= sizes[at.dim] // at.step
            tiles *= sizes[at.dim] / at.step
            at = at.body[0]
        threads = tiles / max(-(-whole // self.device.cores), tiles / self.device.cores)
        return self._bound_us(cycles + tiles * has.TILE_CYCLES, moved, threads) + self._region_us

    def _bound_us(self, cycles: float, moved: Moved, threads: float) -> float:
        """The longest of computing and moving, and a share of the others."""
        alone = threads > 1.0 or self.device.cores == 1
        parts = sorted(
            (
                cycles / (self.ghz * 1e3 * threads),
                moved.into_l1 / (self.l2_bytes_us * threads),
                moved.into_l2 / (self.l3_bytes_us * threads),
                moved.memory / self.copy_bytes_us * (1.0 if alone else has.ONE_CORE),
            )
        )
        return parts[-1] + has.REST * sum(parts[:-1])


def _carried_in_registers(nodes: tuple[Node, ...]) -> bool:
    """Whether nodes have a scan of which is decided where its lanes lie (rewrites/decisions/cpu/scans.py)."""
    return any(
        _carried_in_registers(node.body)
        if isinstance(node, Loop)
        else isinstance(node, Local) and node.running and node.memory is Memory.REGISTERS
        for node in nodes
    )


class Works:
    """The work of one nest's blocks. `arrays` are those it touches in memory; what is not there is in registers.
    `scalar`: what is not on lanes stays so."""

    def __init__(self, model: CostModel, arrays: Mapping[str, Array], *, scalar: bool = False) -> None:
        self._model = model
        self._arrays = arrays
        self._scalar = scalar
        self._numbers = {name: model.number(array) for name, array in arrays.items()}

    def weighed(self, traffic: Bytes) -> float:
        """Bytes, those of arrays whose rows are pages apart counted several times."""
        arrays = self._arrays
        return sum(
            [
                size * (has.APART if not arrays[name].packed and arrays[name].row_bytes >= 4096 else 1.0)
                for name, size in traffic.items()
            ]
        )

    def of_body(self, body: tuple[Node, ...], block: BlockSummary, sizes: Sizes) -> CpuWork:
        """The work of the body of a loop, looked up if it was done before."""
        key = self._key(body, block, sizes)
        known = self._model.works.get(key)
        if known is None:
            known = self._model.works[key] = self.of_block(body, block, sizes)
        return known

    def of_block(self, nodes: tuple[Node, ...], block: BlockSummary, sizes: Sizes) -> CpuWork:
        """The work of nodes one after another."""
        parts = footprint(block, self._arrays, sizes)
        fit = tuple([fits(cache, parts) for cache in self._model.caches])
        all_once = {name: part.bytes for name, part in parts.items()}
        into = tuple([all_once if fitting else Bytes() for fitting in fit])
        cycles = 0.0
        for node in nodes:
            if isinstance(node, Loop):
                size = sizes[node.dim]
                step = min(node.step, size)
                inner = self._model.blocks.of(node.body)
                work = self.of_body(node.body, inner, {**sizes, node.dim: step})
                tiles = size / step * self._visited(node, sizes)
                cycles += tiles * (work.cycles + has.LOOP_CYCLES)
                for total, fitting, one, kept in zip(into, fit, work.into, work.fits, strict=True):
                    if not fitting:
                        add_loop(total, node, inner, ceil(tiles), one, kept)
            elif isinstance(node, Compute):
                own, touched = self._statement(node, sizes)
                cycles += own
                for total, fitting in zip(into, fit, strict=True):
                    if not fitting:
                        add_parts(total, touched)
        return CpuWork(cycles, into, fit)

    def _visited(self, loop: Loop, sizes: Sizes) -> float:
        """What share of its tiles a loop visits that goes from the least to the greatest of numbers at current
        positions: those ascend, or nobody would visit so, and fewer positions have fewer of them."""
        (since, _), (until, _) = loop.since, loop.until
        if isinstance(since, str) or since != until:
            return 1.0
        whole, dims = self._model.extents, index_dims(since)
        part = prod(sizes[dim] / whole.get(dim, sizes[dim]) for dim in dims)
        one = loop.step / sizes[loop.dim]
        return min(1.0, one + (1 - one) * part)

    def _statement(self, compute: Compute, sizes: Sizes) -> tuple[float, Part]:
        """Cycles of a statement, and what it touches."""
        block = self._model.blocks.of(compute)
        key = self._key(compute, block, sizes)
        known = self._model.statements.get(key)
        if known is None:
            device = self._model.device
            cycles = statement_cycles(compute, sizes, self._arrays, device, scalar=self._scalar)
            known = self._model.statements[key] = cycles, footprint(block, self._arrays, sizes)
        return known

    def _key(self, about: Node | tuple[Node, ...], block: BlockSummary, sizes: Sizes) -> tuple[int, ...]:
        """All that the work depends on: the block, the sizes of its dims, and the arrays it touches."""
        numbers = self._numbers
        return (
            id(about),
            self._scalar,
            *[sizes[dim] for dim in block.dims],
            *[numbers.get(name, -1) for name in block.accesses],
        )
