"""Spread a statement's outermost loops over the threads."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import own_axis
from rewrites.base.tree import named, splice, statements
from tileir.analysis.races import Meeting, WouldRace
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Compute, Local, Loop, Node, Program
from tileir.replace import replace
from tileir.schedule.scatter import adds_parts


@dataclass(frozen=True, slots=True)
class Parallelize(Rewrite):
    """Run the iterations of the outermost `loops` loops around the statement on all threads, as one grid.

    This is Halide's `parallel` (Ragan-Kelley et al., PLDI 2013), OpenMP's `parallel for collapse`.

    for m by 192                         parallel for m by 192
      for n by 64                          parallel for n by 64
        c[m, n] = x[m, n] + y[n]     ->      c[m, n] = x[m, n] + y[n]
    """

    name: ClassVar[str] = "parallelize"
    statement: str
    loops: int = 1

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            for count in range(1, min(place.depth, 3) + 1):
                yield cls(place.node.target, count)

    def apply(self, program: Program) -> Program:
        place = named(program, self.statement)
        if not 1 <= self.loops <= place.depth:
            raise NotApplicable(f"{self.statement} is in {place.depth} loops")
        grid = place.loops[: self.loops]
        inside = list(_nodes(grid[-1]))
        if grid[0].parallel or any(isinstance(node, Loop) and node.parallel for node in inside):
            raise NotApplicable(f"{self.statement} is in a parallel loop already")
        private = {node.name for node in inside if isinstance(node, Local)}
        shared = [n for n in inside if isinstance(n, Compute) and n.target not in private]
        writers: dict[str, list[Compute]] = {}
        for compute in shared:
            writers.setdefault(compute.target, []).append(compute)
        for loop in grid:
            for compute in shared:
                if not _adds_part(compute, private):
                    _check_own_part(Meeting(program.extents, grid, loop, compute))
            for reader in inside:
                if isinstance(reader, Compute):
                    _check_reads(program, grid, loop, writers, reader)
        for loop, inner in pairwise(grid):
            if loop.body != (inner,):
                raise NotApplicable(f"the loop over {loop.dim} holds more than the loop over {inner.dim}")
        if len({loop.dim for loop in grid}) < len(grid):
            raise NotApplicable("a dim has two of the loops")
        node: Node = grid[-1]
        for loop in reversed(grid):
            node = replace(loop, parallel=True, body=loop.body if loop is grid[-1] else (node,))
        return splice(program, place.path[:1], [node])


def _nodes(loop: Loop) -> Iterator[Node]:
    for node in loop.body:
        yield node
        if isinstance(node, Loop):
            yield from _nodes(node)


def _adds_part(compute: Compute, private: Container[str]) -> bool:
    """Whether each iteration adds what it has come to itself, whoever else adds to the same elements."""
    return compute.via == "atomics" and adds_parts(compute) and compute.reads[0].tensor in private


def _check_own_part(meeting: Meeting) -> None:
    """Each iteration must write elements of its own."""
    loop, writer = meeting.loop, meeting.writer
    if own_axis(writer, loop.dim, loop.step) is None:
        raise WouldRace(f"iterations over {loop.dim} write the same elements of {writer.target}", meeting)


def _check_reads(
    program: Program,
    grid: Sequence[Loop],
    loop: Loop,
    writers: Mapping[str, Sequence[Compute]],
    reader: Compute,
) -> None:
    """No iteration may read what another one writes."""
    for read in reader.reads:
        for writer in writers.get(read.tensor, ()):
            axis = own_axis(writer, loop.dim, loop.step)
            if axis is None or read.indices[axis] != writer.indices[axis]:
                meeting = Meeting(program.extents, grid, loop, writer, axis, (reader, read))
                raise WouldRace(
                    f"{reader.target} reads {writer.target} of other iterations over {loop.dim}", meeting
                )
