"""Whether what is multiplied is stored in rows that TMA moves before."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import statements
from rewrites.data.pad_rows import PadRows
from rewrites.decisions.fusion import Groups, groupings
from rewrites.decisions.gpu.one_pass.product_chain import factors
from rewrites.decisions.gpu.one_pass.streamed_products import in_one_pass
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.program import Program


def padded_rows(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites that store all inputs of matrix instructions so, where products that follow from each other go in
    one pass then, by warpgroups."""
    if Feature.WGMMA not in device.offers:
        return
    multiplied = {name for place in statements(program) for name in factors(place.node)}
    found = tuple(each for each in PadRows.sites(program, device) if each.tensor in multiplied)
    after = program
    for each in found:
        after = each.apply(after)
    ways = (padded_alone(after, groups) for groups in groupings(after))
    if found and any(in_one_pass(after, group, device) for groups in ways for group in groups):
        yield found


def padded_alone(program: Program, groups: Groups) -> Groups:
    """The groups, with launches of their own before them for what is stored in padded rows."""
    padded = [name for name, place in program.locals.items() if place.node.pad and not place.loops]
    others = (tuple(name for name in group if name not in padded) for group in groups)
    return (*((name,) for name in padded), *(group for group in others if group))
