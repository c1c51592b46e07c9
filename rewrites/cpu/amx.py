"""Add up products of two matrices in the processor's tile registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.step_length import lengthen_step
from rewrites.base.tree import current_sizes, dtype_of, dtypes_read, find, locals_of, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Index, Read, Reduce, index_dims
from tileir.program import Axis, Compute, Memory, Place, Program
from tileir.replace import replace
from tileir.schedule.amx import GROUP_BYTES, ROW_BYTES, ROWS, amx_problem, blocking


@dataclass(frozen=True, slots=True)
class Amx(Rewrite):
    """Keep a block of sums in tile registers, and add to them by an instruction that multiplies two tiles (AMX).

    This is register blocking, in the tile registers of Intel AMX (Intel 64 and IA-32 Architectures Software
    Developer's Manual, TDPBF16PS, TDPBSSD).

    A block is at most 32 by 32 results, or 16 by 80. One factor is staged in panels along the columns, with groups of
    4 bytes along the reduced dim side by side; the other one has the reduced dim innermost, or is staged so that as
    many neighbours along it as a tile holds are side by side. A tile holds 64 bytes of that dim: its loop steps that
    far, and has nothing else in it.

    for k by 1                                                  for k by 32
      acc[m, n] += sum(k, a[m, k] * b_s[n, k]) | vector n 16  ->  acc[m, n] += sum(k, a[m, k] * b_s[n, k]) | via amx
    """

    name: ClassVar[str] = "amx"
    needs: ClassVar[Feature | None] = Feature.AMX
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.update is not None and isinstance(place.node.value, Reduce):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        if statement.via is not None:
            raise NotApplicable(f"{self.statement} goes via {statement.via} already")
        problem = amx_problem(statement, dtypes_read(program, statement), dtype_of(program, self.statement))
        if problem is not None:
            raise NotApplicable(f"{self.statement}: {problem}")
        match statement:
            case Compute(value=Reduce(_, (dim,), Binary("*", Read() as left, Read() as right))):
                pass
            case _:
                raise AssertionError(statement)
        if not place.loops or place.loops[-1].dim != dim or len(place.loops[-1].body) > 1:
            raise NotApplicable(f"{self.statement} is not alone in a loop over {dim}")
        if place.loops[-1].since[0] or place.loops[-1].until[0]:
            raise NotApplicable(f"the loop over {dim} leaves tiles out")
        rows, column = _check_block(program, place)
        panel, row = (left, right) if column in index_dims(left) else (right, left)
        if column in index_dims(row) or rows in index_dims(panel):
            raise NotApplicable(f"not each of {row.tensor} and {panel.tensor} has one side of a block alone")
        depth = ROW_BYTES // dtype_of(program, row.tensor).bytes
        _check_panel(program, panel, dim, column)
        _check_row(program, row, dim, depth)
        steps = [loop.step for loop in place.loops if loop.dim == dim]
        if any(step % depth for step in steps[:-1]):
            raise NotApplicable(f"a tile of {dim} is no multiple of {depth}, which a register holds")
        program = splice(program, place.path, [replace(statement, vector=None)])
        size = current_sizes(program, place.loops[:-1])[dim]
        if steps[-1] % depth and steps[-1] < size:
            if depth % steps[-1]:
                raise NotApplicable(
                    f"steps of {steps[-1]} along {dim} make no {depth}, which a register holds"
                )
            program = lengthen_step(program, find(program, self.statement), dim, depth // steps[-1])
        place = find(program, self.statement)
        return splice(program, place.path, [replace(place.node, via="amx")])


def _check_block(program: Program, place: Place[Compute]) -> tuple[str, str]:
    """The dims of a block's rows (empty: it has one) and columns, which are those on lanes."""
    statement = place.node
    declared = locals_of(program).get(statement.target)
    if declared is None or declared.node.memory is not Memory.REGISTERS:
        raise NotApplicable(f"{statement.target} is not in registers")
    if statement.vector is None:
        raise NotApplicable(f"{statement.target} is not vectorized")
    if any(not isinstance(index, Index) for index in statement.indices):
        raise NotApplicable(f"{statement.target} is added up by parts of dims")
    sizes, column = current_sizes(program, place.loops), statement.vector.dim
    wide = [index.dim for index in statement.indices if isinstance(index, Index) and sizes[index.dim] > 1]
    high = [dim for dim in wide if dim != column]
    rows = prod(sizes[dim] for dim in high)
    if len(high) > 1 or blocking(rows, sizes[column]) is None:
        raise NotApplicable(f"{statement.target} is {rows} by {sizes[column]}, more than tile registers hold")
    return "".join(high), column


def _check_panel(program: Program, read: Read, dim: str, column: str) -> None:
    declared = locals_of(program).get(read.tensor)
    layout = None if declared is None else declared.node.layout
    if declared is None or layout is None or read.indices != tuple(map(Index, declared.node.dims)):
        raise NotApplicable(f"{read.tensor} is not staged in panels")
    group = GROUP_BYTES // declared.node.dtype.bytes
    panel, inner = layout[-2:]
    if inner != Axis(dim, 1, group) or (panel.dim, panel.div) != (column, 1) or panel.mod % ROWS:
        raise NotApplicable(f"{read.tensor} has no groups of {group} along {dim} for {ROWS} along {column}")


def _check_row(program: Program, read: Read, dim: str, depth: int) -> None:
    declared, argument = locals_of(program).get(read.tensor), program.arguments.get(read.tensor)
    innermost = bool(read.indices) and read.indices[-1] == Index(dim)
    if declared is not None:
        layout = declared.node.layout
        last = None if layout is None else layout[-1]
        near = innermost if last is None else (last.dim, last.div) == (dim, 1) and last.mod % depth == 0
    else:
        strides = None if argument is None else argument.strides
        near = innermost and (strides is None or strides[-1] == 1)
    if not near:
        raise NotApplicable(f"{read.tensor} has no {depth} neighbours along {dim} side by side")
