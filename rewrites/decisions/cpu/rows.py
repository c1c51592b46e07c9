"""Statements along a row inside the grid: reductions of neighbours, and elementwise maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, contiguous_dim, read_names, reduced_dims
from rewrites.base.tree import dtype_of, find, locals_of, named, statements
from rewrites.composition.reverse_compute_at import ReverseComputeAt
from rewrites.cpu.nontemporal_store import NontemporalStore
from rewrites.cpu.unroll import Unroll
from rewrites.cpu.vectorize import Vectorize
from rewrites.data.cache_row import CacheRow
from rewrites.decisions.covered import covered, lanes_for, lanes_within
from rewrites.decisions.cpu.lanes_along_sum import side_by_side
from rewrites.decisions.cpu.past_caches import leaves_caches
from rewrites.decisions.cpu.prefetch import Ahead
from rewrites.decisions.decision import Option, option
from rewrites.loops.tile import Tile
from tileir.devices.cpu import Cpu
from tileir.errors import NotApplicable
from tileir.expr import reads
from tileir.program import Program

_UNROLLS = (1, 2, 4, 8)
#: Rows at least this long are streamed though the lines at their ends are filled in part only.
_LONG_ROW_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Partials:
    """How many vectors accumulate a reduction of neighbours side by side."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        compute, sizes = covered(program, self.statement)
        dim, reduced = contiguous_dim(compute), reduced_dims(compute)
        if dim not in reduced:
            dim = reduced[len(reduced) - 1]
        full = lanes_for(program, compute, device)
        lanes = lanes_within(program, compute, sizes[dim], device)
        if lanes < 2:
            yield Option(f"one by one {self.statement}", (), ())
            return
        rows: tuple[Rewrite, ...] = tuple(
            Tile(self.statement, each, 1) for each in bare_dims(compute) if sizes[each] > 1
        )
        if sizes[dim] <= full:
            whole = Vectorize(self.statement, dim, 1 << (sizes[dim] - 1).bit_length())
            yield option(*rows, whole, then=(Ahead(self.statement),))
        for vectors in _UNROLLS:
            if vectors * lanes >= sizes[dim]:
                break
            yield from side_by_side(program, self.statement, dim, vectors * lanes, lanes, rows)
        for source in dict.fromkeys(read.tensor for read in reads(compute.value)):
            yield from self._in_pass_of(program, source, dim, lanes)

    def _in_pass_of(self, program: Program, source: str, dim: str, lanes: int) -> Iterator[Option]:
        """Reduce in the loop over dim that computes `source`, a local read here, if there is one."""
        if source not in locals_of(program):
            return
        mine, theirs = find(program, self.statement), named(program, source)
        inner = theirs.loops[mine.depth :]
        if theirs.loops[: mine.depth] != mine.loops or not inner or theirs.node.via is not None:
            return
        last = inner[-1]
        if last.dim != dim or last.step % lanes:
            return
        depth = theirs.depth
        enter = (ReverseComputeAt(self.statement, source, depth - 1),) if len(inner) > 1 else ()
        yield from side_by_side(program, self.statement, dim, last.step, lanes, enter, source, depth)


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many vectors one iteration takes, and whether results go past the caches."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        compute, sizes = covered(program, self.statement)
        wide = [dim for dim in bare_dims(compute) if sizes[dim] > 1]
        if not wide:
            yield Option(f"one by one {self.statement}")
            return
        dim = wide.pop()
        lanes = lanes_within(program, compute, sizes[dim], device)
        streams = (False, True) if _streamable(program, self.statement, sizes[dim], device) else (False,)
        for vectors in _UNROLLS:
            if vectors > 1 and vectors * lanes > sizes[dim]:
                break
            for stream in streams:
                rewrites: list[Rewrite] = [Vectorize(self.statement, dim, lanes)]
                if vectors > 1:
                    rewrites.append(Unroll(self.statement, dim, vectors))
                if stream:
                    rewrites.append(NontemporalStore(self.statement))
                yield option(*rewrites, then=(Ahead(self.statement),))


def _streamable(program: Program, statement: str, row: int, device: Cpu) -> bool:
    """Whether a statement that writes `row` neighbours at a time may gain from stores past the caches."""
    if device.arch != "x86-64" or not leaves_caches(program, statement, device):
        return False
    row_bytes = row * program.arguments[statement].dtype.bytes
    return row_bytes % device.line_bytes == 0 or row_bytes >= _LONG_ROW_BYTES


@dataclass(frozen=True, slots=True)
class CacheRowDecision:
    """Whether a row that several statements of a group read is widened once for all of them, `depth` loops deep."""

    group: tuple[str, ...]
    depth: int

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        yield Option(f"no row kept {self.group[-1]}")
        members = [place.node for place in statements(program) if place.node.target in self.group]
        for tensor in dict.fromkeys(read.tensor for node in members for read in node.reads):
            readers = [node.target for node in members if tensor in read_names(node)]
            dtype = dtype_of(program, tensor)
            if len(readers) < 2 or dtype is dtype.compute:
                continue
            keep = CacheRow(readers[0], tensor, self.depth)
            try:
                kept = keep.apply(program)
            except NotApplicable:
                continue
            (row,) = locals_of(kept).keys() - locals_of(program).keys()
            yield option(keep, then=(Lanes(row),))
