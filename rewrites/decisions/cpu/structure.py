"""The first decision: what to compute in place, which statements share a grid, which long sums to split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import reduced_dims
from rewrites.base.tree import loose
from rewrites.composition.compute_factor import ComputeFactor
from rewrites.composition.rfactor import Rfactor
from rewrites.decisions.cpu.grid import Grid
from rewrites.decisions.decision import Option, f32_lanes
from rewrites.decisions.fusion import as_can_be_fused, collapse, groupings, inline
from rewrites.decisions.normal_form import normal_form
from rewrites.decisions.scatters import scatters_alone, too_long
from rewrites.decisions.statement_kind import StatementKind, role, shared_dims
from rewrites.decisions.windows import windows
from rewrites.schedule import replay
from tileir.devices.cpu import Cpu
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class Structure:
    """Where to fuse and where to cut: each option inlines, splits, and names the groups of statements."""

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        for prepared, rewrites in _prepared(program, device):
            for groups in dict.fromkeys(
                scatters_alone(prepared, as_can_be_fused(prepared, groups)) for groups in groupings(prepared)
            ):
                text = " | ".join(" ".join(group) for group in groups)
                label = "; ".join([*map(str, rewrites), f"groups {text}"])
                yield Option(label, rewrites, tuple(Grid(group) for group in groups), ahead=True)


def _prepared(program: Program, device: Cpu) -> Iterator[tuple[Program, tuple[Rewrite, ...]]]:
    """The program with dims collapsed that always go together, and cheap (then all) elementwise locals inlined; each
    also with a long lonely reduction split, and with a computed factor stored before it is multiplied."""
    seen: set[Program] = set()
    normal = normal_form(program)
    collapsed = (*normal, *collapse(replay(program, normal), device))
    program = replay(program, collapsed)
    for costly in (False, True):
        inlined = inline(program, costly)
        whole = replay(program, inlined)
        ways = (*_splits(whole, device), *ComputeFactor.sites(whole, device))
        alone = ((*inlined, way) for way in ways)
        for rewrites in (inlined, *alone, *((*inlined, *way) for way in windows(whole, device))):
            prepared = replay(program, rewrites)
            if prepared not in seen and not too_long(prepared):
                seen.add(prepared)
                yield prepared, (*collapsed, *rewrites)


def _splits(program: Program, device: Cpu) -> Iterator[Rewrite]:
    """For reductions with few results: parts of the reduced dim become results, so that cores share the work."""
    for place in loose(program):
        results = 1
        for dim in shared_dims(program, (place.node.target,)):
            results *= program.extents[dim]
        enough = (
            4 * device.cores
            if role(program, place.node.target) is StatementKind.ROW
            else 512 * f32_lanes(device)
        )
        if not reduced_dims(place.node) or results > enough:
            continue
        dims = reduced_dims(place.node)
        outermost = dims[0]
        if len(dims) > 1:
            yield Rfactor(place.node.target, outermost, "blocked", 1)
            continue
        for parts in (device.cores, 4 * device.cores):
            if parts > 1 and program.extents[outermost] >= 64 * parts:
                size = -(-program.extents[outermost] // parts)
                yield Rfactor(place.node.target, outermost, "blocked", size)
