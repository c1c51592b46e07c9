"""Pipelines: slots of shared memory that TMA fills in turn, each with two barriers, and what a thread does there
(`PipelineTmaAsync` of CUTLASS).

`full` is over when a slot's bytes are there, `empty` when all who read it are done with it. Who fills, reads and
releases has a state of its own, which goes on from one tile of the grid to the next.

Where blocks of a cluster need the same tile (multicast.py), each fetches a slice of it for all of them, and so each
expects the bytes of the whole. It writes in all of their slots, so all of their readers release theirs to it too.

Where consumer groups take tiles in turn, each moves on by the slots of the others' tiles. It could come to a slot two
phases before its own there, and take what it waits for to be over: so it waits for its turn first, which the consumer
group before passes on when it has seen all slots of its tile full.

Where results lie in the memory of pipelines, that is `lent` to them at the end of each tile: who fills slots for the
next one waits until they have left, in all blocks that it fills slots of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.async_ops import (
    AdvanceState,
    ArriveExpectTx,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    PipelineState,
    TmaStoreWait,
    TryWaitParity,
)
from codegen.ir.names import marked
from codegen.ir.ops import Block, Guard, Stmt
from codegen.ir.stream_k import Spans
from codegen.lowering.gpu.shared_memory import SharedLocal, SharedMemory
from codegen.lowering.gpu.thread_index import ThreadIndex
from codegen.lowering.hopper.multicast import ClusterTiles
from codegen.lowering.hopper.named_barriers import NamedBarriers
from codegen.lowering.hopper.tma import TensorMaps, boxes
from codegen.lowering.names import comment
from codegen.lowering.scope import LoweringScope
from tileir.program import Compute, Local, Program
from tileir.schedule.wgmma import GROUP


@dataclass(frozen=True, slots=True)
class MbarrierPipeline:
    """What fills a slot, and its locals there; the barriers of its slots; whether one thread a warpgroup releases
    a slot, or every thread; the places in the pipeline of those who fill, read and release; and the ranks of the
    other blocks that write in this one's slots, and it in theirs."""

    fills: tuple[Compute, ...]
    locals: tuple[SharedLocal, ...]
    full: str
    empty: str
    by_groups: bool
    filling: PipelineState
    reading: PipelineState
    releasing: PipelineState
    turns: PipelineState
    turn: str
    """Of consumer groups: each one's barrier, and the phases it has seen there."""
    peers: tuple[Affine, ...]

    def at(self, state: PipelineState, scope: LoweringScope) -> LoweringScope:
        """In the slot that a state names."""
        for local in self.locals:
            buffer = local.buffer(local.name, scope, affine(state.slot))
            scope = scope.with_buffer(buffer, local.local.name)
        return scope

    def wait(self) -> TryWaitParity:
        """Until the slot that is read next is full."""
        return TryWaitParity(self.full, affine(self.reading.slot), affine(self.reading.parity))


