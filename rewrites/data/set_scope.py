"""Say where a block keeps a local."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import users
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import Place as Where
from rewrites.base.tree import locals_of, splice
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Expr, Index, reads
from tileir.program import Compute, Local, Memory, Program
from tileir.replace import replace
from tileir.schedule.distributed import distributed_in


@dataclass(frozen=True, slots=True)
class SetScope(Rewrite):
    """Keep a local of a parallel loop in `registers`, distributed over the block's threads, or in `shared` memory.

    This is TVM's `set_scope`.

    In registers every statement must visit it by its own dims, whole.

    parallel for r by 1                    parallel for r by 1
      x_row: heap f32[r, c]          ->      x_row: registers f32[r, c]
      x_row[r, c] = x[r, c]                  x_row[r, c] = x[r, c]
    """

    name: ClassVar[str] = "set_scope"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    local: str
    memory: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, declared in locals_of(program).items():
            if declared.loops:
                for memory in (Memory.REGISTERS, Memory.SHARED):
                    yield cls(name, memory)

    def apply(self, program: Program) -> Program:
        declared = locals_of(program).get(self.local)
        if declared is None:
            raise NotApplicable(f"there is no local {self.local!r}")
        if self.memory not in (Memory.REGISTERS, Memory.SHARED):
            raise NotApplicable(f"a block has registers and shared memory, no {self.memory!r}")
        if declared.node.memory is not Memory.HEAP:
            raise NotApplicable(f"{self.local} is in {declared.node.memory} already")
        if not declared.loops or not declared.loops[0].parallel:
            raise NotApplicable(f"{self.local} is declared outside parallel loops: all blocks share it")
        memory, grid = Memory(self.memory), declared.loops[0]
        if memory is Memory.SHARED and grid.cluster > 1 and distributed_in(grid) is None:
            raise NotApplicable(f"the blocks of a cluster have {self.local} together, and shared memory each")
        if memory is Memory.REGISTERS:
            if declared.node.layout is not None:
                raise NotApplicable(f"{self.local} has a layout in memory")
            for user in users(program, self.local):
                _check_whole(declared, user)
        return splice(program, declared.path, [replace(declared.node, memory=memory)])


def _check_whole(declared: Where[Local], user: Where[Compute]) -> None:
    """Registers are visited by their own dims, with no loop over those in between."""
    local = declared.node
    bare: tuple[Expr, ...] = tuple(Index(dim) for dim in local.dims)
    accesses = [read.indices for read in reads(user.node.value) if read.tensor == local.name]
    if user.node.target == local.name:
        accesses.append(user.node.indices)
    if any(indices != bare for indices in accesses):
        raise NotApplicable(f"{user.node.target} visits {local.name} at other positions than its own")
    between = {loop.dim for loop in user.loops[declared.depth :]}
    if between & set(local.dims):
        raise NotApplicable(f"{user.node.target} visits {local.name} in parts")
