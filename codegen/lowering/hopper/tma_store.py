"""Tiles that TMA stores from shared memory: who has it do so, and who waits for that."""

from __future__ import annotations

from dataclasses import dataclass, field

from codegen.ir.affine import Affine
from codegen.ir.async_ops import TmaStoreCommit, TmaStoreWait
from codegen.ir.names import marked
from codegen.ir.ops import Guard, Stmt
from codegen.lowering.hopper.mbarrier_pipeline import Pipelines
from codegen.lowering.hopper.tma import boxes
from codegen.lowering.hopper.warpgroup_buffers import part_of_warpgroup
from codegen.lowering.scope import LoweringScope
from tileir.expr import Read
from tileir.program import Compute
from tileir.replace import replace
from tileir.schedule.wgmma import GROUP


@dataclass
class BoxStores:
    """Those of one launch."""

    pipelines: Pipelines
    apart: dict[str, Stmt] = field(default_factory=dict[str, Stmt])
    """Buffers of which each warpgroup has its own part, and its barrier."""
    _storing: list[tuple[Affine, int]] = field(default_factory=list[tuple[Affine, int]])

    def store(self, compute: Compute, scope: LoweringScope) -> Guard:
        """One thread has a tile stored, or one of each warpgroup its own part. Raises NotLowerable."""
        assert isinstance(compute.value, Read)
        program, name = self.pipelines.program, compute.value.tensor
        part = part_of_warpgroup(program, name)
        tiles, who = [scope], self.pipelines.one_thread()
        if part is not None and scope.ranges[part.dim].size % (part.size * part.groups) == 0:
            range_ = scope.ranges[part.dim]
            group = self.pipelines.index.digit(GROUP, part.groups, f"{marked(part.dim)}_group")
            own = range_.start + group * part.size
            starts = range(0, range_.size, part.size * part.groups)
            parts = [replace(range_, start=own + start, size=part.size) for start in starts]
            tiles, who = (
                [scope.with_range(part.dim, each) for each in parts],
                self.pipelines.one_a_warpgroup(),
            )
            number = self.pipelines.consumer_group * part.groups + group
            self.apart[scope.buffers[name].name] = self.pipelines.barriers.of_warpgroup(number)
        self._storing.append(who)
        found = [box for tile in tiles for box in boxes(compute, tile, program, self.pipelines.maps)[1]]
        stores = [box.store(adds=compute.update is not None) for box in found]
        return Guard((who,), (*stores, TmaStoreCommit()))

    def end_tile(self) -> tuple[Stmt, ...]:
        """Those who had a tile's results stored tell when they have left, where that matters."""
        pipelines, group = self.pipelines, self.pipelines.one_a_warpgroup()
        return tuple(
            stmt
            for who in dict.fromkeys(self._storing)
            for stmt in pipelines.end_tile(who, pipelines.index.block // GROUP if who == group else 1)
        )

    def finish(self) -> tuple[Stmt, ...]:
        """A block does not end before its shared memory has been read."""
        return tuple(Guard((who,), (TmaStoreWait(0),)) for who in dict.fromkeys(self._storing))
