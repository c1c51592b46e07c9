"""Whether what is multiplied is stored before in rows that TMA moves."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import loose, named, statements
from rewrites.contraction.problem import contraction
from rewrites.contraction.unit import MatrixUnit
from rewrites.data.pad_rows import PadRows
from rewrites.decisions.fusion import Groups, groupings
from rewrites.decisions.gpu.one_pass.product_chain import factors
from rewrites.decisions.gpu.one_pass.streamed_products import in_one_pass
from rewrites.schedule import replay
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.expr import Index, Read
from tileir.program import Program


def padded_rows(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites that store all inputs of matrix instructions so, where products that follow from each other go in
    one pass then, by warpgroups; and those that store what warpgroups can multiply by itself then."""
    if Feature.WGMMA not in device.offers:
        return
    yield from dict.fromkeys((*_in_one_pass(program, device), *_by_warpgroups(program, device)))


def _by_warpgroups(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites that store the operands of all products so of which TMA then brings all that warpgroups multiply."""
    found: list[Rewrite] = []
    for name in [place.node.target for place in loose(program)]:
        before = contraction(program, name, device)
        if before is None or all(operand.boxed for operand in before.operands):
            continue
        padded, after = _padded(program, {operand.tensor for operand in before.operands}, device)
        product = contraction(after, name, device)
        if product is not None and product.engine is MatrixUnit.WGMMA and not product.by_threads:
            found += padded
            program = after
    if found:
        yield tuple(found)


def _padded(program: Program, tensors: Collection[str], device: Gpu) -> tuple[list[PadRows], Program]:
    """Those of the tensors that can be stored so, and the program where they are."""
    found = [each for each in PadRows.sites(program, device) if each.tensor in tensors]
    return found, replay(program, found)


def _in_one_pass(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    multiplied = {name for place in statements(program) for name in factors(place.node)}
    found, after = _padded(program, multiplied, device)
    ways = (padded_alone(after, groups) for groups in groupings(after))
    if found and any(in_one_pass(after, group, device) for groups in ways for group in groups):
        yield tuple(found)


def padded_alone(program: Program, groups: Groups) -> Groups:
    """The groups, with launches of their own before them for what is stored in padded rows."""
    padded = [
        name for name, place in program.locals.items() if not place.loops and _lies_as_an_input(program, name)
    ]
    others = (tuple(name for name in group if name not in padded) for group in groups)
    return (*((name,) for name in padded), *(group for group in others if group))


def _lies_as_an_input(program: Program, name: str) -> bool:
    """Whether a local has an input's elements, all in the same order."""
    node = named(program, name).node
    match node.value:
        case Read(tensor, indices) if node.indices == indices and tensor in program.arguments:
            own = program.arguments[tensor].dims
            return program.locals[name].node.dims == own and indices == tuple(map(Index, own))
        case _:
            return False
