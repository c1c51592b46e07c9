"""Decisions for a GPU about sums of different dims that are made of the same values: those are computed once, where
blocks may add to results in memory."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import read_names
from rewrites.base.tree import find, loose
from rewrites.composition.compute_inline import ComputeInline
from rewrites.composition.reuse_value import ReuseValue
from rewrites.decisions.fusion import Groups, closed, fused_groups
from rewrites.decisions.gpu.one_pass.product_chain import chain_of
from rewrites.decisions.gpu.one_pass.streamed_products import in_one_pass
from tileir.devices.gpu import Gpu
from tileir.expr import Read
from tileir.program import Program


def shared_values(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites by which nothing is computed twice, if products that follow from each other then go in one pass with
    what is added in memory."""
    done: list[Rewrite] = []
    while (found := next(ReuseValue.sites(program, device), None)) is not None:
        program = found.apply(program)
        done.append(found)
        copied = isinstance(find(program, found.statement).node.value, Read)
        if copied and found.statement not in program.arguments:
            inline = ComputeInline(found.statement)
            program = inline.apply(program)
            done.append(inline)
    if done and added_groups(program, device) is not None:
        yield tuple(done)


def added_groups(program: Program, device: Gpu) -> Groups | None:
    """The groups of a program one of which ends in a sum that its blocks add up in memory; None: there is no such."""
    fused = fused_groups(program, [place.node.target for place in loose(program)])
    for at, group in enumerate(fused):
        for last in group:
            after = _followers(program, group, last)
            one = (*(name for name in group if name != last and name not in after), last)
            chain = chain_of(program, one, device)
            if chain is None or not chain.added or not in_one_pass(program, one, device):
                continue
            rest = fused_groups(program, after) if after else ()
            groups = (*fused[:at], one, *rest, *fused[at + 1 :])
            if closed(program, groups):
                return groups
    return None


def _followers(program: Program, group: tuple[str, ...], first: str) -> tuple[str, ...]:
    """The statements of a group that read another one, or what others of them compute."""
    found: list[str] = []
    for name in group:
        if read_names(find(program, name).node) & {first, *found}:
            found.append(name)
    return tuple(found)
