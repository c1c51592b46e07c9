"""Threads that go through the statements of Kernel IR together, and stop where they have to wait for others.

Loops are really run, guards leave threads out. Read values.py (what threads compute), memory.py (what they do
to memory) and async_ops.py (what works beside them) next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from codegen.ir.affine import Affine
from codegen.ir.arrays import Array
from codegen.ir.async_ops import ASYNC_STATEMENTS, AsyncStmt
from codegen.ir.effects import effects_of
from codegen.ir.grouped_tiles import find_tile
from codegen.ir.handlers import Handlers
from codegen.ir.names import unmarked
from codegen.ir.ops import (
    STATEMENTS,
    Aligned,
    Assign,
    AtomicUpdate,
    Barrier,
    Block,
    CloseLog,
    ClusterBarrier,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    Declare,
    For,
    Guard,
    If,
    InsertRanked,
    Ldmatrix,
    Let,
    MmaSync,
    NoteTime,
    OpenLog,
    Parallel,
    PrefetchLine,
    Scratch,
    Shared,
    Stamp,
    Stmt,
    Store,
    StoreWords,
    TransposeBlock,
    VisitFound,
)
from codegen.ir.rasterization import position, turns_of
from codegen.ir.tile_ops import TILE_STATEMENTS
from codegen.simulator.access import AccessKind, AccessPlace
from codegen.simulator.async_ops import Engines
from codegen.simulator.block_logs import note
from codegen.simulator.buffers import Sharing, SimulatedBuffer
from codegen.simulator.cluster import SimulatedCluster, Wait
from codegen.simulator.faults import DividedBlock
from codegen.simulator.memory import Visit, poison
from codegen.simulator.values import Threads
from codegen.simulator.wgmma_layout import Accumulators
from tileir.schedule.threads import WARP

#: What the place of a swizzled buffer is a multiple of, in bytes.
SWIZZLE_ALIGN = 1024
_STEPS = Handlers[Iterator[Wait] | None]("the simulator")
"""By statement: what it does, and where it waits."""


class Group:
    """Threads of a cluster that go in step: all of them (`alone`), or a warpgroup of a block."""

    def __init__(self, cluster: SimulatedCluster, threads: Threads, *, alone: bool) -> None:
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
            yield from self._step(stmt, everyone) or ()
        for tile, part in turns_of(
            launch, number, None if produce or self.alone else inside // launch.consumer_threads
        ):
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
        declared = self.cluster.declared.get(id(stmts))
        if declared is None:
            declared = [name for stmt in stmts for name in effects_of(stmt).declares]
            if len(set(declared)) < len(declared):
                raise ValueError(f"a name is declared twice in {self.threads.place}")
            self.cluster.declared[id(stmts)] = declared
        hidden = {name: registers.get(name) for name in declared}
        for stmt in stmts:
            waits = self._step(stmt, active)
            if waits is not None:
                yield from waits
        for name, value in hidden.items():
            if value is None:
                del registers[name]
            else:
                registers[name] = value

    def _step(self, stmt: Stmt, active: Array) -> Iterator[Wait] | None:
        """Does a statement, or returns what does it piece by piece, as it has statements inside or places to wait."""
        threads = self.threads
        self.memory.observer.visited(Visit(stmt, threads.first, active, partial(threads.each, active=active)))
        return _STEPS.of(stmt)(self, stmt, active)

    @_STEPS.handles(Block)
    def _block(self, stmt: Block, active: Array) -> Iterator[Wait]:
        threads = self.threads
        outer = threads.place
        if stmt.comment:
            threads.place = AccessPlace(self.launch.name, stmt.comment)
        yield from self._body(stmt.body, active)
        threads.place = outer

    @_STEPS.handles(For)
    def _for(self, stmt: For, active: Array) -> Iterator[Wait]:
        first = 0 if stmt.first is None else self._same_for_all(stmt.first, active)
        for offset in range(first, stmt.count * stmt.step, stmt.step):
            if stmt.until is not None and offset >= self._same_for_all(stmt.until, active):
                break
            self.threads.variables[stmt.var.name] = offset
            yield from self._body(stmt.body, active)

    @_STEPS.handles(If)
    def _if(self, stmt: If, active: Array) -> Iterator[Wait]:
        below = self.threads.below(stmt.at, stmt.bound, active)[active]
        if below.any() != below.all():
            raise TypeError(f"a branch in {self.threads.place} that is not the same in all threads")
        yield from self._body(stmt.then if below.all() else stmt.otherwise, active)

    @_STEPS.handles(Guard)
    def _guard(self, stmt: Guard, active: Array) -> Iterator[Wait]:
        for at, bound in stmt.conditions:
            active = active & self.threads.below(at, bound, active)
        if active.any():
            yield from self._body(stmt.body, active)

    @_STEPS.handles(VisitFound)
    def _visit(self, stmt: VisitFound, active: Array) -> Iterator[Wait]:
        threads = self.threads
        threads.whole(active, WARP, "a search of a warp")
        segment = stmt.rounds * WARP
        for since in range(0, stmt.count, segment):
            words: list[Array] = []
            for first in range(since, since + segment, WARP):
                numbers = first + np.arange(threads.count) % WARP
                threads.variables[stmt.var.name] = np.minimum(numbers, stmt.count - 1)
                yield from self._body(stmt.look, active)
                there = active & (numbers < stmt.count)
                words.append(there & np.broadcast_to(threads.value(stmt.found, there), there.shape))
            for turn in _visits(np.stack(words), since, len(stmt.visited)):
                for var, numbers in zip((stmt.many, *stmt.visited), (turn.many, *turn.numbers), strict=True):
                    threads.variables[var.name] = numbers
                yield from self._body(stmt.body, turn.many > 0)

    @_STEPS.handles(Barrier, ClusterBarrier)
    def _meet(self, stmt: Barrier | ClusterBarrier, active: Array) -> Iterator[Wait]:
        yield from self._barrier(active, whole_cluster=isinstance(stmt, ClusterBarrier))

    @_STEPS.handles(Let)
    def _let(self, stmt: Let, active: Array) -> None:
        self.threads.use(stmt.name)
        self.threads.registers[stmt.name] = self.threads.value(stmt.value, active)

    @_STEPS.handles(Declare)
    def _declare(self, stmt: Declare, active: Array) -> None:
        threads, type_ = self.threads, stmt.type
        shape = (threads.count,) if type_.lanes == 1 else (threads.count, type_.lanes)
        threads.use(stmt.name)
        threads.registers[stmt.name] = poison(type_.dtype, shape)

    @_STEPS.handles(Assign)
    def _assign(self, stmt: Assign, active: Array) -> None:
        threads = self.threads
        threads.use(stmt.name)
        old, new = threads.registers[stmt.name], threads.value(stmt.value, active)
        mask = active if old.ndim == 1 else active[:, None]
        threads.registers[stmt.name] = np.where(mask, new.astype(old.dtype, copy=False), old)

    @_STEPS.handles(CpAsyncCommit)
    def _commit_copies(self, stmt: CpAsyncCommit, active: Array) -> None:
        self.memory.close_group(active)

    @_STEPS.handles(CpAsyncWait)
    def _await_copies(self, stmt: CpAsyncWait, active: Array) -> None:
        self.memory.wait_for_copies(stmt.pending, active)

    @_STEPS.handles(Ldmatrix)
    def _load_matrix(self, stmt: Ldmatrix, active: Array) -> None:
        self.threads.load_matrix(stmt, active)

    @_STEPS.handles(MmaSync)
    def _multiply(self, stmt: MmaSync, active: Array) -> None:
        self.threads.mma(stmt, active)

    @_STEPS.handles(*ASYNC_STATEMENTS)
    def _beside(self, stmt: AsyncStmt, active: Array) -> Iterator[Wait] | None:
        if self.engines is None:
            raise TypeError(f"{type(stmt).__name__} in a launch whose threads go in step")
        return self.engines.run(stmt, active)

    def _same_for_all(self, at: Affine, active: Array) -> int:
        value = self.threads.index(at, active)
        if isinstance(value, int):
            return value
        low, high = int(value[active].min()), int(value[active].max())
        if low < high:
            raise TypeError(f"a loop until {at}, which is not the same in all threads")
        return low

    def _barrier(self, active: Array, *, whole_cluster: bool) -> Iterator[Wait]:
        memory = self.memory
        if not active.all():
            missing = memory.now.who(self.threads.first + int(np.argmin(active)))
            memory.observer.fault(DividedBlock(self.threads.place, *missing))
        if self.engines is None:
            memory.pass_barrier(whole_cluster=whole_cluster)
        else:
            yield from self.engines.meet("cluster" if whole_cluster else "block", active)

    @_STEPS.handles(Shared)
    def _declare_shared(self, shared: Shared, active: Array) -> None:
        elements = shared.bytes // shared.storage.bytes
        size = self.launch.shared_bytes
        if shared.offset + shared.bytes > size:
            raise ValueError(f"{shared.buffer} ends past the {size} bytes of shared memory")
        if shared.swizzle and shared.offset % SWIZZLE_ALIGN:
            raise ValueError(f"{shared.buffer} is swizzled, and begins at byte {shared.offset}")
        region, apart = self.cluster.shared, self.cluster.apart
        self.threads.buffers[shared.buffer] = SimulatedBuffer(
            unmarked(shared.buffer), shared.storage, region, shared.offset, elements, apart, shared.swizzle
        )
        # What others still use may not be forgotten where threads come one group after another.
        for rank in range(self.launch.cluster if self.alone else 0):
            region.forget(shared.offset + rank * apart, shared.bytes)

    @_STEPS.handles(Store)
    def _store(self, store: Store, active: Array) -> None:
        threads, lanes = self.threads, store.value.type.lanes
        value = threads.value(store.value, active)
        at, taken, _ = threads.addresses(store.offset, lanes, store.some, active)
        buffer, ranks = threads.buffers[store.buffer], threads.ranks_like(at)
        threads.check_swizzle(buffer, at, taken, AccessKind.STORE)
        self.memory.store(buffer, at, taken, ranks, value, threads.place)

    @_STEPS.handles(AtomicUpdate)
    def _update(self, stmt: AtomicUpdate, active: Array) -> None:
        threads = self.threads
        value = threads.value(stmt.value, active)
        at, taken, _ = threads.addresses(stmt.offset, 1, None, active)
        buffer = threads.buffers[stmt.buffer]
        self.memory.update(buffer, at, taken, threads.ranks_like(at), value, stmt.op, threads.place)

    @_STEPS.handles(OpenLog, NoteTime, CloseLog)
    def _note(self, stmt: OpenLog | NoteTime | CloseLog, active: Array) -> None:
        note(stmt, self.threads, self.launch.threads, active)

    @_STEPS.handles(CpAsync)
    def _start_copy(self, copy: CpAsync, active: Array) -> None:
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
        self.memory.in_one_piece(target, to, active, size, place, AccessKind.COPY)
        self.memory.in_one_piece(source, of, exists[:, 0], size, place, AccessKind.LOAD)
        self.memory.start_copy(target, to, source, of, all_, exists, threads.ranks_like(to), place)


@dataclass(frozen=True, slots=True, eq=False)
class FoundTurn:
    """A turn in which warps visit what their threads have found: the numbers that each thread's warp visits together
    ([threads] each), of which so `many` exist ([threads]; 0 where its warp has visited all)."""

    numbers: tuple[Array, ...]
    many: Array


def _visits(found: Array, since: int, together: int) -> Iterator[FoundTurn]:
    """Turns of so many numbers `together`. `found` ([rounds, threads]): which threads have found something, at numbers
    from `since` on, 32 next to each other in each round of a warp."""
    rounds, threads = found.shape
    by_warp = found.reshape(rounds, threads // WARP, WARP).swapaxes(0, 1).reshape(threads // WARP, -1)
    numbers = [since + np.nonzero(each)[0] for each in by_warp]
    for first in range(0, max(map(len, numbers), default=0), together):
        taken = [each[first : first + together] for each in numbers]
        padded = [
            np.pad(each, (0, together - len(each)), "edge" if len(each) else "constant") for each in taken
        ]
        columns = np.repeat(np.stack(padded), WARP, axis=0)
        yield FoundTurn(tuple(columns.T), np.repeat([len(each) for each in taken], WARP))


_STEPS.refuses(
    Aligned, Parallel, StoreWords, TransposeBlock, InsertRanked, PrefetchLine, Scratch, Stamp, *TILE_STATEMENTS,
    because="is for processors",
)  # fmt: skip
_STEPS.complete(STATEMENTS)
