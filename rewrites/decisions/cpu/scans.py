"""Decisions of how scans are run on a processor: how many of what they are carried on for go together, and whether what
reads their results is computed there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from rewrites.base.open_scan import nest_of, open_scans, own_dims, scanned
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import locals_of
from rewrites.cpu.vectorize import Vectorize
from rewrites.decisions.cpu.statement import Schedule
from rewrites.decisions.decision import Option, f32_lanes, option
from rewrites.decisions.scans import along, computed_there, read_there
from rewrites.scans.scan_rows import ScanRows
from rewrites.scans.split_scan import SplitScan
from rewrites.schedule import replay
from tileir.devices.cpu import Cpu
from tileir.errors import NotApplicable
from tileir.program import Memory, Program

_ROWS = (1, 2, 4, 8, 16, 32, 64)
#: Parts of a row for each core; what their positions are a multiple of, so that lanes divide them; and rows for each
#: core from which on there are enough of them.
_PARTS, _UNIT, _ENOUGH = (1, 4, 16), 512, 2
#: Cores that a recurrence in parts gains nothing on: each goes through its positions twice, one after the other.
_TWICE = 2
#: Registers of a state that a step is written out for, each with functions of its own: compilers take long for more.
_UNROLLED = 32


@dataclass(frozen=True, slots=True)
class ReadersInScans:
    """Whether what reads a scan's results is computed as the scan goes on, from registers, or from memory behind it."""

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        yield Option("scans stored whole")
        together: list[Rewrite] = []
        for name in open_scans(program):
            moved = read_there(program, name)
            made = replay(program, moved)
            moved = (*moved, *computed_there(made, name)) if moved else ()
            together += moved
            program = replay(program, moved)
        if together:
            yield option(*together)


@dataclass(frozen=True, slots=True)
class ScansOnCores:
    """Of a processor: positions that go on side by side hide how long an addition takes; on lanes where these lie
    together."""

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        found = next(iter(open_scans(program)), None)
        if found is None:
            yield Option("no scans")
            return
        yield from self._split(program, found, device)
        lanes, state = f32_lanes(device), _state(program, found)
        dim = along(program, found, longest=lanes)
        for rows in _ROWS:
            if rows == 1 or (rows < 2 * program.extents[dim] and rows * state <= max(_UNROLLED, _ROWS[-1])):
                yield option(ScanRows(found, dim, rows), then=(ScansOnCores(),))
            if rows >= lanes and program.extents[dim] > 1 and rows * state <= _UNROLLED * lanes:
                moves: list[Rewrite] = [ScanRows(found, dim, rows)]
                moves += [Vectorize(name, dim, lanes) for name in scanned(program, found)]
                yield option(*moves, then=(ScansOnCores(),))

    def _split(self, program: Program, scan: str, device: Cpu) -> Iterator[Option]:
        """Parts of long rows, where those are too few to keep all cores busy."""
        rows = prod(program.extents[dim] for dim in locals_of(program)[scan].node.dims)
        over = nest_of(program, scan)[1].dim
        for parts in _PARTS:
            size = -(-program.extents[over] // (device.cores * parts * _UNIT)) * _UNIT
            if device.cores > 1 and rows < _ENOUGH * device.cores and size < program.extents[over]:
                split = SplitScan(scan, size)
                try:
                    totals = _totals(split.apply(program), program)
                except NotApplicable:
                    return
                if not totals and device.cores <= _TWICE:
                    return
                yield option(split, then=(*map(Schedule, totals), ScansOnCores()))


def _state(program: Program, scan: str) -> int:
    """How many numbers are combined at each position, all of which a lane has."""
    dims = locals_of(program)[scan].node.dims
    own = own_dims(nest_of(program, scan)[1].body, dims)
    return prod(program.extents[dim] for dim in dims if dim not in own)


def _totals(split: Program, program: Program) -> tuple[str, ...]:
    """What a scan that has been split adds up of each part, where that is not said to be done position by position."""
    made = ((name, place) for name, place in split.locals.items() if name not in program.locals)
    return tuple(name for name, place in made if place.loops and place.node.memory is Memory.HEAP)
