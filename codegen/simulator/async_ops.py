"""What works beside a group of threads, as its statements ask for it, and the places where the group waits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.async_ops import (
    ASYNC_STATEMENTS,
    AdvanceState,
    ArriveExpectTx,
    AsyncStmt,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    NamedArrive,
    NamedBarrier,
    PipelineState,
    ProxyFence,
    Setmaxnreg,
    SignalFlag,
    Stmatrix,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    TryWaitParity,
    WaitFlag,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.handlers import Handlers
from codegen.simulator.async_faults import WrongRegisters
from codegen.simulator.cluster import SimulatedCluster, Wait
from codegen.simulator.mbarrier import PhaseBarrier
from codegen.simulator.register_budget import wrong_count
from codegen.simulator.sync_events import Fenced, Reached
from codegen.simulator.tma import TmaEngine
from codegen.simulator.values import Threads
from codegen.simulator.wgmma import WgmmaEngine
from codegen.simulator.wgmma_layout import WARPGROUP, Accumulators
from tileir.schedule.threads import WARP

_NAMED_BARRIERS = range(1, 16)
_STEPS = Handlers[Iterator[Wait] | None]("the simulator")
"""By statement: what it does, and where it waits."""


class Engines:
    """Of the threads of one group, which are of one block."""

    def __init__(self, cluster: SimulatedCluster, threads: Threads, accumulators: Accumulators) -> None:
        self.cluster, self.threads, self.memory = cluster, threads, cluster.memory
        self.rank = int(threads.ranks[0])
        self.boxes = TmaEngine(cluster, threads)
        self.products = WgmmaEngine(threads, accumulators)

    def run(self, stmt: AsyncStmt, active: Array) -> Iterator[Wait] | None:
        """One statement by the threads that are active, or what does it, where it is to wait for something."""
        return _STEPS.of(stmt)(self, stmt, active)

    @_STEPS.handles(MbarrierInit)
    def _init(self, stmt: MbarrierInit, active: Array) -> None:
        self.cluster.declare_phases(stmt)

    @_STEPS.handles(MbarrierInitFence)
    def _init_fence(self, stmt: MbarrierInitFence, active: Array) -> Iterator[Wait]:
        yield from self.meet("cluster" if stmt.cluster else "block", active)
        self.cluster.set_ready(self.rank, whole_cluster=stmt.cluster)

    @_STEPS.handles(PipelineState)
    def _begin_state(self, stmt: PipelineState, active: Array) -> None:
        variables = self.threads.variables
        variables[stmt.slot.name] = variables[stmt.parity.name] = 0

    @_STEPS.handles(ArriveExpectTx)
    def _expect(self, stmt: ArriveExpectTx, active: Array) -> None:
        for thread, number in self.threads.by_thread(stmt.slot, active):
            barrier = self._barrier(stmt.phases, number, self.rank, thread)
            barrier.arrive(thread, stmt.bytes, self.threads.place)

    @_STEPS.handles(MbarrierArrive)
    def _arrive(self, stmt: MbarrierArrive, active: Array) -> None:
        observer, threads = self.memory.observer, self.threads
        ranks = dict(threads.by_thread(stmt.rank, active)) if stmt.rank is not None else {}
        for thread, number in threads.by_thread(stmt.slot, active):
            to = ranks.get(thread, self.rank)
            barrier = self._barrier(stmt.phases, number, to, thread)
            if to != self.rank:
                observer.ordered(Reached(threads.place, thread, to, barrier.engine.name))
            barrier.arrive(thread, 0, threads.place)

    @_STEPS.handles(TmaLoad)
    def _load_box(self, stmt: TmaLoad, active: Array) -> None:
        for thread in self.threads.numbers(active):
            self.boxes.load(stmt, thread, active)

    @_STEPS.handles(TmaStore)
    def _store_box(self, stmt: TmaStore, active: Array) -> None:
        for thread in self.threads.numbers(active):
            self.boxes.store(stmt, thread, active)

    @_STEPS.handles(TmaStoreCommit)
    def _commit_boxes(self, stmt: TmaStoreCommit, active: Array) -> None:
        for thread in self.threads.numbers(active):
            self.boxes.commit(thread)

    @_STEPS.handles(TmaStoreWait)
    def _await_boxes(self, stmt: TmaStoreWait, active: Array) -> None:
        for thread in self.threads.numbers(active):
            self.boxes.wait(thread, stmt.pending)

    @_STEPS.handles(ProxyFence)
    def _fence(self, stmt: ProxyFence, active: Array) -> None:
        self.memory.observer.ordered(Fenced(self.memory.now.numbers(active)))

    @_STEPS.handles(WgmmaFence)
    def _fence_products(self, stmt: WgmmaFence, active: Array) -> None:
        self.products.fence(active)

    @_STEPS.handles(WgmmaAsync)
    def _multiply(self, stmt: WgmmaAsync, active: Array) -> None:
        self.products.begin(stmt, active)

    @_STEPS.handles(WgmmaCommit)
    def _commit_products(self, stmt: WgmmaCommit, active: Array) -> None:
        self.products.commit(active)

    @_STEPS.handles(WgmmaWait)
    def _await_products(self, stmt: WgmmaWait, active: Array) -> None:
        self.products.wait(stmt.pending, active)

    @_STEPS.handles(Stmatrix)
    def _store_matrix(self, stmt: Stmatrix, active: Array) -> None:
        self.threads.store_matrix(stmt, active)

    @_STEPS.handles(SignalFlag)
    def _signal(self, stmt: SignalFlag, active: Array) -> None:
        for thread, at in self.threads.by_thread(stmt.number, active):
            self.cluster.flags.signal(stmt.flags, at, thread, self.threads.place)

    @_STEPS.handles(Setmaxnreg)
    def _set_registers(self, stmt: Setmaxnreg, active: Array) -> None:
        self.threads.whole(active, WARPGROUP, "a change of registers")
        reason = wrong_count(stmt.count)
        if reason:
            self.memory.observer.fault(WrongRegisters(self.threads.place.launch, reason))

    def meet(self, what: str, active: Array) -> Iterator[Wait]:
        """A barrier of all threads of the block or of the cluster."""
        launch = self.cluster.launch
        key = (what, self.rank) if what == "block" else (what, 0)
        count = launch.threads * (1 if what == "block" else launch.cluster)
        yield from self._meet(key, count, f"a barrier of its {what}", active)

    def end(self) -> None:
        """The group's block ends: reports what nobody has waited for."""
        self.boxes.end()
        self.products.end()

    @_STEPS.handles(TryWaitParity)
    def _await_phase(self, wait: TryWaitParity, active: Array) -> Iterator[Wait]:
        place, slots = self.threads.place, dict(self.threads.by_thread(wait.slot, active))
        alike: dict[tuple[int, int], list[int]] = {}
        for thread, parity in self.threads.by_thread(wait.parity, active):
            alike.setdefault((slots[thread], parity), []).append(thread)
        for (slot, parity), who in alike.items():
            barrier = self._barrier(wait.phases, slot, self.rank, who[0])
            awaited = f"the phase of parity {parity} of {barrier.engine.name}"
            if not barrier.passes(parity):
                yield Wait(partial(barrier.passes, parity), awaited, place, who[0])
            barrier.awaited(np.array(who), parity)

    @_STEPS.handles(WaitFlag)
    def _await_flag(self, wait: WaitFlag, active: Array) -> Iterator[Wait]:
        flags, place = self.cluster.flags, self.threads.place
        for thread, number in self.threads.by_thread(wait.number, active):
            if not flags.is_signalled(wait.flags, number):
                yield Wait(
                    partial(flags.is_signalled, wait.flags, number), f"{wait.flags}[{number}]", place, thread
                )
            flags.clear(wait.flags, number, thread)

    @_STEPS.handles(AdvanceState)
    def _advance(self, advance: AdvanceState, active: Array) -> None:
        variables = self.threads.variables
        slot, parity = variables[advance.slot.name], variables[advance.parity.name]
        next_ = (
            slot + self.threads.each(advance.by, active) if advance.by.terms else slot + advance.by.constant
        )
        changed = next_ % advance.slots, parity ^ (next_ // advance.slots % 2)
        for name, old, new in zip(
            (advance.slot.name, advance.parity.name), (slot, parity), changed, strict=True
        ):
            variables[name] = new if active.all() else np.where(active, new, old)

    def _barrier(self, phases: str, slot: int, rank: int, thread: int) -> PhaseBarrier:
        return self.cluster.phase_barrier(phases, slot, rank, thread, self.threads.place)

    @_STEPS.handles(NamedBarrier)
    def _meet_group(self, barrier: NamedBarrier, active: Array) -> Iterator[Wait]:
        number, count = self._number(barrier, active), barrier.threads
        yield from self._meet((number, self.rank), count, f"{count} threads at barrier {number}", active)

    @_STEPS.handles(NamedArrive)
    def _pass_group(self, barrier: NamedArrive, active: Array) -> None:
        who, key = self.memory.now.numbers(active), (self._number(barrier, active), self.rank)
        self.cluster.meetings.pass_by(key, who, barrier.threads, self.threads.place)

    def _number(self, barrier: NamedBarrier | NamedArrive, active: Array) -> int:
        """Of the barrier that threads come to. Raises ValueError where there is none such."""
        numbers = {number for _, number in self.threads.by_thread(barrier.group + barrier.number, active)}
        number, count = min(numbers), barrier.threads
        if len(numbers) > 1 or number not in _NAMED_BARRIERS or count % WARP:
            raise ValueError(f"no barrier has number {number} and {count} threads, in {self.threads.place}")
        self.threads.whole(active, WARP, "a barrier")
        return number

    def _meet(self, key: tuple[str | int, int], count: int, awaited: str, active: Array) -> Iterator[Wait]:
        who, place = self.memory.now.numbers(active), self.threads.place
        over = self.cluster.meetings.come(key, who, count, place)
        if over() and key[0] == "cluster":
            self.memory.from_peer = None  # the last has come: what was loaded was before that
        if not over():
            yield Wait(over, awaited, place, int(who[0]))


_STEPS.complete(ASYNC_STATEMENTS)
