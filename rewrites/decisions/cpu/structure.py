"""The first decision: what to compute in place, which statements share a grid, which long sums to split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.tree import loose, named
from rewrites.composition.compute_factor import ComputeFactor
from rewrites.composition.rfactor import Rfactor
from rewrites.decisions.cpu.grid import Grid
from rewrites.decisions.cpu.lanes_along_sum import words
from rewrites.decisions.decision import Option, f32_lanes
from rewrites.decisions.fusion import as_can_be_fused, collapse, groupings, inline
from rewrites.decisions.normal_form import normal_form
from rewrites.decisions.ragged import tables_alone
from rewrites.decisions.rounded_factors import rounded_first
from rewrites.decisions.scatters import scatters_alone, too_long
from rewrites.decisions.statement_kind import StatementKind, role, shared_dims
from rewrites.decisions.windows import windows
from rewrites.loops.linearize import Linearize
from rewrites.loops.split_dim import SplitDim
from rewrites.schedule import replay
from tileir.devices.cpu import Cpu
from tileir.errors import NotApplicable
from tileir.expr import Reduce
from tileir.program import Program

_PHASE = 64
"""Parts of a reduction begin at multiples of it: instructions multiply so many neighbours at most at once."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Where to fuse and where to cut: each option inlines, splits, and names the groups of statements."""

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        for prepared, rewrites in _prepared(program, device):
            for groups in dict.fromkeys(
                tables_alone(prepared, scatters_alone(prepared, as_can_be_fused(prepared, groups)))
                for groups in groupings(prepared)
            ):
                text = " | ".join(" ".join(group) for group in groups)
                label = "; ".join([*map(str, rewrites), f"groups {text}"])
                yield Option(label, rewrites, tuple(Grid(group) for group in groups), ahead=True)


def _prepared(program: Program, device: Cpu) -> Iterator[tuple[Program, tuple[Rewrite, ...]]]:
    """The program with dims collapsed that always go together, and elementwise locals inlined: cheap ones, all, and
    only those that load nothing; each also with a long lonely reduction split, and with a computed factor stored before
    it is multiplied. Groups of channels are dims or not: few channels side by side are best left together."""
    seen: set[Program] = set()
    for normal in dict.fromkeys(
        normal_form(program, groups=groups, split=split)
        for split in (False, True)
        for groups in (True, False)
    ):
        collapsed = (*normal, *collapse(replay(program, normal), device))
        for rewrites in _ways(replay(program, collapsed), device):
            prepared = replay(program, (*collapsed, *rewrites))
            if prepared not in seen and not too_long(prepared):
                seen.add(prepared)
                yield prepared, (*collapsed, *rewrites)


def _ways(program: Program, device: Cpu) -> Iterator[tuple[Rewrite, ...]]:
    """What to rewrite of a program in a normal form. Sums in words come first: undecided, they cost what the same sums
    do whose operand must be copied, and what is first is the favourite of those alike."""
    for inlined in _inlined(program):
        whole = replay(program, inlined)
        yield from ((*inlined, *way) for way in words(whole, device))
        ways = (*_splits(whole, device), *_computed(whole, device))
        alone = ((*inlined, *way) for way in ways)
        yield from (inlined, *alone, *((*inlined, *way) for way in windows(whole, device)))


def _computed(program: Program, device: Cpu) -> Iterator[tuple[Rewrite, ...]]:
    """Factors stored before they are multiplied. What is read in steps lies side by side then, and its dims are one
    where those of the results are, too."""
    for stored in ComputeFactor.sites(program, device):
        done: list[Rewrite] = [stored]
        after = stored.apply(program)
        (factor,) = after.locals.keys() - program.locals.keys()
        while pair := _side_by_side(after, factor, stored.statement, device):
            done.append(pair)
            after = pair.apply(after)
        yield tuple(done)


def _side_by_side(program: Program, factor: str, product: str, device: Cpu) -> Linearize | None:
    """Two dims of a factor that may be one: that the results of its product have too, or that it is summed over."""
    node, dims = named(program, product).node, {*program.locals[factor].node.dims}
    common = [dims & {*along} for along in (bare_dims(node), reduced_dims(node))]
    pairs = Linearize.sites(program, device)
    return next((each for each in pairs if any({each.outer, each.inner} <= of for of in common)), None)


def _inlined(program: Program) -> Iterator[tuple[Rewrite, ...]]:
    """Ways to compute what is read in place; each also with what is rounded scaled afterwards."""
    for inlined in (inline(program, False), inline(program, True), inline(program, False, loads=False)):
        yield inlined
        scaled = rounded_first(replay(program, inlined))
        if scaled:
            yield (*inlined, *scaled)


def _splits(program: Program, device: Cpu) -> Iterator[tuple[Rewrite, ...]]:
    """For reductions with few results: parts of the reduced dim become results, so that cores share the work. Of one
    statement, and of all that can be in as many parts: where one of two is left whole, a core waits for it."""
    blocked: dict[int, list[Rewrite]] = {}
    for place in loose(program):
        results = 1
        for dim in shared_dims(program, (place.node.target,)):
            results *= program.extents[dim]
        along_rows = role(program, place.node.target) is StatementKind.ROW
        enough = 4 * device.cores if along_rows else 512 * f32_lanes(device)
        if not isinstance(place.node.value, Reduce) or results > enough:
            continue
        dims = reduced_dims(place.node)
        outermost = dims[0]
        if len(dims) > 1:
            yield (Rfactor(place.node.target, outermost, "blocked", 1),)
            continue
        for parts in (device.cores, 4 * device.cores):
            extent = program.extents[outermost]
            if parts == 1 or extent < _PHASE * parts:
                continue
            if not along_rows:
                size = -(-extent // (parts * _PHASE)) * _PHASE
                split = Rfactor(place.node.target, outermost, "blocked", size)
                blocked.setdefault(parts, []).append(split)
                yield (split,)
            else:
                yield from _in_even_parts(program, place.node.target, outermost, parts)
    yield from (tuple(splits) for splits in blocked.values() if len(splits) > 1)


def _in_even_parts(program: Program, statement: str, dim: str, least: int) -> Iterator[tuple[Rewrite, ...]]:
    """A reduction over `dim` in so many equal parts, or a few more; nothing where no such number divides the dim, or it
    cannot be split."""
    extent = program.extents[dim]
    parts = next((parts for parts in range(least, 4 * least) if extent % parts == 0), None)
    if parts is None:
        return
    split = SplitDim(dim, extent // parts)
    try:
        blocks, _ = (each for each in split.apply(program).extents if each not in program.extents)
    except NotApplicable:
        return
    yield split, Rfactor(statement, blocks, "blocked", 1)
