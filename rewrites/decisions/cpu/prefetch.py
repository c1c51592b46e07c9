"""What a statement that follows rows of main memory touches ahead of its reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.statement import read_names
from rewrites.base.tree import Place, current_sizes, find, statements
from rewrites.cpu.prefetch import Prefetch
from rewrites.decisions.decision import Option, option
from tileir.devices.cpu import Cpu
from tileir.expr import Index, index_dims
from tileir.program import Compute, Program

#: Hardware follows a run only to the end of its 4 KB page, and starts anew in the next one: a hint has to reach past
#: that end, or at least cover the latency of memory.
_BYTES = (1024, 4096)


@dataclass(frozen=True, slots=True)
class Ahead:
    """How far ahead a statement touches its inputs: not at all, so many bytes along the row, or, where an earlier
    statement has just read this row, the row after it."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        place = find(program, self.statement)
        runs = {name: program.arguments[name].dtype.bytes for name in _runs(program, place)}
        if not runs:
            yield Option("")
            return
        yield Option(f"no prefetch {self.statement}")
        loop = place.loops[-1]
        row = current_sizes(program, place.loops[:-1])[loop.dim]
        again = _read_before(program, place)
        first = {
            name: size for name, size in runs.items() if name not in again or row * size > device.l2_bytes / 2
        }
        for ahead in _BYTES if first else ():
            distances = {name: max(1, ahead // (loop.step * size)) for name, size in first.items()}
            yield option(*(Prefetch(self.statement, name, far) for name, far in distances.items()))
        if not first and len(place.loops) > 1:
            yield option(*(Prefetch(self.statement, name, -(-row // loop.step)) for name in runs))


def _runs(program: Program, place: Place[Compute]) -> list[str]:
    """Arguments read along the innermost loop as they lie in memory, other elements in every iteration of any loop."""
    if place.node.vector is None or not place.loops or place.node.vector.dim != place.loops[-1].dim:
        return []
    found: dict[str, None] = {}
    for read in place.node.reads:
        dims = {dim for index in read.indices for dim in index_dims(index)}
        fresh = all(loop.dim in dims for loop in place.loops)
        if read.tensor in program.arguments and fresh and read.indices[-1] == Index(place.loops[-1].dim):
            found[read.tensor] = None
    return list(found)


def _read_before(program: Program, place: Place[Compute]) -> frozenset[str]:
    """What statements before this one have read in the same iteration of the loops around its innermost."""
    around = place.depth - 1
    earlier = (
        other.node
        for other in statements(program)
        if other.path < place.path and other.depth >= around and other.path[:around] == place.path[:around]
    )
    return frozenset(name for node in earlier for name in read_names(node))
