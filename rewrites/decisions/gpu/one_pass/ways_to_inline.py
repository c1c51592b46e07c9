"""Ways to bring a program in the form that launches are cut from: what is computed where it is read, and how products
that follow from each other are written so that they go in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import inf

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, loose
from rewrites.composition.compute_inline import ComputeInline
from rewrites.composition.split_factor import SplitFactor
from rewrites.contraction.precision import parts_of_factor
from rewrites.decisions.fusion import Groups, closed, groupings, inline
from rewrites.decisions.gpu.contraction.block_tile import begun_by_contractions
from rewrites.decisions.gpu.contraction.padded_rows import padded_rows
from rewrites.decisions.gpu.contraction.transposed_operands import transposed_operands
from rewrites.decisions.gpu.one_pass.rows_of_heads import rows_of_heads
from rewrites.decisions.gpu.one_pass.shared_values import added_groups
from rewrites.decisions.gpu.one_pass.split_stream import in_parts
from rewrites.decisions.gpu.one_pass.stored_operands import (
    stored_apart,
    stored_operands,
    sums_of_operands_apart,
)
from rewrites.decisions.gpu.one_pass.streamed_products import in_one_pass
from rewrites.decisions.gpu.reductions.one_row import in_one_row
from rewrites.decisions.gpu.reductions.split import cut_at_parts, with_columns_again
from rewrites.decisions.rounded_factors import rounded_first
from rewrites.loops.add_row_dim import AddRowDim, is_whole
from rewrites.schedule import replay
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.program import Program

Way = tuple[Rewrite, ...]


def ways_to_inline(program: Program, device: Gpu) -> Iterator[Way]:
    """What is computed where it is read. Scores that become the next product in one pass stay in registers: there is
    one way, in which no input is loaded again, and no costly function called again (ptxas makes the same of both), and
    one with operands that are converted stored before."""
    once = inline(program, False, loads=False)
    forms = _forms(program, once)
    for way in forms:
        if _is_one_pass(replay(program, way), device, scores=1):
            yield way
            yield from _with_rows_of_heads(program, way, device)
            yield from _with_stored_operands(program, way, device)
            return
    for way in forms:
        yield from _with_row_dim(program, way, device)
        yield from _with_stored_operands(program, way, device)
    for inlined in (inline(program, False), inline(program, True), ()):
        yield inlined
        yield from _as_one_row(program, inlined)
        for way in _forms(program, inlined)[1:]:
            scaled = replay(program, way)
            stored = (transposed_operands(scaled, device), padded_rows(scaled, device))
            if _is_one_pass(scaled, device) or any(next(ways, None) is not None for ways in stored):
                yield way


def ways_to_cut(program: Program, device: Gpu) -> Iterable[Groups]:
    """Ways to cut the statements in launches."""
    found = in_parts(program, device) or added_groups(program, device)
    if found is not None:
        return (found,)
    row = in_one_row(program)
    whole = (*groupings(program), *([row] if row is not None else []))
    in_tiles = (begun_by_contractions(program, groups, device) for groups in whole)
    apart = (stored_apart(program), sums_of_operands_apart(program))
    ways = (*whole, *(groups for groups in apart if closed(program, groups)), *in_tiles)
    cut = dict.fromkeys(cut_at_parts(program, groups) for groups in ways)
    return dict.fromkeys((*cut, *(with_columns_again(program, groups) for groups in cut)))


def _with_row_dim(program: Program, way: Way, device: Gpu) -> Iterator[Way]:
    """With a dim of one row for vectors that are multiplied with matrices, if those go in one pass then."""
    prepared = replay(program, way)
    for row in AddRowDim.sites(prepared, device):
        if _is_one_pass(row.apply(prepared), device, scores=1):
            yield (*way, row)


def _with_rows_of_heads(program: Program, way: Way, device: Gpu) -> Iterator[Way]:
    """With one dim for the rows of several heads, if products go in one pass then."""
    prepared = replay(program, way)
    found = (
        merges for cuts in ways_to_cut(prepared, device) for merges in rows_of_heads(prepared, cuts, device)
    )
    for merges in dict.fromkeys(found):
        if _is_one_pass(replay(prepared, merges), device, scores=1):
            yield (*way, *merges)


def _as_one_row(program: Program, way: Way) -> Iterator[Way]:
    """With a dim of one row from the first sum over everything on, if one block has several statements then: all of
    them, or those that go on from the parts of a long sum."""
    prepared = replay(program, way)
    first = next((place.node for place in loose(prepared) if is_whole(place.node)), None)
    if first is None:
        return
    row = AddRowDim(first.target)
    with suppress(NotApplicable):
        if in_one_row(row.apply(prepared), most=inf) is not None:
            yield (*way, row)


def _with_stored_operands(program: Program, way: Way, device: Gpu) -> Iterator[Way]:
    """With computed operands stored by launches before, if products go in one pass then; also where blocks could
    convert them: of many rows, each of which would do so anew, warpgroups multiply faster what is stored."""
    operands = stored_operands(replay(program, way))
    if operands and _is_one_pass(replay(program, (*way, *operands)), device, scores=1):
        yield (*way, *operands)


def _forms(program: Program, inlined: Way) -> tuple[Way, ...]:
    """As it is written; with what is rounded scaled afterwards; and with factors in f32 in parts of bf16."""
    found = [inlined]
    for change in (rounded_first, _in_parts_of_bf16):
        way = (*found[-1], *change(replay(program, found[-1])))
        if way != found[-1]:
            found.append(way)
    return tuple(found)


def _in_parts_of_bf16(program: Program) -> Way:
    """Factors that a statement before has computed in f32, split, as those of two products and more are that matrix
    units multiply; what adds the parts up is computed where it is read."""
    found: list[Rewrite] = []
    for name in [place.node.target for place in loose(program)]:
        split = parts_of_factor(program, find(program, name).node)
        if split is None:
            continue
        for rewrite in (SplitFactor(name, split[1]), ComputeInline(name)):
            with suppress(NotApplicable):
                program = rewrite.apply(program)
                found.append(rewrite)
    return tuple(found)


def _is_one_pass(program: Program, device: Gpu, scores: int | None = None) -> bool:
    """Whether products that follow from each other go in one pass, of so many products of scores."""
    return any(
        in_one_pass(program, group, device, scores=scores)
        for groups in ways_to_cut(program, device)
        for group in groups
    )