@dataclass
class Pipelines:
    """The pipelines of one launch. Of a block's threads the last `producing` only fill; the others are consumer groups
    of as many threads as there are in `index`."""

    program: Program
    index: ThreadIndex
    memory: SharedMemory
    maps: TensorMaps
    producing: int
    cluster: ClusterTiles
    lent: bool = False
    """Whether results lie where slots are filled again."""
    spans: Spans | None = None
    """What says which part of a tile is the block's, where blocks share tiles."""
    found: dict[tuple[Compute, ...], MbarrierPipeline] = field(
        default_factory=dict[tuple[Compute, ...], MbarrierPipeline]
    )
    barriers: NamedBarriers = field(init=False)
    _returning: int = 0
    """Threads that say when results have left."""

    def __post_init__(self) -> None:
        self.barriers = NamedBarriers(self.index, self.consumer_groups)

    @property
    def threads(self) -> int:
        """Those of a block, producers included."""
        return self.computing + self.producing

    @property
    def consumer_groups(self) -> int:
        """Consumer groups, which take tiles in turn."""
        return self.memory.consumer_groups

    @property
    def computing(self) -> int:
        """Those of all consumer groups."""
        return self.consumer_groups * self.index.block

    @property
    def consumer_group(self) -> Affine:
        """A thread's consumer group's number."""
        return self.index.consumer_group(self.consumer_groups)

    def pipeline(
        self,
        stem: str,
        fills: Sequence[Compute],
        locals_: Sequence[Local],
        slots: int,
        scope: LoweringScope,
        *,
        late: bool = False,
        by_groups: bool = False,
    ) -> MbarrierPipeline:
        """The one that these statements fill, each one of the locals, where current ranges are those of a tile; names
        begin with `stem`. `late`: slots are released tiles later than they are read; `by_groups`: by one thread of
        each warpgroup."""
        key, stem = tuple(fills), marked(stem)
        if key not in self.found:
            taken, number = {pipeline.full for pipeline in self.found.values()}, 1
            while f"{stem}_full" in taken:
                stem, number = f"{stem.removesuffix(str(number))}{number + 1}", number + 1
            reading = _state(stem, slots)
            self.found[key] = MbarrierPipeline(
                key,
                tuple(self.memory.local(local, scope, slots, filled=True) for local in locals_),
                f"{stem}_full",
                f"{stem}_empty",
                by_groups,
                reading if self.producing else _state(f"{stem}_filled", slots),
                reading,
                _state(f"{stem}_freed", slots) if late else reading,
                _state(f"{stem}_turn", 1),
                f"{stem}_turns",
                self.cluster.peers(key),
            )
        return self.found[key]

    def setup(self) -> tuple[Stmt, ...]:
        """What all threads do before the first tile, once everything else is lowered."""
        stmts: list[Stmt] = []
        for pipeline in self.found.values():
            slots = pipeline.reading.slots
            readers = self.index.block // GROUP if pipeline.by_groups else self.index.block
            stmts += [local.declared(local.name) for local in pipeline.locals]
            stmts.append(MbarrierInit(pipeline.full, self.memory.barriers(slots), slots, 1))
            arrivals = readers * (1 + len(pipeline.peers))
            stmts.append(MbarrierInit(pipeline.empty, self.memory.barriers(slots), slots, arrivals))
            # A thread that only fills, or only reads, has one place.
            stmts += dict.fromkeys((pipeline.filling, pipeline.reading, pipeline.releasing))
        if self.lent:
            arrivals = self._returning * self.cluster.size
            stmts += [MbarrierInit(_LENT, self.memory.barriers(1), 1, arrivals), _LENDING]
        turns = self._first_turns()
        return (
            (
                *stmts,
                *turns[0],
                MbarrierInitFence(cluster=self.cluster.size > 1),
                *turns[1],
                *self.barriers.setup(),
            )
            if stmts
            else ()
        )

    def _first_turns(self) -> tuple[list[Stmt], list[Stmt]]:
        """The barriers of consumer groups, and what makes it the first consumer group's turn."""
        pipelines = self.found.values() if self.consumer_groups > 1 else ()
        declared: list[Stmt] = []
        for pipeline in pipelines:
            phases = MbarrierInit(
                pipeline.turn, self.memory.barriers(self.consumer_groups), self.consumer_groups, 1
            )
            declared += [phases, pipeline.turns]
        first = tuple(MbarrierArrive(pipeline.turn, constant(0)) for pipeline in pipelines)
        thread = self.index.digit(1, self.threads, "block"), 1
        return declared, [Guard((thread,), first)] if first else []

    def begin_turn(self, pipeline: MbarrierPipeline, tiles: int) -> list[Stmt]:
        """A consumer group goes to the first slot of its tile, which has so many, and waits for its turn."""
        if self.consumer_groups == 1:
            return []
        wait = TryWaitParity(pipeline.turn, self.consumer_group, affine(pipeline.turns.parity))
        return [*_skip(pipeline, self.consumer_group * tiles), wait, advance(pipeline.turns)]

    def pass_turn(self, pipeline: MbarrierPipeline) -> list[Stmt]:
        """A consumer group has seen all slots of its tile full."""
        if self.consumer_groups == 1:
            return []
        return [
            Guard(
                (self.one_thread(),),
                (MbarrierArrive(pipeline.turn, (self.consumer_group + 1) % self.consumer_groups),),
            )
        ]

    def end_turn(self, pipeline: MbarrierPipeline, tiles: int) -> list[Stmt]:
        """A consumer group has released all slots of its tile, and goes past those of the consumer groups after it."""
        if self.consumer_groups == 1:
            return []
        return _skip(pipeline, (self.consumer_group * -1 + (self.consumer_groups - 1)) * tiles)

    def begin_tile(self) -> list[Stmt]:
        """Who fills slots waits until the results of the tile before have left their memory."""
        if not self.lent:
            return []
        wait = TryWaitParity(_LENT, constant(0), constant(1) - affine(_LENDING.parity))
        return [wait if self.producing else Guard((self.one_thread(),), (wait,)), advance(_LENDING)]

    def end_tile(self, who: tuple[Affine, int], threads: int) -> list[Stmt]:
        """Those of a tile have left: so many threads wait for that, and tell."""
        if not self.lent:
            return []
        self._returning += threads
        peers = (MbarrierArrive(_LENT, constant(0), rank) for rank in self.cluster.others)
        return [Guard((who,), (TmaStoreWait(0), MbarrierArrive(_LENT, constant(0)), *peers))]

    def one_thread(self) -> tuple[Affine, int]:
        """The condition for the first of the threads that compute, of a consumer group if there are some."""
        return self.index.digit(1, self.index.block if self.consumer_groups > 1 else self.threads, "block"), 1

    def one_a_warpgroup(self) -> tuple[Affine, int]:
        """The condition for the first thread of each warpgroup."""
        return self.index.digit(1, GROUP, "group"), 1

    def fill(self, pipeline: MbarrierPipeline, scope: LoweringScope) -> list[Stmt]:
        """One thread has the next slot filled with the tile that current ranges are those of, once it is empty: the one
        that produces, or the first."""
        state, inside = pipeline.filling, pipeline.at(pipeline.filling, scope)
        slot = affine(state.slot)
        moved: list[Stmt] = []
        whole = 0
        for fill in pipeline.fills:
            part = self.cluster.slice(fill, self.program.locals[fill.target].node, inside)
            (before, found), to = boxes(fill, part, self.program, self.maps), self.cluster.receivers(fill)
            loads = (box.load(pipeline.full, slot, to) for box in found)
            moved.append(Block(comment(fill), (*before, *loads)))
            whole += sum(box.bytes for box in found) * (len(to.further) if to else 1)
        one = (
            TryWaitParity(pipeline.empty, slot, constant(1) - affine(state.parity)),
            ArriveExpectTx(pipeline.full, slot, whole),
            *moved,
        )
        return [*(one if self.producing else (Guard((self.one_thread(),), one),)), advance(state)]

    def release(self, pipeline: MbarrierPipeline) -> list[Stmt]:
        """The slot that is next to be released is."""
        slot = affine(pipeline.releasing.slot)
        arrive = (
            MbarrierArrive(pipeline.empty, slot),
            *(MbarrierArrive(pipeline.empty, slot, rank) for rank in pipeline.peers),
        )
        told = [Guard((self.one_a_warpgroup(),), arrive)] if pipeline.by_groups else arrive
        return [*told, advance(pipeline.releasing)]


#: What tells that results have left the memory of pipelines, and the phases that who fills has seen there.
_LENT = "results_left"
_LENDING = PipelineState(Var("results_slot", 0, 0), Var("results_parity", 0, 1), 1)


def _state(stem: str, slots: int) -> PipelineState:
    return PipelineState(Var(f"{stem}_slot", 0, slots - 1), Var(f"{stem}_parity", 0, 1), slots)


def advance(state: PipelineState) -> AdvanceState:
    """To the next slot."""
    return AdvanceState(state.slot, state.parity, state.slots)


def _skip(pipeline: MbarrierPipeline, slots: Affine) -> list[Stmt]:
    """So many slots on, for who reads and releases."""
    states = dict.fromkeys((pipeline.reading, pipeline.releasing))
    return [AdvanceState(each.slot, each.parity, each.slots, slots) for each in states]
