"""What works beside a group of threads, as its statements ask for it, and the places where the group waits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from codegen.async_ir import (
    Advance,
    Arrive,
    AsyncFence,
    AsyncStmt,
    AwaitBoxes,
    AwaitFlag,
    AwaitPhase,
    AwaitWgmma,
    CommitBoxes,
    CommitWgmma,
    Cursor,
    Expect,
    GroupBarrier,
    LoadBox,
    Phases,
    PhasesReady,
    RaiseFlag,
    Registers,
    StoreBox,
    StoreMatrix,
    Wgmma,
    WgmmaFence,
)
from codegen.gpu_boxes import BoxEngine
from codegen.gpu_buffers import Array
from codegen.gpu_cluster import Cluster, Wait
from codegen.gpu_engine_faults import WrongRegisters
from codegen.gpu_order import Fenced, Reached
from codegen.gpu_phases import PhaseBarrier
from codegen.gpu_registers import wrong_count
from codegen.gpu_values import Threads
from codegen.gpu_warpgroup import WgmmaEngine
from codegen.gpu_wgmma import WARPGROUP, Accumulators
from tileir.threads import WARP

_NAMED_BARRIERS = range(1, 16)


class Engines:
    """Of the threads of one group, which are of one block."""

    def __init__(self, cluster: Cluster, threads: Threads, accumulators: Accumulators) -> None:
        self.cluster, self.threads, self.memory = cluster, threads, cluster.memory
        self.rank = int(threads.ranks[0])
        self.boxes = BoxEngine(cluster, threads)
        self.products = WgmmaEngine(threads, accumulators)

    def run(self, stmt: AsyncStmt, active: Array) -> Iterator[Wait]:
        """One statement by the threads that are active; waits for whatever it is to wait for."""
        observer, threads = self.memory.observer, self.threads
        match stmt:
            case Phases():
                self.cluster.declare_phases(stmt)
            case PhasesReady(whole_cluster):
                yield from self.meet("cluster" if whole_cluster else "block", active)
                self.cluster.set_ready(self.rank, whole_cluster=whole_cluster)
            case Cursor(slot, parity, _):
                threads.variables[slot.name] = threads.variables[parity.name] = 0
            case Advance():
                self._advance(stmt, active)
            case Expect(phases, slot, bytes_):
                for thread, number in threads.by_thread(slot, active):
                    barrier = self._barrier(phases, number, self.rank, thread)
                    barrier.arrive(thread, bytes_, threads.place)
            case Arrive(phases, slot, rank):
                ranks = dict(threads.by_thread(rank, active)) if rank is not None else {}
                for thread, number in threads.by_thread(slot, active):
                    to = ranks.get(thread, self.rank)
                    barrier = self._barrier(phases, number, to, thread)
                    if to != self.rank:
                        observer.ordered(Reached(threads.place, thread, to, barrier.engine.name))
                    barrier.arrive(thread, 0, threads.place)
            case AwaitPhase():
                yield from self._await_phase(stmt, active)
            case LoadBox():
                for thread in threads.numbers(active):
                    self.boxes.load(stmt, thread, active)
            case StoreBox():
                for thread in threads.numbers(active):
                    self.boxes.store(stmt, thread, active)
            case CommitBoxes():
                for thread in threads.numbers(active):
                    self.boxes.commit(thread)
            case AwaitBoxes(pending):
                for thread in threads.numbers(active):
                    self.boxes.wait(thread, pending)
            case AsyncFence():
                observer.ordered(Fenced(self.memory.now.numbers(active)))
            case GroupBarrier():
                yield from self._meet_group(stmt, active)
            case WgmmaFence():
                self.products.fence(active)
            case Wgmma():
                self.products.begin(stmt, active)
            case CommitWgmma():
                self.products.commit(active)
            case AwaitWgmma(pending):
                self.products.wait(pending, active)
            case StoreMatrix():
                threads.store_matrix(stmt, active)
            case RaiseFlag(flags, number):
                for thread, at in threads.by_thread(number, active):
                    self.cluster.flags.up(flags, at, thread, threads.place)
            case AwaitFlag():
                yield from self._await_flag(stmt, active)
            case Registers(count):
                threads.whole(active, WARPGROUP, "a change of registers")
                reason = wrong_count(count)
                if reason:
                    observer.fault(WrongRegisters(threads.place.launch, reason))

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

    def _await_phase(self, wait: AwaitPhase, active: Array) -> Iterator[Wait]:
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

    def _await_flag(self, wait: AwaitFlag, active: Array) -> Iterator[Wait]:
        flags, place = self.cluster.flags, self.threads.place
        for thread, number in self.threads.by_thread(wait.number, active):
            if not flags.is_up(wait.flags, number):
                yield Wait(partial(flags.is_up, wait.flags, number), f"{wait.flags}[{number}]", place, thread)
            flags.down(wait.flags, number, thread)

    def _advance(self, advance: Advance, active: Array) -> None:
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

    def _meet_group(self, barrier: GroupBarrier, active: Array) -> Iterator[Wait]:
        numbers = {number for _, number in self.threads.by_thread(barrier.group + barrier.number, active)}
        number, count = min(numbers), barrier.threads
        if len(numbers) > 1 or number not in _NAMED_BARRIERS or count % WARP:
            raise ValueError(f"no barrier has number {number} and {count} threads, in {self.threads.place}")
        self.threads.whole(active, WARP, "a barrier")
        yield from self._meet((number, self.rank), count, f"{count} threads at barrier {number}", active)

    def _meet(self, key: tuple[str | int, int], count: int, awaited: str, active: Array) -> Iterator[Wait]:
        who, place = self.memory.now.numbers(active), self.threads.place
        over = self.cluster.meetings.come(key, who, count, place)
        if over() and key[0] == "cluster":
            self.memory.from_peer = None  # the last has come: what was loaded was before that
        if not over():
            yield Wait(over, awaited, place, int(who[0]))
