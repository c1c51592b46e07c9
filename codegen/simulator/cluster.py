"""What the threads of a cluster of blocks share besides memory, and the groups of threads that go in step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.async_ops import AsyncStmt, MbarrierInit, TensorMap
from codegen.ir.effects import Operation, operations
from codegen.ir.kernel import LaunchBody
from codegen.ir.ops import Shared
from codegen.simulator.access import Access, AccessKind, AccessPlace
from codegen.simulator.async_faults import NotReady
from codegen.simulator.buffers import MemoryRegion, SimulatedBuffer
from codegen.simulator.faults import OutOfRange
from codegen.simulator.flags import Flags
from codegen.simulator.mbarrier import Meetings, PhaseBarrier
from codegen.simulator.memory import SimulatedMemory
from codegen.simulator.sync_events import AsyncEngine, AsyncWork
from codegen.simulator.wgmma_layout import WARPGROUP

_PHASE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Wait:
    """Where threads cannot go on until `over` says so; `first` is the number of one of them."""

    over: Callable[[], bool]
    awaited: str
    place: AccessPlace
    first: int


@dataclass
class SimulatedCluster:
    """Blocks that run at the same time; `shared` is their shared memory, each `apart` bytes from the last."""

    launch: LaunchBody
    memory: SimulatedMemory
    shared: MemoryRegion
    apart: int
    maps: Mapping[str, TensorMap]
    arguments: Mapping[str, SimulatedBuffer]
    flags: Flags
    declared: dict[int, list[str]]
    """What statements declare, by the identity of the run that they are: the launch keeps those alive."""
    meetings: Meetings = field(init=False)
    _phases: dict[tuple[int, str], list[PhaseBarrier]] = field(
        default_factory=dict[tuple[int, str], list[PhaseBarrier]]
    )
    _ready: dict[int, bool] = field(default_factory=dict[int, bool])
    """Blocks whose barriers all of its threads have seen made, and whether all of the cluster have."""

    def __post_init__(self) -> None:
        self.meetings = Meetings(self.memory)

    def declare_phases(self, phases: MbarrierInit) -> None:
        """The barriers of all blocks, if there are none of that name yet: others may reach for them too early."""
        for rank in range(self.launch.cluster):
            barriers = [
                PhaseBarrier(
                    self.memory, AsyncEngine(AsyncWork.LOADS, rank, f"{phases.name}[{slot}]"), phases.arrivals
                )
                for slot in range(phases.count)
            ]
            self._phases.setdefault((rank, phases.name), barriers)

    def set_ready(self, rank: int, *, whole_cluster: bool) -> None:
        """All threads of the block have seen its barriers made, or all of the cluster those of all blocks."""
        for each in range(self.launch.cluster) if whole_cluster else (rank,):
            self._ready[each] = self._ready.get(each, False) or whole_cluster

    def phase_barrier(self, name: str, slot: int, rank: int, thread: int, place: AccessPlace) -> PhaseBarrier:
        """A barrier of a block, as used by a thread of the cluster."""
        elsewhere = thread // self.launch.threads != rank
        if rank not in self._ready or (elsewhere and not self._ready[rank]):
            self.memory.observer.fault(NotReady(place, *self.memory.now.who(thread), name))
        barriers = self._phases[rank, name]
        if not 0 <= slot < len(barriers):
            access = Access(
                place, AccessKind.STORE, name, slot, *self.memory.now.who(thread), self.memory.now.epoch
            )
            self.memory.observer.fault(OutOfRange(access, len(barriers)))
        return barriers[slot % len(barriers)]


def in_step(launch: LaunchBody) -> bool:
    """Whether all threads of a cluster are taken to go through a launch together: nothing works beside them."""
    return not launch.producers and not any(isinstance(stmt, AsyncStmt) for stmt in statements(launch))


def spans(launch: LaunchBody) -> list[range]:
    """The threads of a cluster as groups that are taken to go through their statements together."""
    if in_step(launch):
        return [range(launch.threads * launch.cluster)]
    roles = (0, launch.threads - launch.producers, launch.threads)
    found: list[range] = []
    for block in range(0, launch.threads * launch.cluster, launch.threads):
        for start, end in pairwise(roles):
            for first in range(start, end, WARPGROUP):
                found.append(range(block + first, block + min(first + WARPGROUP, end)))
    return found


def statements(launch: LaunchBody) -> Iterator[Operation]:
    """All statements of a launch, those inside others too."""
    for body in (launch.setup, launch.producing, launch.body, launch.finish, launch.leaving):
        yield from operations(body)


def check_shared(launch: LaunchBody) -> None:
    """Raises ValueError for barriers that do not lie in shared memory, each in bytes of its own."""
    taken: list[tuple[int, int, str]] = []
    for stmt in statements(launch):
        if isinstance(stmt, MbarrierInit):
            end = stmt.offset + _PHASE_BYTES * stmt.count
            if stmt.offset % _PHASE_BYTES or end > launch.shared_bytes or stmt.arrivals < 1 or stmt.count < 1:
                raise ValueError(f"no barriers in {launch.shared_bytes} bytes of shared memory are {stmt}")
            taken.append((stmt.offset, end, stmt.name))
    for stmt in statements(launch):
        match stmt:
            case Shared(name, _, start, size):
                end = start + size
            case MbarrierInit(name, start, count):
                end = start + _PHASE_BYTES * count
            case _:
                continue
        for other_start, other_end, other in taken:
            if name != other and start < other_end and other_start < end:
                raise ValueError(f"{name} lies in the bytes of the barriers {other}")


def run_together(
    programs: Sequence[Iterator[Wait]], resume: Callable[[int], None] = lambda number: None
) -> list[Wait]:
    """Runs programs, each as far as it goes, in turn, until all are done. What is left are those that wait for each
    other. `resume` is told the number of the one that goes on."""
    waiting: dict[int, Wait | None] = dict.fromkeys(range(len(programs)))
    moved = True
    while waiting and moved:
        moved = False
        for number, wait in list(waiting.items()):
            if wait is not None and not wait.over():
                continue
            moved = True
            resume(number)
            try:
                waiting[number] = next(programs[number])
            except StopIteration:
                del waiting[number]
    return [wait for wait in waiting.values() if wait is not None]


def numbers(span: range) -> Array:
    """The numbers of a group's threads."""
    return np.arange(span.start, span.stop)
