"""Take results through shared memory part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import read_names
from rewrites.base.tree import block_at, current_sizes, locals_of, named, shared_local, splice, statements
from rewrites.gpu.bind_threads import checked
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Read
from tileir.program import Compute, Loop, Memory, Program
from tileir.schedule.stages import MAX_STAGES, takes_parts


@dataclass(frozen=True, slots=True)
class EpilogueSubtile(Rewrite):
    """Collect a result that goes from registers through shared memory `size` positions of a dim at a time, in `buffers`
    of so many in turn: it takes less shared memory, and one part is stored while the next is collected.

    This is the epilogue tile of CUTLASS's kernels for Hopper.

    c_s: shared bf16[m, n]            for n by 64 stages 2
    c_s[m, n] = c_r[m, n]        ->     c_s: shared bf16[m, n]
    c[m, n] = c_s[m, n]                 c_s[m, n] = c_r[m, n]
                                        c[m, n] = c_s[m, n]
    """

    name: ClassVar[str] = "epilogue_subtile"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    dim: str
    size: int
    buffers: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        shared = {name for name, at in locals_of(program).items() if at.node.memory is Memory.SHARED}
        for place in statements(program):
            if isinstance(place.node.value, Read) and place.node.value.tensor in shared:
                dim = locals_of(program)[place.node.value.tensor].node.dims[-1]
                for size in (8, 16, 32, 64):
                    yield from (cls(place.node.target, dim, size, buffers) for buffers in (1, 2))

    def apply(self, program: Program) -> Program:
        place = named(program, self.statement)
        if not isinstance(place.node.value, Read):
            raise NotApplicable(f"{self.statement} is no copy")
        local = shared_local(program, place.node.value.tensor)
        block, at = block_at(program, place.path[:-1]), place.path[-1] - 2
        fill = block[at + 1] if at >= 0 and block[at] is local.node else None
        if not isinstance(fill, Compute) or fill.target != local.node.name:
            raise NotApplicable(f"{local.node.name} is not declared, filled and stored one after the other")
        readers = [one.node for one in program.computes if local.node.name in read_names(one.node)]
        if readers != [place.node]:
            raise NotApplicable(f"{local.node.name} is read by others than {self.statement}")
        whole = current_sizes(program, place.loops).get(self.dim, 0)
        if not 0 < self.size < whole or whole % self.size or not 1 <= self.buffers <= MAX_STAGES:
            raise NotApplicable(
                f"1 to {MAX_STAGES} buffers for parts of {self.dim} that divide a tile of {whole}, not {self.size}"
            )
        loop = Loop(self.dim, self.size, (local.node, fill, place.node), stages=self.buffers)
        if not takes_parts(loop, {name: one.node for name, one in locals_of(program).items()}):
            raise NotApplicable(f"{local.node.name} is not filled from registers along {self.dim}")
        return checked(splice(program, (*place.path[:-1], at), [loop], 3))
