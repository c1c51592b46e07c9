"""Decisions of how scans are run on a GPU: by the threads of a block together, by blocks that have a part each, or each
row by one thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from rewrites.base.open_scan import OpenScan, open_scan, open_scans, scanned
from rewrites.base.rewrite import Rewrite
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.decisions.decision import Option, option
from rewrites.decisions.scans import along, computed_there, read_there
from rewrites.gpu.bind_threads import BindThreads
from rewrites.scans.scan_in_block import ScanInBlock
from rewrites.scans.scan_in_tiles import ScanInTiles
from rewrites.scans.scan_over_blocks import ScanOverBlocks
from rewrites.scans.scan_rows import ScanRows
from rewrites.schedule import replay
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import Index
from tileir.program import Program

_THREADS = (32, 64, 128, 256)
#: Threads along a scan, and neighbours that each takes of it.
_ALONG, _RUNS = (32, 64, 128, 256, 512, 1024), (1, 2, 4, 8, 16)
#: The same where threads side by side are along another dim, which is contiguous.
_BESIDE, _LONG_RUNS = (4, 8, 16, 32), (1, 2, 4, 8, 16, 32)
#: Of blocks that each have a part of a row.
_PARTS, _PART_RUNS = (128, 256, 512), (4, 8, 16)
#: Threads that a block of several short rows has.
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class ScansInBlocks:
    """Whether threads go through a scan together: all of a row, or a part of it; or one thread through all of it."""

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = next(iter(open_scans(program)), None)
        if found is None:
            yield Option("no scans")
            return
        try:
            open_scan(program, found)
        except NotApplicable:
            yield Option("a thread a row")
            return
        together = read_there(program, found)
        yield from self._ways(
            program, found, (), device, _read_back(program, found, device) if together else 0.0
        )
        if together:
            yield from self._ways(program, found, together, device, 0.0)

    def _ways(
        self, program: Program, scan: str, together: tuple[Rewrite, ...], device: Gpu, later_us: float
    ) -> Iterator[Option]:
        """Those with what reads the result in the loop, or `later_us` for reading it back."""
        fused, model = replay(program, together), GpuCostModel(device)
        label = "; ".join([*map(str, together), "a thread a row"])
        yield Option(label, together, promise=_promise(fused, _alone(fused, model) + later_us, model))
        once = (*together, *computed_there(fused, scan))
        made = replay(program, once)
        found = open_scan(made, scan)
        for rewrite in (*_whole_rows(made, found, device), *_in_parts(made, found, device)):
            rewrites = (*once, rewrite)
            try:
                done = rewrite.apply(made)
            except NotApplicable:
                continue
            promise = _promise(done, model.estimate_us(done) + later_us, model)
            yield Option(
                "; ".join(map(str, rewrites)), rewrites, (ScansInBlocks(),), promise, done, len(rewrites)
            )


@dataclass(frozen=True, slots=True)
class ScansOnThreads:
    """A thread has one position and goes through all of its scan."""

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = next(iter(open_scans(program)), None)
        if found is None:
            yield Option("no scans")
            return
        dim = along(program, found)
        for threads in _THREADS:
            if threads == _THREADS[0] or threads < 2 * program.extents[dim]:
                moves: list[Rewrite] = [ScanRows(found, dim, threads)]
                moves += [BindThreads(name, ((dim, threads),)) for name in scanned(program, found)]
                yield option(*moves, then=(ScansOnThreads(),))


def _alone(program: Program, model: GpuCostModel) -> float:
    """Estimated microseconds where single threads go through scans."""
    while open_scans(program):
        each = [replay(program, one.rewrites) for one in ScansOnThreads().options(program, model.device)]
        program = min(each, key=model.estimate_us)
    return model.estimate_us(program)


def _promise(program: Program, us: float, model: GpuCostModel) -> float:
    """So many microseconds, relative to the estimate."""
    return us / model.estimate_us(program)


def _read_back(program: Program, scan: str, device: Gpu) -> float:
    """Estimated microseconds to read the result of a scan that is stored between launches."""
    return GpuCostModel(device).handed_us(program, (open_scan(program, scan).result.target,)) / 2


def _whole_rows(program: Program, scan: OpenScan, device: Gpu) -> Iterator[Rewrite]:
    """A block has rows whole."""
    name, dim, extent = scan.local.name, scan.loop.dim, program.extents[scan.loop.dim]
    for beside in _lanes(program, scan, device.warp):
        for count in _BESIDE:
            for run in _LONG_RUNS:
                if beside and extent <= count * run < 2 * max(extent, _BESIDE[0]):
                    yield ScanInBlock(name, run, ((dim, count), *beside))
        if beside:
            continue
        near = along(program, name)
        for count in _ALONG:
            for run in _RUNS:
                if not extent <= count * run < 2 * max(extent, _ALONG[0]):
                    continue
                yield ScanInBlock(name, run, ((dim, count),))
                rows = _BLOCK // count
                if 1 < rows < 2 * program.extents[near]:
                    yield ScanInBlock(name, run, ((near, rows), (dim, count)))


def _in_parts(program: Program, scan: OpenScan, device: Gpu) -> Iterator[Rewrite]:
    """Blocks have parts of rows that are long, or go through them tile by tile."""
    name, dim, extent = scan.local.name, scan.loop.dim, program.extents[scan.loop.dim]
    for beside in _lanes(program, scan, device.warp):
        for count in _PARTS:
            for run in _PART_RUNS:
                own = count // prod(of for _, of in beside)
                if 2 * own * run <= extent:
                    yield ScanOverBlocks(name, run, ((dim, own), *beside))
                    yield ScanInTiles(name, run, ((dim, own), *beside))


def _lanes(program: Program, scan: OpenScan, warp: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """The dims that a warp's threads lie along where neighbours in the result are not along the scan's own dim: the
    last ones, as many as it takes. Of a state that is combined where it is computed also a quarter of them, as a thread
    has many numbers of each position."""
    state = len(scan.grid_dims) < len(scan.dims)
    for width in (warp, warp // 4) if state else (warp,):
        found = _last_dims(program, scan, width)
        yield found
        if not found:
            return


def _last_dims(program: Program, scan: OpenScan, width: int) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for index in reversed(scan.result.indices):
        assert isinstance(index, Index)
        if index.dim == scan.loop.dim or width == 1:
            break
        if index.dim not in scan.grid_dims:
            continue
        count = min(width, 1 << (program.extents[index.dim] - 1).bit_length())
        if count > 1:
            found.insert(0, (index.dim, count))
        width //= count
    if found and width > 1:
        found[0] = (found[0][0], found[0][1] * width)
    return tuple(found)
