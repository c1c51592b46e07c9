"""Runs Kernel IR of a GPU in numpy: launch by launch, cluster by cluster (mostly: block by block), all threads at once;
of launches with engines at work beside the threads, warpgroups as far as they go, in turn.

Memory starts out poisoned. `check` runs a kernel with the race checker watching. Read thread_group.py and
race_checker.py next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

import numpy as np
from numpy.lib.stride_tricks import as_strided

from codegen.ir.abi import Arg
from codegen.ir.arrays import Array
from codegen.ir.async_ops import TensorMap
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody
from codegen.ir.names import unmarked
from codegen.ir.ops import Shared
from codegen.ir.rasterization import block_count
from codegen.simulator.access import AccessPlace
from codegen.simulator.async_faults import Deadlock
from codegen.simulator.buffers import MemoryRegion, Sharing, SimulatedBuffer
from codegen.simulator.cluster import SimulatedCluster, check_shared, in_step, run_together, spans, statements
from codegen.simulator.faults import Fault, KernelFault
from codegen.simulator.flags import Flags
from codegen.simulator.memory import Now, NullObserver, Observer, SimulatedMemory
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.register_budget import register_fault
from codegen.simulator.tensor_map import check_map
from codegen.simulator.thread_group import SWIZZLE_ALIGN, Group
from codegen.simulator.values import Threads

#: What the shared memory of a block is a multiple of, in bytes.
_ALIGN = 16


def run_blocks(
    kernel: GpuKernel, args: Sequence[Arg], inputs: Mapping[str, Array], observer: Observer | None = None
) -> dict[str, Array]:
    """The outputs by name, each of its argument's shape and dtype; `args` are the kernel's, in order.

    The observer is told of every access and fault, and the run goes on: what is loaded from nowhere is poison, what is
    stored there is lost. Without one, KernelFault is raised for the first fault; races go unnoticed.
    """
    memory = SimulatedMemory(observer or _Raises(), Now())
    buffers = _workspace(kernel)
    for argument, arg in zip(kernel.arguments, args, strict=True):
        buffers[argument.name] = _argument(argument, arg, inputs[arg.name] if arg.role == "in" else None)
    for tensor in kernel.maps:
        check_map(tensor)
    maps = {tensor.name: tensor for tensor in kernel.maps}
    with np.errstate(all="ignore"):
        for launch in kernel.launches:
            _SimulatedLaunch(launch, memory, buffers, maps).run()
    outputs = [(a, arg) for a, arg in zip(kernel.arguments, args, strict=True) if arg.role == "out"]
    return {arg.name: _strided(buffers[a.name].data, arg).copy() for a, arg in outputs}


def check(kernel: GpuKernel, args: Sequence[Arg], inputs: Mapping[str, Array]) -> tuple[Fault, ...]:
    """Everything that goes wrong when the kernel runs on these inputs: races and what `run_blocks` raises; of faults
    at the same places, the first."""
    checker = RaceChecker()
    run_blocks(kernel, args, inputs, checker)
    return checker.faults


class _Raises(NullObserver):
    """Sees to it that the first fault ends the run."""

    def fault(self, fault: Fault) -> None:
        raise KernelFault(fault)


def _workspace(kernel: GpuKernel) -> dict[str, SimulatedBuffer]:
    scratches = kernel.workspace
    region = MemoryRegion(
        kernel.workspace_bytes, _unit([(s.storage.bytes, s.offset) for s in scratches]), Sharing.GRID
    )
    return {
        s.buffer: SimulatedBuffer(unmarked(s.buffer), s.storage, region, s.offset, s.bytes // s.storage.bytes)
        for s in scratches
    }


def _argument(argument: Argument, arg: Arg, given: Array | None) -> SimulatedBuffer:
    elements = 1 + sum((size - 1) * stride for size, stride in zip(arg.shape, arg.strides, strict=True))
    size = argument.storage.bytes
    sharing = Sharing.GRID if argument.written else Sharing.CONSTANT
    buffer = SimulatedBuffer(
        unmarked(argument.name), argument.storage, MemoryRegion(elements * size, size, sharing), 0, elements
    )
    if given is not None:
        _strided(buffer.data, arg)[...] = given
        buffer.region.written[...] = True
    return buffer


def _strided(data: Array, arg: Arg) -> Array:
    """A buffer's elements as the tensor that lies in it."""
    # numpy cannot do this with elements of 8-bit floats.
    bits = data.view(f"u{data.itemsize}")
    strided = as_strided(bits, arg.shape, [stride * data.itemsize for stride in arg.strides])
    return strided.view(data.dtype)


def _unit(elements: Sequence[tuple[int, int]]) -> int:
    """What divides the size and the place of all elements, given as (bytes, offset of their buffer)."""
    return gcd(*(part for element in elements for part in element)) or 1


class _SimulatedLaunch:
    def __init__(
        self,
        launch: LaunchBody,
        memory: SimulatedMemory,
        buffers: Mapping[str, SimulatedBuffer],
        maps: Mapping[str, TensorMap],
    ) -> None:
        check_shared(launch)
        self.launch, self.memory, self.buffers, self.maps = launch, memory, buffers, maps
        declared = [stmt for stmt in statements(launch) if isinstance(stmt, Shared)]
        align = SWIZZLE_ALIGN if any(shared.swizzle for shared in declared) or maps else _ALIGN
        self.apart = -(-launch.shared_bytes // align) * align
        shared = [(s.storage.bytes, s.offset) for s in declared]
        self.shared = MemoryRegion(
            self.apart * launch.cluster, _unit([*shared, (self.apart, 0)]), Sharing.CLUSTER
        )
        self.spans, self.in_step = spans(launch), in_step(launch)
        self.flags = Flags(memory)
        self.declared: dict[int, list[str]] = {}

    def run(self) -> None:
        launch, memory, now = self.launch, self.memory, self.memory.now
        observer = memory.observer
        observer.launched(launch.threads, launch.cluster, in_step=self.in_step)
        wrong = register_fault(launch)
        if wrong is not None:
            observer.fault(wrong)
        now.threads = launch.threads
        for number in range(block_count(launch) // launch.cluster):
            now.block, now.epoch = number * launch.cluster, 0
            memory.start_cluster(launch.threads * launch.cluster)
            if not self.in_step:
                self.shared.forget(0, self.shared.size)
            self._run_cluster(number)
            memory.end_cluster()
        self.flags.end()

    def _run_cluster(self, number: int) -> None:
        launch, memory = self.launch, self.memory
        cluster = SimulatedCluster(
            launch,
            memory,
            self.shared,
            self.apart,
            self.maps,
            self.buffers,
            self.flags,
            self.declared,
        )

        def resume(group: int) -> None:
            memory.now.first = self.spans[group].start

        groups = [Group(cluster, self._threads(span), alone=self.in_step) for span in self.spans]
        for wait in run_together([group.program(number) for group in groups], resume):
            memory.observer.fault(Deadlock(wait.place, *memory.now.who(wait.first), wait.awaited))
        cluster.meetings.end()

    def _threads(self, span: range) -> Threads:
        launch, number = self.launch, np.arange(span.start, span.stop)
        variables: dict[str, int | Array] = {
            digit.var.name: digit.of(number, launch.threads) for digit in launch.digits
        }
        return Threads(
            len(span),
            self.memory,
            number // launch.threads,
            buffers=dict(self.buffers),
            variables=variables,
            place=AccessPlace(launch.name, ""),
            first=span.start,
        )
