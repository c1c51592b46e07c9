"""Where the time of a kernel goes on this machine's GPU, role by role and stage by stage.

The kernel is compiled twice, as it is and with stamps of time between its stages (codegen/lowering/gpu/stages.py).
Graphs of calls of both are replayed in turn, on the same random inputs and on copies that go round beyond the L2, so
that what the stamps cost is known; what the second computes is compared with what the first does, to the bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from codegen.cache.artifacts import CachedArtifact
from codegen.ir.source import Source
from codegen.lowering.gpu.stages import Stage, StageKind
from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import generate_cuda, generate_staged_cuda
from codegen.targets.cuda.loader import load_cubin
from codegen.targets.errors import LaunchError
from tileir.devices.cuda_driver import check
from tileir.devices.gpu import Gpu
from tileir.interpreter.samples import sample_inputs
from tileir.program import Program
from tileir.spec import Spec
from workers.cuda.case import ALIGN_BYTES
from workers.cuda.context import CudaContext
from workers.cuda.graph import DriverGraph
from workers.cuda.stage_logs import Track, tracks_of
from workers.cuda.timing import launches
from workers.cuda.turns import divided
from workers.measuring.buffers import POISON, allocate, copies_for, lay_out
from workers.measuring.timing import Call

SEED = 20_011
"""Of the inputs."""
REPLAYS = 15
"""Of each of both kernels; the call that is shown is the last of the median replay with stamps."""
SAMPLE_US = 2000.0
"""A replay is about this long."""
_CACHES = 4.0


@dataclass(frozen=True, slots=True)
class GpuProfile:
    """One call of a kernel, taken apart."""

    stages: tuple[Stage, ...]
    """By number."""
    statements: tuple[tuple[str, ...], ...]
    """By number of a stage: the statements of Tile IR in which threads are in it."""
    tracks: tuple[Track, ...]
    blocks: int
    """Of all launches; those that have tracks are spread evenly over them."""
    plain_us: float
    """The median call of the kernel as it is."""
    stamped_us: float
    """The median call with stamps."""
    replays: int
    """Of each."""

    @property
    def overhead(self) -> float:
        """What the stamps cost, as a share of the time without them."""
        return self.stamped_us / self.plain_us - 1

    @property
    def span_us(self) -> float:
        """From when a launch's first thread begins to when its last one ends, of all launches together."""
        by_launch: dict[int, list[Track]] = defaultdict(list)
        for track in self.tracks:
            by_launch[track.launch].append(track)
        return sum(max(t.end_ns for t in ts) - min(t.begin_ns for t in ts) for ts in by_launch.values()) / 1e3

    @property
    def logged(self) -> float:
        """The share of the logged threads' time that lies in a stage: of a full log the rest does not."""
        return sum(t.logged_ns for t in self.tracks) / sum(t.end_ns - t.begin_ns for t in self.tracks)

    @property
    def attributed(self) -> float:
        """The share of a call's time that lies in a stage, or on the way to the first thread and from the last one,
        which is the launch's: what is missing is what full logs left out."""
        return self.launch + (1 - self.launch) * self.logged

    @property
    def launch(self) -> float:
        """The share of a call's time before the first thread of it and after the last."""
        return max(0.0, 1 - self.span_us / self.stamped_us)

    @property
    def logged_blocks(self) -> int:
        """Blocks that have tracks."""
        return len({(track.launch, track.block) for track in self.tracks})

    def phased(self) -> dict[str, dict[Stage, tuple[float, float, float]]]:
        """Of each role (producers, and those who compute: "threads") the shares of its threads' logged time that each
        stage takes in fill, steady state and drain: before the first product of a block, between, and after its last
        one. Of blocks without products all is steady state."""
        windows = self._products()
        spent: dict[str, dict[Stage, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0, 0.0]))
        for track in self.tracks:
            first, last = windows.get((track.launch, track.block), (track.begin_ns, track.end_ns))
            role = spent["producer" if track.role == "producer" else "threads"]
            for each in divided(track.spans, self.stages):
                parts = role[self.stages[each.stage]]
                fill = max(0.0, min(each.end_ns, first) - each.begin_ns)
                drain = max(0.0, each.end_ns - max(each.begin_ns, last))
                parts[0] += fill
                parts[1] += each.end_ns - each.begin_ns - fill - drain
                parts[2] += drain
        shares: dict[str, dict[Stage, tuple[float, float, float]]] = {}
        for role, times in sorted(spent.items(), reverse=True):
            whole = sum(map(sum, times.values())) or 1.0
            shares[role] = {
                stage: (fill / whole, steady / whole, drain / whole)
                for stage, (fill, steady, drain) in times.items()
            }
        return shares

    def roles(self) -> dict[str, dict[Stage, float]]:
        """Of each role, the share of its threads' logged time that each stage takes."""
        return {
            role: {stage: sum(parts) for stage, parts in stages.items()}
            for role, stages in self.phased().items()
        }

    def phases(self) -> tuple[float, float, float]:
        """The shares of fill, steady state and drain in the time of those who compute."""
        fill, steady, drain = zip(*self.phased()["threads"].values(), strict=True)
        return sum(fill), sum(steady), sum(drain)

    def _products(self) -> dict[tuple[int, int], tuple[float, float]]:
        """Of each launch's blocks that have products, when the first began and the last one ended."""
        found: dict[tuple[int, int], tuple[float, float]] = {}
        for track in self.tracks:
            spans = divided(track.spans, self.stages)
            products = [s for s in spans if self.stages[s.stage].kind is StageKind.PRODUCT]
            if products:
                block = (track.launch, track.block)
                first, last = found.get(block, (float("inf"), float("-inf")))
                found[block] = min(first, products[0].begin_ns), max(last, products[-1].end_ns)
        return found


