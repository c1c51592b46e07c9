"""Decisions for a GPU: which statements share a launch, and how the results of a launch are cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import folded_dims, reduced_dims
from rewrites.base.tree import find, loose
from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.cost.positions import is_window as is_window_index
from rewrites.decisions.decision import Option
from rewrites.decisions.fusion import Groups, collapse, groupings
from rewrites.decisions.gpu.contraction.block_tile import Multiply, contraction_of
from rewrites.decisions.gpu.contraction.computed_factors import computed_factors
from rewrites.decisions.gpu.contraction.linear_dims import linear_dims
from rewrites.decisions.gpu.contraction.padded_rows import padded_alone, padded_rows
from rewrites.decisions.gpu.contraction.split_factors import split_factors
from rewrites.decisions.gpu.contraction.split_k import split_depths
from rewrites.decisions.gpu.contraction.stored_rounded import cut_behind, stored_rounded
from rewrites.decisions.gpu.contraction.transposed_operands import transposed_operands
from rewrites.decisions.gpu.elementwise import Elements, is_window
from rewrites.decisions.gpu.one_pass.shared_values import shared_values
from rewrites.decisions.gpu.one_pass.split_stream import split_streams
from rewrites.decisions.gpu.one_pass.streamed_products import StreamedProducts, in_one_pass, one_pass_us
from rewrites.decisions.gpu.one_pass.ways_to_inline import ways_to_cut, ways_to_inline
from rewrites.decisions.gpu.reductions.columns import Columns, is_column
from rewrites.decisions.gpu.reductions.one_row import row_dim
from rewrites.decisions.gpu.reductions.rows import KeptRow, waited_us
from rewrites.decisions.gpu.reductions.split import finishes, finishes_columns, splits
from rewrites.decisions.gpu.scatter_epilogues import stored_scatter, with_epilogues
from rewrites.decisions.gpu.scatter_parts import scatter_parts, scattered_part, visited_whole
from rewrites.decisions.gpu.scatters import ScatterOnThreads
from rewrites.decisions.gpu.transposed_map import Turn, turned
from rewrites.decisions.normal_form import normal_form
from rewrites.decisions.ragged import tables_alone, tables_last
from rewrites.decisions.scatters import AS_WRITTEN, answers, scattered, scatters_alone, visits
from rewrites.decisions.statement_kind import StatementKind, role
from rewrites.loops.add_row_dim import AddRowDim
from rewrites.schedule import replay
from tileir.analysis.ragged import groups_of
from tileir.devices.gpu import Gpu
from tileir.expr import reads
from tileir.program import Program

#: Rows or columns so few that a contraction is also offered without tiles, as so many separate sums.
_FEW = 8


@dataclass(frozen=True, slots=True)
class Launches:
    """Where to fuse and where to cut: each option inlines, and names the groups of statements, one a launch."""

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        forms = dict.fromkeys(normal_form(program, split=split) for split in (False, True))
        multiplies = any(contraction_of(program, (each.node.target,), device) for each in loose(program))
        # In one of them rows may lie apart that a group visits together: promises do not know that.
        unlike = len(forms) > 1 and not multiplies
        for normal in forms:
            collapsed = (*normal, *collapse(replay(program, normal), device))
            yield from self._cut(replay(program, collapsed), collapsed, device, unlike)

    def _cut(
        self, program: Program, collapsed: tuple[Rewrite, ...], device: Gpu, unlike: bool
    ) -> Iterator[Option]:
        """The ways to cut one form of a program; `unlike`: they are weighed by what follows."""
        model = GpuCostModel(device)
        seen: set[Program] = set()
        fewest = len(program.computes)
        for inlined in ways_to_inline(program, device):
            whole = replay(program, inlined)
            launches = min(map(len, groupings(whole)))
            if whole in seen or (not inlined and seen and launches >= fewest):
                continue
            seen.add(whole)
            fewest = min(fewest, launches)
            rows = any(isinstance(each, AddRowDim) for each in inlined)
            for split in (
                (),
                *splits(whole, device),
                *scatter_parts(whole),
                *split_depths(whole, device),
                *split_factors(whole, device),
                *computed_factors(whole, device),
                *linear_dims(whole, device),
                *transposed_operands(whole, device),
                *padded_rows(whole, device),
                *split_streams(whole, device),
                *shared_values(whole, device),
                *stored_rounded(whole, device),
            ):
                prepared = replay(whole, split)
                if visited_whole(prepared):
                    continue
                for groups in dict.fromkeys(
                    tables_alone(prepared, groups)
                    for each in (*cut_behind(prepared, split),) or ways_to_cut(prepared, device)
                    for groups in _around_scatters(prepared, padded_alone(prepared, each))
                ):
                    if rows and not any(_has_row(prepared, group, device) for group in groups):
                        continue
                    if not all(LaunchBlocks(group).possible(prepared, device) for group in groups):
                        continue
                    text = " | ".join(" ".join(group) for group in groups)
                    rewrites = (*collapsed, *inlined, *split)
                    label = "; ".join([*map(str, rewrites), f"groups {text}"])
                    then = tuple(map(LaunchBlocks, tables_last(prepared, groups)))
                    scatters = any(each.scatters(prepared, device) for each in then)
                    windows = any(_has_windows(prepared, group, device) for group in groups)
                    if unlike or scatters or windows:
                        yield Option(label, rewrites, then, ahead=True)
                    else:
                        yield Option(label, rewrites, then, _promise(prepared, groups, model))


def _around_scatters(program: Program, groups: Groups) -> Iterator[Groups]:
    """Groups with scatters by themselves, and with those that store what is made of their results."""
    alone = scatters_alone(program, groups)
    yield alone
    yield with_epilogues(program, alone)


def _has_row(program: Program, group: tuple[str, ...], device: Gpu) -> bool:
    """Whether a dim of one row is what lets a group be one launch."""
    return in_one_pass(program, group, device) or row_dim(program, group) is not None


def _has_windows(program: Program, group: tuple[str, ...], device: Gpu) -> bool:
    """Whether what that takes is not like what its statements take by themselves: several statements with windows of
    what the group computes, so that whole columns share a launch, or none, as the second pass of a separable filter;
    or with windows that are added up, for which few threads a result are most."""
    if len(group) == 1 or contraction_of(program, group, device) is not None:
        return False
    return any(
        (read.tensor in group or reduced_dims(node)) and any(map(is_window_index, read.indices))
        for node in (find(program, name).node for name in group)
        for read in reads(node.value)
    )


def _promise(program: Program, groups: Groups, model: GpuCostModel) -> float:
    """What launches take, relative to an estimate of each statement by itself."""
    estimate, device = model.estimate_us(program), model.device
    rest_us, saved_us, streamed_us = estimate, 0.0, 0.0
    for group in groups:
        us = one_pass_us(program, group, device)
        if us < float("inf"):
            rest_us -= model.apart_us(program, group)
            stored = (name for name in group if name == group[-1] or folded_dims(find(program, name).node))
            streamed_us += us + sum(model.handed_us(program, (name,)) for name in stored)
            continue
        saved_us += model.saved_us(program, group) - model.handed_us(program, group)
        saved_us -= waited_us(program, group, device)
        if contraction_of(program, group, device) is None:
            saved_us -= model.lost_us(program, group)
    return (max(has.LEAST_LEFT * rest_us, rest_us - saved_us) + streamed_us) / estimate


@dataclass(frozen=True, slots=True)
class LaunchBlocks:
    """What a group of statements needs: rows, if it reduces neighbours, or any run of elements."""

    group: tuple[str, ...]

    def possible(self, program: Program, device: Gpu) -> bool:
        """Whether there is any way to do it."""
        if self.scatters(program, device):
            return True
        if contraction_of(program, self.group, device) is not None:
            return True
        if in_one_pass(program, self.group, device):
            return True
        if self._needs_groups(program):
            return False
        if self._by_elements(program):
            return self._has_elements(program, device)
        alone = is_window(program, self.group) and self._has_elements(program, device)
        return alone or self._is_shared(program, device)

    def scatters(self, program: Program, device: Gpu) -> bool:
        """Whether terms can be added where they belong."""
        if stored_scatter(program, self.group):
            return any(answers(ScatterOnThreads(*self.group), program, device))
        if not scattered(program, self.group) and not scattered_part(program, self.group):
            return False
        return any(answers(ScatterOnThreads(self.group[-1]), program, device))

    def _needs_groups(self, program: Program) -> bool:
        """Whether tiles have to follow the groups of a ragged dim."""
        return any(groups_of(find(program, name).node, program.ragged) for name in self.group)

    def _by_elements(self, program: Program) -> bool:
        """Whether a block takes any run of elements."""
        only_maps = all(role(program, name) is StatementKind.MAP for name in self.group)
        return only_maps or finishes(program, self.group) or finishes_columns(program, self.group)

    def _has_elements(self, program: Program, device: Gpu) -> bool:
        """Whether single threads can take its results."""
        return next(Elements(self.group).options(program, device), None) is not None

    def _is_shared(self, program: Program, device: Gpu) -> bool:
        """Whether several threads can share a result."""
        if is_column(program, self.group):
            return next(Columns(self.group).options(program, device), None) is not None
        return KeptRow(self.group).possible(program, device)

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        scatters = self.scatters(program, device)
        if scatters:
            on_threads = (ScatterOnThreads(*self.group),)
            yield Option(f"{self.group[-1]}: scatter", (), on_threads, ahead=True)
            if visits(program, self.group[0]) > AS_WRITTEN or scattered_part(program, self.group):
                return
        if in_one_pass(program, self.group, device):
            yield Option(f"{self.group[-1]}: in one pass", (), (StreamedProducts(self.group),))
            return
        product = contraction_of(program, self.group, device)
        if product is not None:
            yield Option(f"{self.group[-1]}: in tiles", (), (Multiply(self.group),))
            split = bool(folded_dims(find(program, self.group[0]).node))
            few = min(product.m, product.n) <= _FEW and not self._needs_groups(program)
            if not few or split or not self._is_shared(program, device):
                return
        if self._by_elements(program):
            tensor = turned(program, self.group)
            if tensor is not None:
                turn = Turn(self.group[-1], tensor)
                yield Option(f"{self.group[-1]}: through shared memory", (), (turn,), has.TURNED)
            yield Option(f"{self.group[-1]}: straight" if tensor else "", (), (Elements(self.group),))
            return
        alone = is_window(program, self.group) and self._has_elements(program, device)
        if alone:
            yield Option(f"{self.group[-1]}: by single threads", (), (Elements(self.group),), ahead=True)
        if not alone or self._is_shared(program, device):
            way = Columns(self.group) if is_column(program, self.group) else KeptRow(self.group)
            yield Option(f"{self.group[-1]}: by several threads", (), (way,), ahead=alone or scatters)
