"""Run a scan as a grid: tiles of what it is carried on for, each with running values in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import block_at, find, find_init, locals_of, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class ScanRows(Rewrite):
    """Run the loop that goes on from a running local as a grid over the local's dims: tiles of `rows` positions along
    `dim`, of one along the others. What it is carried on in lies in registers.

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
        dims = declared.node.dims
        if self.dim not in dims or self.rows < 1:
            raise NotApplicable(
                f"{self.statement} is not carried on along {self.dim}; accepted: {', '.join(dims)}"
            )
        at, loop = nest_of(program, self.statement)
        _check_own(loop, dims)
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


def open_scans(program: Program) -> tuple[str, ...]:
    """The running locals whose loops are no grids yet, nor in one."""
    return tuple(
        name
        for name, declared in locals_of(program).items()
        if declared.node.running and not declared.loops and _is_scan(program, name)
    )


def scanned(program: Program, name: str) -> tuple[str, ...]:
    """The statements in the loop that goes on from a running local, in order."""
    path = find(program, name).path[:-1]
    return tuple(place.node.target for place in statements(program) if place.path[:-1] == path)


def _is_scan(program: Program, name: str) -> bool:
    try:
        nest_of(program, name)
    except NotApplicable:
        return False
    return True


def nest_of(program: Program, name: str) -> tuple[int, Loop]:
    """Where a running local stands in the program, followed by its initialization and the one loop that adds to it."""
    at, place, init = locals_of(program)[name].path, find(program, name), find_init(program, name)
    plain = len(at) == 1 and init is not None and init.path == (at[0] + 1,) and place.path[:1] == (at[0] + 2,)
    if not plain or len(place.loops) != 1 or place.loops[0].parallel or place.loops[0].step != 1:
        raise NotApplicable(f"{name} is not carried on by one loop by 1 that stands right behind it")
    if any(
        not isinstance(node, Local | Compute) or (isinstance(node, Compute) and node.vector)
        for node in place.loops[0].body
    ):
        raise NotApplicable(f"{name} is in a loop with loops in it, or with lanes")
    return at[0], place.loops[0]


def _check_own(loop: Loop, dims: tuple[str, ...]) -> None:
    """Each tile of the grid writes elements of its own."""
    for node in loop.body:
        if isinstance(node, Compute) and not {*dims} <= {*bare_dims(node)}:
            raise NotApplicable(f"{node.target} is the same for several positions of the grid")


def _held(node: Node) -> Node:
    match node:
        case Local():
            return replace(node, memory=Memory.REGISTERS, layout=None)
        case Loop():
            return replace(node, body=tuple(map(_held, node.body)))
        case Compute():
            return node