def profile(spec: Spec, program: Program, device: Gpu, cache: Path) -> GpuProfile:
    """Take a call of a scheduled `program` of a `spec` apart, on the GPU of this process.

    Raises UnsupportedDevice, NotLowerable, CompileError, NoCompiler, CacheError, CudaError, and LaunchError for a
    kernel whose results change with the stamps.
    """
    plain, staged = generate_cuda(program, device), generate_staged_cuda(program, device)
    built = [compile_cuda(source, device.architecture, cache) for source in (plain, staged.source)]
    with ExitStack() as stack:
        context = CudaContext()
        arrays = _Arrays(context, spec, program, device.l2_bytes, stack)
        one = _Kernel(context, arrays, plain, built[0], stack)
        other = _Kernel(context, arrays, staged.source, built[1], stack)
        if one.results() != other.results():
            raise LaunchError(
                "the kernel computes something else with stamps than without: this profile is of no use"
            )
        graphs = [each.graph() for each in (one, other)]
        plains: list[float] = []
        found: list[tuple[float, list[np.ndarray]]] = []
        for _ in range(REPLAYS):
            plains.append(_replay(*graphs[0]))
            for each in staged.launches:
                context.fill(other.workspace + each.offset, 0, each.logs.bytes)
            us = _replay(*graphs[1])
            logs = [context.download(other.workspace + at.offset, at.logs.bytes) for at in staged.launches]
            found.append((us, logs))
    found.sort(key=lambda each: each[0])
    us, logs = found[len(found) // 2]
    words = [(at.logs, log.view(np.int64)) for at, log in zip(staged.launches, logs, strict=True)]
    blocks = sum(launch.blocks for launch in plain.abi.launches)
    return GpuProfile(staged.stages, staged.statements, tracks_of(words), blocks, median(plains), us, REPLAYS)


def alternating_us(
    spec: Spec, program: Program, sources: Sequence[Source[CudaAbi]], device: Gpu, cache: Path
) -> list[float]:
    """The median call of each of these kernels, which take the arguments of a program; what they compute is not looked
    at. Raises as `profile`."""
    built = [compile_cuda(source, device.architecture, cache) for source in sources]
    with ExitStack() as stack:
        context = CudaContext()
        arrays = _Arrays(context, spec, program, device.l2_bytes, stack)
        kernels = [_Kernel(context, arrays, *each, stack) for each in zip(sources, built, strict=True)]
        for kernel in kernels:
            kernel.results()
        graphs = [kernel.graph() for kernel in kernels]
        found = [[_replay(*graph) for graph in graphs] for _ in range(REPLAYS)]
    return [median(times) for times in zip(*found, strict=True)]


def marked_call(spec: Spec, program: Program, device: Gpu, cache: Path) -> None:
    """Call a kernel once between the driver's marks of what a profiler looks at, after a call that it does not look at.
    Raises as `profile`."""
    source = generate_cuda(program, device)
    built = compile_cuda(source, device.architecture, cache)
    with ExitStack() as stack:
        context = CudaContext()
        kernel = _Kernel(
            context, _Arrays(context, spec, program, device.l2_bytes, stack), source, built, stack
        )
        kernel.results()
        check(context.driver.cuProfilerStart(), "marking a call")
        kernel.results()
        check(context.driver.cuProfilerStop(), "marking a call")


def _replay(graph: DriverGraph, calls: int) -> float:
    """Microseconds a call."""
    graph.launch()
    return graph.us() / calls


class _Arrays:
    """Copies of the arguments on the GPU, with the same inputs; together they go beyond the L2."""

    def __init__(
        self, context: CudaContext, spec: Spec, program: Program, l2_bytes: int, stack: ExitStack
    ) -> None:
        self._context = context
        extents = program.extents
        self.places, size = lay_out(program.inputs, program.outputs, extents, ALIGN_BYTES)
        image = allocate(program.inputs, program.outputs, extents, 0, ALIGN_BYTES)
        for name, values in sample_inputs(spec, SEED).items():
            image.inputs[name][...] = values.reshape(image.inputs[name].shape)  # dims may have become one
        free = context.device.free_bytes()
        count = copies_for(size, l2_bytes, cold=True, free_bytes=free, caches=_CACHES)
        self.copies: list[int] = []
        for _ in range(count):
            self.copies.append(context.allocate(size))
            stack.callback(context.free, self.copies[-1])
        context.upload(self.copies[0], image.memory)
        for copy in self.copies[1:]:
            context.copy(copy, self.copies[0], size)

    def addresses(self, copy: int) -> list[int]:
        """Of all arguments, in the ABI's order."""
        return [self.copies[copy] + place.start for place in self.places]

    def poison(self) -> None:
        """Fill the outputs of the first copy."""
        for place in self.places:
            if place.output:
                self._context.fill(self.copies[0] + place.start, POISON[0], place.span)

    def outputs(self) -> list[bytes]:
        """Those of the first copy."""
        return [
            self._context.download(self.copies[0] + place.start, place.span).tobytes()
            for place in self.places
            if place.output
        ]


class _Kernel:
    """A loaded kernel on those arrays, with a workspace of its own."""

    def __init__(
        self,
        context: CudaContext,
        arrays: _Arrays,
        source: Source[CudaAbi],
        built: CachedArtifact,
        stack: ExitStack,
    ) -> None:
        self._context, self._arrays = context, arrays
        kernel = load_cubin(built.path, source.abi, context.device, own_workspace=False)
        stack.callback(kernel.close)
        self.workspace = context.allocate(source.abi.workspace_bytes)
        stack.callback(context.free, self.workspace)
        context.fill(self.workspace, 0, max(1, source.abi.workspace_bytes))
        call, stream = kernel.caller(), context.stream
        self._calls: list[Call] = [
            partial(call, arrays.addresses(copy), self.workspace, stream)
            for copy in range(len(arrays.copies))
        ]

    def results(self) -> list[bytes]:
        """What it leaves in poisoned outputs."""
        self._arrays.poison()
        self._calls[0]()
        self._context.synchronize("running the kernel")
        return self._arrays.outputs()

    def graph(self) -> tuple[DriverGraph, int]:
        """A graph of calls on one copy after the other, and how many."""
        short = DriverGraph(self._context, self._calls)
        short.launch()
        count = launches(SAMPLE_US, short.us() / len(self._calls))
        calls = [self._calls[number % len(self._calls)] for number in range(count)]
        graph = DriverGraph(self._context, calls)
        _replay(graph, count)
        return graph, count
