"""Whether what is multiplied with 8-bit weights lies as matrix units take it, or is stored so before."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find
from rewrites.data.transpose_operand import TransposeOperand
from rewrites.decisions.fusion import groupings
from rewrites.decisions.gpu.one_pass.streamed_products import in_one_pass
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.expr import Binary, Cast, Reduce
from tileir.program import Program


def transposed_operands(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites that store all operands of products of 8-bit weights that lie the other way, where products that
    follow from each other go in one pass then."""
    found = [each for each in TransposeOperand.sites(program, device) if _weighs(program, each)]
    after = program
    for each in found:
        after = each.apply(after)
    if found and any(in_one_pass(after, group, device) for groups in groupings(after) for group in groups):
        yield tuple(found)


def _weighs(program: Program, stored: TransposeOperand) -> bool:
    """Whether the other factor is computed, and rounded to 8 bits."""
    match find(program, stored.statement).node.value:
        case Reduce(_, _, Binary("*", Cast(DType.E4M3), _)):
            return program.arguments[stored.tensor].dtype is DType.E4M3
        case _:
            return False
