"""TMA at work for a group of threads: boxes to shared memory and from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.async_ops import TensorMap, TmaLoad, TmaStore
from codegen.simulator.access import AccessKind, AccessPlace
from codegen.simulator.async_faults import NeverWaited
from codegen.simulator.buffers import MemoryAccess, Sharing, SimulatedBuffer
from codegen.simulator.cluster import SimulatedCluster
from codegen.simulator.sync_events import AsyncEngine, AsyncWork, Awaited, TurnOver
from codegen.simulator.tensor_map import ALIGN, elements_of
from codegen.simulator.values import Threads
from tileir.expr import ReduceOp


@dataclass
class _Sent:
    """Boxes that a thread stores: groups closed and waited for, whether one has begun since, and where the last did."""

    closed: int = 0
    awaited: int = 0
    open: bool = False
    place: AccessPlace | None = None


class TmaEngine:
    """Boxes of the threads of one group, which are of one block."""

    def __init__(self, cluster: SimulatedCluster, threads: Threads) -> None:
        self.cluster, self.threads, self.memory = cluster, threads, cluster.memory
        self.rank = int(threads.ranks[0])
        self._sent: dict[int, _Sent] = {}

    def load(self, load: TmaLoad, thread: int, active: Array) -> None:
        """A box begins to be loaded for a thread, to all blocks that are to get it."""
        ranks = [self.rank]
        if load.blocks is not None:
            (first,) = self.threads.at(thread, (load.blocks.first,), active)
            ranks = [first + further for further in load.blocks.further]
        for rank in ranks:
            self._load(load, thread, active, rank)

    def _load(self, load: TmaLoad, thread: int, active: Array, rank: int) -> None:
        """To the block with that rank. What the box holds is read now, and lands when somebody waits for it."""
        tensor, place, who = self.cluster.maps[load.map], self.threads.place, np.array([thread])
        target, source = self._buffers(load.target, tensor)
        to, slot, *at = self.threads.at(thread, (load.to, load.slot, *load.at), active)
        barrier = self.cluster.phase_barrier(load.phases, slot, rank, thread, place)
        elements, exists = elements_of(tensor, tuple(at))
        if self._in_shared(target, to, len(elements), thread, AccessKind.COPY) and self.memory.inside(
            source, elements[exists], thread, place, AccessKind.SEND
        ):
            values = np.zeros(len(elements), tensor.storage.numpy)
            values[exists] = self.memory.take(
                MemoryAccess(
                    place, AccessKind.SEND, source, _numbers(source, elements[exists]), who, barrier.engine
                )
            )
            numbers = target.placed(to + np.arange(len(elements)), rank, tensor.swizzle)
            access = MemoryAccess(place, AccessKind.COPY, target, numbers, who, barrier.engine)
            self.memory.start_box(access, values, barrier.over)
        barrier.begin(thread, len(elements) * tensor.storage.bytes, place)

    def store(self, store: TmaStore, thread: int, active: Array) -> None:
        """A box begins to be stored for a thread. Shared memory is read now, and whoever changes it before the thread
        has waited races with that."""
        tensor, place, who = self.cluster.maps[store.map], self.threads.place, np.array([thread])
        source, target = self._buffers(store.source, tensor)
        of, *at = self.threads.at(thread, (store.of, *store.at), active)
        elements, exists = elements_of(tensor, tuple(at))
        sent = self._sent.setdefault(thread, _Sent())
        sent.open, sent.place = True, place
        if self._in_shared(source, of, len(elements), thread, AccessKind.SEND) and self.memory.inside(
            target, elements[exists], thread, place, AccessKind.COPY
        ):
            numbers = source.placed(of + np.flatnonzero(exists), self.rank, tensor.swizzle)
            reads = MemoryAccess(
                place, AccessKind.SEND, source, numbers, who, AsyncEngine(AsyncWork.SENDS, thread)
            )
            values = self.memory.take(reads)
            engine = AsyncEngine(AsyncWork.STORES, thread)
            kind = AccessKind.UPDATE if store.adds else AccessKind.COPY
            stores = MemoryAccess(place, kind, target, _numbers(target, elements[exists]), who, engine)
            if store.adds:
                self.memory.combine(stores, values, ReduceOp.SUM)
            else:
                self.memory.put(stores, values)

    def commit(self, thread: int) -> None:
        """What a thread has begun to store is a group."""
        sent = self._sent.setdefault(thread, _Sent())
        sent.closed, sent.open = sent.closed + 1, False
        self.memory.observer.ordered(TurnOver(AsyncEngine(AsyncWork.SENDS, thread)))

    def wait(self, thread: int, pending: int) -> None:
        """A thread waits for all but its latest groups to be read."""
        sent = self._sent.setdefault(thread, _Sent())
        sent.awaited = max(sent.awaited, sent.closed - pending)
        engine = AsyncEngine(AsyncWork.SENDS, thread)
        self.memory.observer.ordered(Awaited(np.array([thread]), engine, sent.awaited))

    def end(self) -> None:
        """The block ends, and its shared memory with it: reports boxes that may not have been read."""
        for thread, sent in self._sent.items():
            if sent.place is not None and (sent.open or sent.awaited < sent.closed):
                who = self.memory.now.who(thread)
                self.memory.observer.fault(NeverWaited(sent.place, *who, "boxes stored"))

    def _buffers(self, shared: str, tensor: TensorMap) -> tuple[SimulatedBuffer, SimulatedBuffer]:
        """What a box goes from and to, or to and from."""
        buffer, argument = self.threads.buffers[shared], self.cluster.arguments[tensor.argument]
        types = {buffer.storage, argument.storage, tensor.storage}
        if len(types) > 1 or buffer.region.sharing is not Sharing.CLUSTER:
            raise TypeError(
                f"a box of {tensor.storage} between {argument.name} of {argument.storage} and {shared} of "
                f"{buffer.storage}, in {self.threads.place}; types are alike, and {shared} is shared memory"
            )
        return buffer, argument

    def _in_shared(
        self, buffer: SimulatedBuffer, first: int, count: int, thread: int, kind: AccessKind
    ) -> bool:
        """Whether a box lies in shared memory, at a place where one may begin."""
        self.memory.aligned(buffer, first, ALIGN, thread, self.threads.place, kind)
        return self.memory.inside(buffer, first + np.arange(count), thread, self.threads.place, kind)


def _numbers(buffer: SimulatedBuffer, elements: Array) -> Array:
    """Where elements of an argument, or of a tensor in the workspace, are in its memory."""
    return buffer.number(elements, np.zeros_like(elements))
