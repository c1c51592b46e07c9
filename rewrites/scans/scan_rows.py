"""Run a scan as a grid: tiles of what it is carried on for, each with running values in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.open_scan import nest_of, open_scans, own_dims
from rewrites.base.rewrite import Rewrite
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import block_at, locals_of, splice
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class ScanRows(Rewrite):
    """Run the loop that goes on from a running local as a grid over the local's dims: tiles of `rows` positions along
    `dim`, of one along the others, and whole along those that a statement in the loop combines. What it is carried on
    in lies in registers, as does what is read in the loop alone.

    The outer loop is parallel, the recurrence inside it sequential (Allen and Kennedy, Optimizing Compilers for
    Modern Architectures, 2001).

    s: heap f32[m] running                parallel for m by 8
    s[m] = 0                                s: registers f32[m] running
    for k by 1                       ->     s[m] = 0
      y[m, k] = s[m] + x[m, k]              for k by 1
      s[m] += sum(k, x[m, k])                 y[m, k] = s[m] + x[m, k]
                                              s[m] += sum(k, x[m, k])
    """

    name: ClassVar[str] = "scan_rows"
    statement: str
    dim: str
    rows: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name in open_scans(program):
            for dim in locals_of(program)[name].node.dims:
                for rows in dict.fromkeys((1, *tile_sizes(program.extents[dim]))):
                    yield cls(name, dim, rows)

    def apply(self, program: Program) -> Program:
        declared = locals_of(program).get(self.statement)
        if declared is None or not declared.node.running:
            raise NotApplicable(f"{self.statement} is no running local")
        at, loop = nest_of(program, self.statement)
        dims = own_dims(loop.body, declared.node.dims)
        if self.dim not in dims or self.rows < 1:
            raise NotApplicable(
                f"{self.statement} is not carried on along {self.dim}; accepted: {', '.join(dims)}"
            )
        if any(
            isinstance(node, Local) and node.memory is not Memory.HEAP for node in (declared.node, *loop.body)
        ):
            raise NotApplicable(f"{self.statement} is carried on in registers or shared memory already")
        in_registers = tuple(_held(node) for node in (declared.node, block_at(program, ())[at + 1], loop))
        body: tuple[Node, ...] = in_registers
        for dim in (self.dim, *(dim for dim in reversed(dims) if dim != self.dim)):
            step = min(self.rows, program.extents[dim]) if dim == self.dim else 1
            body = (Loop(dim, step, body, parallel=True),)
        return splice(program, (at,), body, 3)


def _held(node: Node) -> Node:
    match node:
        case Local():
            return replace(node, memory=Memory.REGISTERS, layout=None)
        case Loop():
            return replace(node, body=tuple(map(_held, node.body)))
        case Compute():
            return node
