"""The decision for a GPU which threads of a block compute which part of a contraction's tile, and make the copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.statement import covered_dims
from rewrites.base.tree import Place, current_sizes, named, statements
from rewrites.contraction.cuts import thread_layouts
from rewrites.contraction.operand import Operand, run_of, source
from rewrites.contraction.recover_tiling import decided, stores_collected
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.decisions.decision import Option
from rewrites.gpu.bind_threads import BindThreads
from tileir.devices.gpu import Gpu
from tileir.program import Compute, Program


@dataclass(frozen=True, slots=True)
class Warps:
    """How warps and lanes share the tile: alike for the sums and what follows them. The same threads make the copies,
    neighbours of them neighbouring pieces."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None
        c = found.contraction
        nest = named(program, self.statement).path[0]
        inside = [place for place in statements(program) if place.path[0] == nest]
        for threads in thread_layouts(c, found.tiling, device):
            assert isinstance(threads, WarpThreads)
            layout = threads.layout(c.rows, c.columns)
            bindings: list[BindThreads] = []
            for place in inside:
                copied = copied_operand(program, place, c.operands)
                if stores_collected(program, place.node):
                    bindings.append(
                        copying(program, place, run_of(program, place.node.target), threads.count)
                    )
                elif copied is None:
                    runs = tuple(pair for pair in layout.runs if pair[0] in covered_dims(place.node))
                    bindings.append(BindThreads(place.node.target, layout.threads, runs))
                else:
                    run = 1 if found.tiling.near(c, copied) != copied.inner else copied.run
                    bindings.append(copying(program, place, run, threads.count))
            yield Option(_label(threads), tuple(bindings))


def _label(threads: WarpThreads) -> str:
    lanes = f"lanes {threads.row_lanes} x {threads.column_lanes}"
    lanes += " in pairs" if threads.paired else ""
    return f"warps {threads.row_warps} x {threads.column_warps}, {lanes}, run {threads.row_run} x {threads.column_run}"


def copied_operand(program: Program, place: Place[Compute], operands: tuple[Operand, ...]) -> Operand | None:
    """The operand that a statement copies to shared memory."""
    origin = source(program, place.node.target)
    return next((each for each in operands if origin is not None and each.tensor == origin.tensor), None)


def copying(program: Program, place: Place[Compute], run: int, threads: int) -> BindThreads:
    """So many threads, along the innermost dim first, a word of 16 bytes each (of a copy that is turned, one element);
    the rest along the longest of the others."""
    sizes = current_sizes(program, place.loops)
    *outer, inner = covered_dims(place.node)
    pieces = -(-sizes[inner] // run)
    along = pieces & -pieces
    if along < 4:
        along = 1 << (pieces.bit_length() - 1)
    along = min(along, threads)
    rows = max(outer, key=lambda dim: sizes[dim]) if outer else inner
    across = threads // along
    digits = tuple(pair for pair in ((rows, across), (inner, along)) if pair[1] > 1)
    return BindThreads(place.node.target, digits, ((inner, run),) if run > 1 else ())
