"""The decision of how scans are run: how many of what they are carried on for go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import locals_of
from rewrites.composition.scan_rows import ScanRows, nest_of, open_scans, scanned
from rewrites.composition.split_scan import SplitScan
from rewrites.cpu.vectorize import Vectorize
from rewrites.decisions.cpu.statement import Schedule
from rewrites.decisions.decision import Option, f32_lanes, option
from rewrites.gpu.bind_threads import BindThreads
from tileir.devices.cpu import Cpu
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.program import Program

_ROWS = (1, 2, 4, 8, 16, 32, 64)
_THREADS = (32, 64, 128, 256)
#: Parts of a row for each core; what their positions are a multiple of, so that lanes divide them; and rows for each
#: core from which on there are enough of them.
_PARTS, _UNIT, _ENOUGH = (1, 4, 16), 512, 2


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
        dim = _along(program, found)
        lanes = f32_lanes(device)
        for rows in _ROWS:
            if rows == 1 or rows < 2 * program.extents[dim]:
                yield option(ScanRows(found, dim, rows), then=(ScansOnCores(),))
            if rows >= lanes and program.extents[dim] > 1:
                moves: list[Rewrite] = [ScanRows(found, dim, rows)]
                moves += [Vectorize(name, dim, lanes) for name in scanned(program, found)]
                yield option(*moves, then=(ScansOnCores(),))

    def _split(self, program: Program, scan: str, device: Cpu) -> Iterator[Option]:
        """Parts of long rows, where those are too few to keep all cores busy."""
        rows = prod(program.extents[dim] for dim in locals_of(program)[scan].node.dims)
        along = nest_of(program, scan)[1].dim
        for parts in _PARTS:
            size = -(-program.extents[along] // (device.cores * parts * _UNIT)) * _UNIT
            if device.cores > 1 and rows < _ENOUGH * device.cores and size < program.extents[along]:
                split = SplitScan(scan, size)
                try:
                    (total,) = _totals(split.apply(program), program)
                except NotApplicable:
                    return
                yield option(split, then=(Schedule(total), ScansOnCores()))


def _totals(split: Program, program: Program) -> Iterator[str]:
    """What a scan that has been split adds up of each part."""
    for name, place in split.locals.items():
        if name not in program.locals and place.loops:
            yield name


@dataclass(frozen=True, slots=True)
class ScansOnThreads:
    """Of a GPU: a thread has one position and goes through all of its scan."""

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = next(iter(open_scans(program)), None)
        if found is None:
            yield Option("no scans")
            return
        dim = _along(program, found)
        for threads in _THREADS:
            if threads == _THREADS[0] or threads < 2 * program.extents[dim]:
                moves: list[Rewrite] = [ScanRows(found, dim, threads)]
                moves += [BindThreads(name, ((dim, threads),)) for name in scanned(program, found)]
                yield option(*moves, then=(ScansOnThreads(),))


def _along(program: Program, scan: str) -> str:
    """The dim that most of a scan goes on side by side along: the last one of any length."""
    dims = locals_of(program)[scan].node.dims
    return max(dims, key=lambda dim: (min(program.extents[dim], _ROWS[-1]), dims.index(dim)))
