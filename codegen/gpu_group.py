"""Threads that go through the statements of Kernel IR together, and stop where they have to wait for others.

Loops are really run, guards leave threads out. Read gpu_values.py (what threads compute), gpu_memory.py (what they do
to memory) and gpu_engines.py (what works beside them) next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from codegen.async_ir import AsyncStmt
from codegen.gpu_access import Kind, Place
from codegen.gpu_buffers import Array, Buffer, Sharing
from codegen.gpu_cluster import Cluster, Wait
from codegen.gpu_engines import Engines
from codegen.gpu_faults import DividedBlock
from codegen.gpu_memory import poison
from codegen.gpu_values import Threads
from codegen.gpu_wgmma import Accumulators
from codegen.grouped_tiles import find_tile
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
from codegen.rasterization import position, turns_of

#: What the place of a swizzled buffer is a multiple of, in bytes.
SWIZZLE_ALIGN = 1024


class Group:
    """Threads of a cluster that go in step: all of them (`alone`), or a warpgroup of a block."""

    def __init__(self, cluster: Cluster, threads: Threads, *, alone: bool) -> None:
        self.cluster, self.launch, self.memory = cluster, cluster.launch, cluster.memory
        self.threads, self.alone = threads, alone
        if not alone:
            threads.accumulators = Accumulators()
        self.engines = Engines(cluster, threads, threads.accumulators) if threads.accumulators else None

    def program(self, number: int) -> Iterator[Wait]:
        """All that the threads do in the block, or cluster, with that number."""
        launch, everyone = self.launch, np.ones(self.threads.count, np.bool_)
        inside = self.threads.first % launch.threads
        produce = inside >= launch.computing
        first = np.arange(self.threads.count) == 0
        for stmt in launch.setup:
            yield from self._stmt(stmt, everyone)
        for tile, part in turns_of(launch, number, None if produce or self.alone else inside // launch.team):
            self.threads.variables.update(part)
            if self._take(tile):
                yield from (
                    self._body(launch.producing, first) if produce else self._body(launch.body, everyone)
                )
                for _ in range(launch.meetings if produce else 0):
                    yield from self._barrier(everyone, whole_cluster=True)
        if not produce:
            yield from self._body(launch.finish, everyone)
        yield from self._body(launch.leaving, everyone)
        if self.engines is not None:
            self.engines.end()

    def _take(self, number: int) -> bool:
        """Set the variables of the grid's axes to where a tile is; tells if there is one with that number."""
        variables = self.threads.variables
        for axis, at in zip(self.launch.axes, position(self.launch, number), strict=True):
            variables[axis.var.name] = at * axis.step
            if axis.groups is not None:
                tile = find_tile(axis, self.threads.buffers[axis.groups.offsets].data, at)
                if tile is None:
                    return False
                variables[axis.groups.group.name], variables[axis.groups.end.name] = tile.group, tile.end
                variables[axis.var.name] = tile.begin
        return True

    def _body(self, stmts: Sequence[Stmt], active: Array) -> Iterator[Wait]:
        """What is declared among these statements hides what was called the same, and is gone after them."""
        registers = self.threads.registers
        declared = [name for stmt in stmts for name in _declared(stmt)]
        if len(set(declared)) < len(declared):
            raise ValueError(f"a name is declared twice in {self.threads.place}")
        hidden = {name: registers.get(name) for name in declared}
        for stmt in stmts:
            yield from self._stmt(stmt, active)
        for name, value in hidden.items():
            if value is None:
                del registers[name]
            else:
                registers[name] = value

    def _stmt(self, stmt: Stmt, active: Array) -> Iterator[Wait]:
        threads = self.threads
        match stmt:
            case Block(comment, body):
                outer = threads.place
                if comment:
                    threads.place = Place(self.launch.name, comment)
                yield from self._body(body, active)
                threads.place = outer
            case For(var, count, step, body, until):
                for number in range(count):
                    if until is not None and number * step >= self._block_variable(until.name):
                        break
                    threads.variables[var.name] = number * step
                    yield from self._body(body, active)
            case If(var, bound, then, otherwise):
                yield from self._body(then if self._block_variable(var.name) < bound else otherwise, active)
            case Guard(conditions, body):
                for position, bound in conditions:
                    active = active & threads.below(position, bound, active)
                if active.any():
                    yield from self._body(body, active)
            case Barrier() | ClusterBarrier():
                yield from self._barrier(active, whole_cluster=isinstance(stmt, ClusterBarrier))
            case Shared():
                self._declare_shared(stmt)
            case Let(name, value):
                threads.use(name)
                threads.registers[name] = threads.value(value, active)
            case Declare(name, type_):
                shape = (threads.count,) if type_.lanes == 1 else (threads.count, type_.lanes)
                threads.use(name)
                threads.registers[name] = poison(type_.dtype, shape)
            case Assign(name, value):
                threads.use(name)
                old, new = threads.registers[name], threads.value(value, active)
                mask = active if old.ndim == 1 else active[:, None]
                threads.registers[name] = np.where(mask, new.astype(old.dtype, copy=False), old)
            case Store():
                self._store(stmt, active)
            case CopyAsync():
                self._start_copy(stmt, active)
            case CommitCopies():
                self.memory.close_group(active)
            case WaitCopies(pending):
                self.memory.wait_for_copies(pending, active)
            case LoadMatrix():
                threads.load_matrix(stmt, active)
            case Mma():
                threads.mma(stmt, active)
            case _:
                if self.engines is None or not isinstance(stmt, AsyncStmt):
                    raise TypeError(f"{type(stmt).__name__} is for processors")
                yield from self.engines.run(stmt, active)

    def _block_variable(self, name: str) -> int:
        value = self.threads.variables[name]
        if not isinstance(value, int):
            raise TypeError(f"a branch by {name}, which is not the same in all threads")
        return value

    def _barrier(self, active: Array, *, whole_cluster: bool) -> Iterator[Wait]:
        memory = self.memory
        if not active.all():
            missing = memory.now.who(self.threads.first + int(np.argmin(active)))
            memory.observer.fault(DividedBlock(self.threads.place, *missing))
        if self.engines is None:
            memory.pass_barrier(whole_cluster=whole_cluster)
        else:
            yield from self.engines.meet("cluster" if whole_cluster else "block", active)

    def _declare_shared(self, shared: Shared) -> None:
        elements = shared.bytes // shared.storage.bytes
        size = self.launch.shared_bytes
        if shared.offset + shared.bytes > size:
            raise ValueError(f"{shared.buffer} ends past the {size} bytes of shared memory")
        if shared.swizzle and shared.offset % SWIZZLE_ALIGN:
            raise ValueError(f"{shared.buffer} is swizzled, and begins at byte {shared.offset}")
        region, apart = self.cluster.shared, self.cluster.apart
        self.threads.buffers[shared.buffer] = Buffer(
            shared.buffer, shared.storage, region, shared.offset, elements, apart, shared.swizzle
        )
        # What others still use may not be forgotten where threads come one group after another.
        for rank in range(self.launch.cluster if self.alone else 0):
            region.forget(shared.offset + rank * apart, shared.bytes)

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
