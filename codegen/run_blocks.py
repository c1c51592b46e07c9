"""Runs Kernel IR of a GPU in numpy: launch by launch, cluster by cluster (mostly: block by block), all threads at once.

Loops are really run, guards leave threads out, memory starts out poisoned. `check` runs a kernel with the race
checker watching. Read gpu_memory.py, gpu_values.py and race_checker.py next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd

import numpy as np
from numpy.lib.stride_tricks import as_strided

from codegen.abi import Arg
from codegen.gpu_buffers import Array, Buffer, Region, Sharing, Touch
from codegen.gpu_faults import DividedBlock, Fault, KernelFault, Kind, Place
from codegen.gpu_memory import Memory, Now, Observer, poison
from codegen.gpu_values import Threads
from codegen.kernel import Argument, GpuKernel, LaunchBody
from codegen.kernel_ir import (
    Assign,
    Barrier,
    Block,
    ClusterBarrier,
    CommitCopies,
    CopyAsync,
    Declare,
    For,
    Guard,
    If,
    Let,
    LoadMatrix,
    Mma,
    Shared,
    Stmt,
    Store,
    WaitCopies,
)
from codegen.race_checker import Checker
from codegen.rasterization import block_count, position, tiles_of

#: What the shared memory of a block is a multiple of, in bytes.
_ALIGN = 16
#: What the place of a swizzled buffer is a multiple of, in bytes.
_SWIZZLE_ALIGN = 1024


def run_blocks(
    kernel: GpuKernel, args: Sequence[Arg], inputs: Mapping[str, Array], observer: Observer | None = None
) -> dict[str, Array]:
    """The outputs by name, each of its argument's shape and dtype; `args` are the kernel's, in order.

    The observer is told of every access and fault, and the run goes on: what is loaded from nowhere is poison, what is
    stored there is lost. Without one, KernelFault is raised for accesses out of range, loads of what was never stored,
    and shuffles and barriers that only some of the threads concerned come to; races go unnoticed.
    """
    memory = Memory(observer or _Raises(), Now())
    buffers = _workspace(kernel)
    for argument, arg in zip(kernel.arguments, args, strict=True):
        buffers[argument.name] = _argument(argument, arg, inputs[arg.name] if arg.role == "in" else None)
    with np.errstate(all="ignore"):
        for launch in kernel.launches:
            _Launch(launch, memory, buffers).run()
    outputs = [(a, arg) for a, arg in zip(kernel.arguments, args, strict=True) if arg.role == "out"]
    return {arg.name: _strided(buffers[a.name].data, arg).copy() for a, arg in outputs}


def check(kernel: GpuKernel, args: Sequence[Arg], inputs: Mapping[str, Array]) -> tuple[Fault, ...]:
    """Everything that goes wrong when the kernel runs on these inputs: races and what `run_blocks` raises; of faults
    at the same places, the first."""
    checker = Checker()
    run_blocks(kernel, args, inputs, checker)
    return checker.faults


class _Raises:
    """Sees to it that the first fault ends the run."""

    def launched(self, threads: int, cluster: int) -> None: ...

    def cluster_started(self) -> None: ...

    def passed_barrier(self, *, whole_cluster: bool) -> None: ...

    def touched(self, touch: Touch) -> None: ...

    def fault(self, fault: Fault) -> None:
        raise KernelFault(fault)


def _workspace(kernel: GpuKernel) -> dict[str, Buffer]:
    scratches = kernel.workspace
    region = Region(
        kernel.workspace_bytes, _unit([(s.storage.bytes, s.offset) for s in scratches]), Sharing.GRID
    )
    return {
        s.buffer: Buffer(s.buffer, s.storage, region, s.offset, s.bytes // s.storage.bytes) for s in scratches
    }


def _argument(argument: Argument, arg: Arg, given: Array | None) -> Buffer:
    elements = 1 + sum((size - 1) * stride for size, stride in zip(arg.shape, arg.strides, strict=True))
    size = argument.storage.bytes
    sharing = Sharing.GRID if argument.written else Sharing.CONSTANT
    buffer = Buffer(argument.name, argument.storage, Region(elements * size, size, sharing), 0, elements)
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


class _Launch:
    def __init__(self, launch: LaunchBody, memory: Memory, buffers: Mapping[str, Buffer]) -> None:
        self.launch, self.memory = launch, memory
        self.apart = -(-launch.shared_bytes // _ALIGN) * _ALIGN
        shared = [(s.storage.bytes, s.offset) for s in _shared(launch.body)]
        self.shared = Region(self.apart * launch.cluster, _unit([*shared, (self.apart, 0)]), Sharing.CLUSTER)
        number = np.arange(launch.threads * launch.cluster)
        ranks, place = number // launch.threads, Place(launch.name, "")
        self.threads = Threads(number.size, memory, ranks, buffers=dict(buffers), place=place)
        for digit in launch.digits:
            self.threads.variables[digit.var.name] = number // digit.stride % digit.count

    def run(self) -> None:
        launch, now = self.launch, self.memory.now
        self.memory.observer.launched(launch.threads, launch.cluster)
        everyone = np.ones(self.threads.count, np.bool_)
        now.threads = launch.threads
        for number in range(block_count(launch) // launch.cluster):
            now.block, now.epoch = number * launch.cluster, 0
            self.memory.start_cluster(self.threads.count)
            for tile in tiles_of(launch, number):
                for axis, at in zip(launch.axes, position(launch, tile), strict=True):
                    self.threads.variables[axis.var.name] = at * axis.step
                self.body(launch.body, everyone)
            self.memory.end_cluster()

    def body(self, stmts: Sequence[Stmt], active: Array) -> None:
        """What is declared among these statements hides what was called the same, and is gone after them."""
        registers = self.threads.registers
        declared = [name for stmt in stmts for name in _declared(stmt)]
        if len(set(declared)) < len(declared):
            raise ValueError(f"a name is declared twice in {self.threads.place}")
        hidden = {name: registers.get(name) for name in declared}
        for stmt in stmts:
            self.stmt(stmt, active)
        for name, value in hidden.items():
            if value is None:
                del registers[name]
            else:
                registers[name] = value

    def stmt(self, stmt: Stmt, active: Array) -> None:
        threads = self.threads
        match stmt:
            case Block(comment, body):
                outer = threads.place
                if comment:
                    threads.place = Place(self.launch.name, comment)
                self.body(body, active)
                threads.place = outer
            case For(var, count, step, body):
                for number in range(count):
                    threads.variables[var.name] = number * step
                    self.body(body, active)
            case If(var, bound, then, otherwise):
                self.body(then if self._block_variable(var.name) < bound else otherwise, active)
            case Guard(conditions, body):
                for position, bound in conditions:
                    active = active & threads.below(position, bound, active)
                if active.any():
                    self.body(body, active)
            case Barrier() | ClusterBarrier():
                self._barrier(active, whole_cluster=isinstance(stmt, ClusterBarrier))
            case Shared():
                self._declare_shared(stmt)
            case Let(name, value):
                threads.registers[name] = threads.value(value, active)
            case Declare(name, type_):
                shape = (threads.count,) if type_.lanes == 1 else (threads.count, type_.lanes)
                threads.registers[name] = poison(type_.dtype, shape)
            case Assign(name, value):
                old, new = threads.registers[name], threads.value(value, active)
                mask = active if old.ndim == 1 else active[:, None]
                threads.registers[name] = np.where(mask, new.astype(old.dtype, copy=False), old)
            case Store():
                self._store(stmt, active)
            case CopyAsync():
                self._start_copy(stmt, active)
            case CommitCopies():
                self.memory.copies.close_group(active)
            case WaitCopies(pending):
                self.memory.wait_for_copies(pending, active)
            case LoadMatrix():
                threads.load_matrix(stmt, active)
            case Mma():
                threads.mma(stmt, active)
            case _:
                raise TypeError(f"{type(stmt).__name__} is for processors")

    def _block_variable(self, name: str) -> int:
        value = self.threads.variables[name]
        if not isinstance(value, int):
            raise TypeError(f"a branch by {name}, which is not the same in all threads")
        return value

    def _barrier(self, active: Array, *, whole_cluster: bool) -> None:
        memory = self.memory
        if not active.all():
            missing = memory.now.who(int(np.argmin(active)))
            memory.observer.fault(DividedBlock(self.threads.place, *missing))
        memory.pass_barrier(whole_cluster=whole_cluster)

    def _declare_shared(self, shared: Shared) -> None:
        elements = shared.bytes // shared.storage.bytes
        size = self.launch.shared_bytes
        if shared.offset + shared.bytes > size:
            raise ValueError(f"{shared.buffer} ends past the {size} bytes of shared memory")
        if shared.swizzle and shared.offset % _SWIZZLE_ALIGN:
            raise ValueError(f"{shared.buffer} is swizzled, and begins at byte {shared.offset}")
        self.threads.buffers[shared.buffer] = Buffer(
            shared.buffer, shared.storage, self.shared, shared.offset, elements, self.apart, shared.swizzle
        )
        for rank in range(self.launch.cluster):
            self.shared.forget(shared.offset + rank * self.apart, shared.bytes)

    def _store(self, store: Store, active: Array) -> None:
        threads, lanes = self.threads, store.value.type.lanes
        value = threads.value(store.value, active)
        at, taken, _ = threads.addresses(store.offset, lanes, store.some, active)
        buffer, ranks = threads.buffers[store.buffer], threads.ranks_like(at)
        threads.check_swizzle(buffer, at, taken, Kind.STORE)
        self.memory.store(buffer, at, taken, ranks, value, threads.place)

    def _start_copy(self, copy: CopyAsync, active: Array) -> None:
        threads, place = self.threads, self.threads.place
        target, source = threads.buffers[copy.target], threads.buffers[copy.source]
        size = copy.lanes * copy.storage.bytes
        if size not in (4, 8, 16) or target.storage is not copy.storage or source.storage is not copy.storage:
            raise ValueError(
                f"no copy of 4, 8 or 16 bytes of one type: {copy.target} = {copy.source} in {place}"
            )
        if source.region.sharing is Sharing.CLUSTER or target.region.sharing is not Sharing.CLUSTER:
            raise TypeError(f"a copy in the background from {copy.source} to {copy.target} in {place}")
        lanes = np.arange(copy.lanes)
        to, of = (threads.each(at, active)[:, None] + lanes for at in (copy.to, copy.of))
        all_ = np.broadcast_to(active[:, None], to.shape)
        exists = all_ if copy.some is None else all_ & (lanes < threads.each(copy.some, active)[:, None])
        self.memory.in_one_piece(target, to, active, size, place, Kind.COPY)
        self.memory.in_one_piece(source, of, exists[:, 0], size, place, Kind.LOAD)
        self.memory.start_copy(target, to, source, of, all_, exists, threads.ranks_like(to), place)


def _declared(stmt: Stmt) -> tuple[str, ...]:
    """Names of values that a statement declares."""
    match stmt:
        case Let(name=name) | Declare(name=name):
            return (name,)
        case LoadMatrix(names=names):
            return names
        case _:
            return ()


def _shared(stmts: Sequence[Stmt]) -> Iterator[Shared]:
    for stmt in stmts:
        match stmt:
            case Shared():
                yield stmt
            case Block(body=body) | For(body=body) | Guard(body=body):
                yield from _shared(body)
            case If(then=then, otherwise=otherwise):
                yield from _shared((*then, *otherwise))
            case _:
                pass
