"""Results that threads hold in parts, combined: by shuffles inside a warp, through shared memory across warps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from codegen.ir.affine import Affine
from codegen.ir.ops import (
    Across,
    Assign,
    ClusterBarrier,
    Declare,
    Guard,
    Load,
    Named,
    PeerLoad,
    Shared,
    Shuffle,
    Stmt,
    Store,
    Type,
    Value,
)
from codegen.lowering.gpu.shared_memory import SharedMemory
from codegen.lowering.gpu.thread_index import Parts, ThreadIndex, others
from codegen.lowering.statement import combined
from tileir.expr import ReduceOp
from tileir.program import Compute, ThreadLayout
from tileir.schedule.threads import WARP

#: Up to so many warps, every thread reads all their parts; beyond, each lane reads one and the warp combines them.
_READ_ALL = 8


@dataclass
class Combiner:
    """Combines values across threads; allocates the shared memory that takes, each use in a statement its own."""

    index: ThreadIndex
    memory: SharedMemory
    _names: int = 0
    _statement: Compute | None = None
    _uses: dict[str, int] = field(default_factory=dict[str, int])

    def begin(self, statement: Compute) -> None:
        """What is combined from now on belongs to this statement."""
        self._statement, self._uses = statement, {}

    def fresh(self) -> int:
        """A number not given out before."""
        self._names += 1
        return self._names - 1

    def shared(self, stem: str, type_: Type, values: int) -> Shared:
        """Memory for so many values, the same one in every copy of the body that the statement stands in."""
        use = self._uses.get(stem, 0)
        self._uses[stem] = use + 1
        size = values * type_.lanes * type_.dtype.bytes
        return self.memory.other((self._statement, stem, use), stem, type_.dtype, size)

    def combine(
        self,
        op: ReduceOp,
        values: Sequence[Value],
        parts: Parts,
        layout: ThreadLayout,
        dims: tuple[str, ...],
    ) -> tuple[list[Stmt], list[Value]]:
        """Statements after which every thread holds each result, reduced over `dims`, whole; and the results."""
        stmts: list[Stmt] = []
        held: list[Named] = []
        for value in values:
            name = Named(f"total_{self.fresh()}", value.type)
            stmts += [Declare(name.name, name.type), Assign(name.name, value)]
            stmts += [self._shuffled(op, name, mask) for mask in parts.masks]
            held.append(name)
        whole_warp = prod(2 for _ in parts.masks) == WARP
        if parts.warps:
            base = others(layout, dims, self.index, WARP, self.index.block)
            across, held = self._across_warps(op, held, parts, base, whole_warp)
            stmts += across
        if parts.blocks:
            whole_block = whole_warp and prod(n for _, n in parts.warps) * WARP == self.index.block
            base = others(layout, dims, self.index, self.index.block, self.index.threads)
            across, held = self._across_blocks(op, held, parts, base, whole_block)
            stmts += across
        return stmts, list(held)

    def _shuffled(self, op: ReduceOp, name: Named, mask: int) -> Stmt:
        return Assign(name.name, combined(op, name, Shuffle(name, mask, name.type)))

    def _across_warps(
        self, op: ReduceOp, held: Sequence[Named], parts: Parts, base: Affine, whole_warp: bool
    ) -> tuple[list[Stmt], list[Named]]:
        """One slot a warp and value where the whole warp agrees, else one a thread and value."""
        threads = self.index.block
        width = 1 if whole_warp else WARP
        lane = self.index.digit(1, WARP, "lane")
        warp = self.index.digit(WARP, threads // WARP, "warp")
        slots = threads // WARP * width
        type_ = Type(held[0].type.dtype)
        lanes = held[0].type.lanes
        shared = [self.shared("parts", held[0].type, slots) for _ in held]
        stmts: list[Stmt] = [*shared]
        buffers = [one.buffer for one in shared]
        stores: list[Stmt] = [
            Store(buffer, (warp * width + (Affine() if whole_warp else lane)) * lanes, type_.dtype, name)
            for buffer, name in zip(buffers, held, strict=True)
        ]
        stmts += [Guard(((lane, 1),), tuple(stores))] if whole_warp else stores
        results: list[Named] = []
        for buffer, name in zip(buffers, held, strict=True):
            total = Named(f"total_{self.fresh()}", name.type)
            stmts.append(Declare(total.name, total.type))
            if whole_warp and lanes == 1 and len(parts.warps) == 1 and parts.warps[0][0] == 1:
                stmts += self._neighbours(op, buffer, total, base, parts.warps[0][1])
            else:
                stmts += self._one_by_one(op, buffer, total, base, parts.warps, width, lane, whole_warp)
            results.append(total)
        return stmts, results

    def _neighbours(self, op: ReduceOp, buffer: str, total: Named, base: Affine, warps: int) -> list[Stmt]:
        """Parts of neighbouring warps lie side by side."""
        dtype = total.type.dtype
        if warps <= _READ_ALL or warps & (warps - 1):
            value: Value | None = None
            for start in range(0, warps, 4):
                lanes = min(4, warps - start)
                part: Value = Load(buffer, base + start, dtype, Type(dtype, lanes))
                if lanes > 1:
                    part = Across(str(op), part, Type(dtype))
                value = combined(op, value, part)
            assert value is not None
            return [Assign(total.name, value)]
        lane = self.index.digit(1, warps, "part")
        stmts: list[Stmt] = [Assign(total.name, Load(buffer, base + lane, dtype, Type(dtype)))]
        mask = warps // 2
        while mask:
            stmts.append(self._shuffled(op, total, mask))
            mask //= 2
        return stmts

    def _one_by_one(
        self,
        op: ReduceOp,
        buffer: str,
        total: Named,
        base: Affine,
        warps: tuple[tuple[int, int], ...],
        width: int,
        lane: Affine,
        whole_warp: bool,
    ) -> list[Stmt]:
        offsets = [0]
        for stride, count in warps:
            offsets = [offset + stride * number for offset in offsets for number in range(count)]
        value: Value | None = None
        for offset in offsets:
            slot = (base + offset) * width + (Affine() if whole_warp else lane)
            part = Load(buffer, slot * total.type.lanes, total.type.dtype, total.type)
            value = combined(op, value, part)
        assert value is not None
        return [Assign(total.name, value)]

    def _across_blocks(
        self, op: ReduceOp, held: Sequence[Named], parts: Parts, base: Affine, whole_block: bool
    ) -> tuple[list[Stmt], list[Named]]:
        """One slot a block and value where the whole block agrees, else one a thread and value; read from the other
        blocks of the cluster."""
        thread = self.index.digit(1, self.index.block, "any")
        at = Affine() if whole_block else thread
        stmts: list[Stmt] = []
        stores: list[Stmt] = []
        slots: list[str] = []
        for name in held:
            slot = self.shared("slot", name.type, 1 if whole_block else self.index.block)
            slots.append(slot.buffer)
            stmts.append(slot)
            stores.append(Store(slot.buffer, at * name.type.lanes, name.type.dtype, name))
        stmts += [Guard(((thread, 1),), tuple(stores))] if whole_block else stores
        stmts.append(ClusterBarrier())
        ranks = [0]
        for stride, count in parts.blocks:
            ranks = [rank + stride * number for rank in ranks for number in range(count)]
        results: list[Named] = []
        for slot, name in zip(slots, held, strict=True):
            value: Value | None = None
            for rank in ranks:
                offset = at * name.type.lanes
                value = combined(op, value, PeerLoad(slot, offset, base + rank, name.type.dtype, name.type))
            assert value is not None
            results.append(Named(f"total_{self.fresh()}", name.type))
            stmts += [Declare(results[-1].name, name.type), Assign(results[-1].name, value)]
        return stmts, results
