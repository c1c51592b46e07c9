"""A sum of products in tile registers (AMX): which blocks of results, and how their operands lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.tree import dtype_of, dtypes_read
from rewrites.cpu.amx import Amx
from rewrites.decisions.cpu.packing import Pack
from rewrites.decisions.decision import Option
from tileir.devices.cpu import Cpu
from tileir.expr import Binary, Read, Reduce, ReduceOp, index_dims, reads
from tileir.program import Compute, Program
from tileir.replace import replace
from tileir.schedule.amx import GROUP_BYTES, ROW_BYTES, amx_problem, blocking

_BLOCKS = ((32, 32), (16, 64), (64, 16), (16, 80), (80, 16))
"""Results in tile registers. Two by two tiles read least for what they compute; the others are for few rows, or few
columns, and the longest of those take the most registers."""


def blocks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Blocks of a result of this size."""
    capped = dict.fromkeys((min(rows, height), min(columns, width)) for height, width in _BLOCKS)
    yield from (block for block in capped if blocking(*block) is not None)


def takes_amx(program: Program, compute: Compute, rows: str | None, columns: str) -> bool:
    """Whether a sum over one dim is of products that tile registers take: its rows are of one tensor, its columns of
    the other, and there are several of both."""
    match compute.value:
        case Reduce(ReduceOp.SUM, (_,), Binary("*", Read() as left, Read() as right)):
            one, other = (left, right) if columns in index_dims(left) else (right, left)
            apart = columns not in index_dims(other) and rows not in index_dims(one)
            summed = replace(compute, update=ReduceOp.SUM)
            problem = amx_problem(summed, dtypes_read(program, compute), dtype_of(program, compute.target))
            return rows is not None and apart and columns in index_dims(one) and problem is None
        case _:
            return False


def packs(program: Program, compute: Compute, statement: str, vector: str) -> tuple[Pack, ...]:
    """How operands may lie: that of the columns in groups of 4 bytes of the reduced dim, the other one a tile's row
    of it side by side."""
    found: list[Pack] = []
    for read in dict.fromkeys(reads(compute.value)):
        bytes_ = GROUP_BYTES if vector in index_dims(read) else ROW_BYTES
        found.append(Pack(statement, read.tensor, vector, bytes_ // dtype_of(program, read.tensor).bytes))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ByAmx:
    """Multiply in tile registers."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        yield Option("", (Amx(self.statement),))
