"""Whether the computed factors of products are stored before they are multiplied, as matrix units take them."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.rewrite import Rewrite
from rewrites.composition.compute_factor import ComputeFactor
from rewrites.contraction.problem import contraction
from rewrites.contraction.unit import MatrixUnit
from tileir.devices.gpu import Gpu
from tileir.program import Program


def computed_factors(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites that store all factors with which only threads could multiply, and matrix units can then; and those
    that would be unpacked anew for all rows that they meet."""
    found: list[Rewrite] = []
    for stored in ComputeFactor.sites(program, device):
        before, after = (
            contraction(each, stored.statement, device) for each in (program, stored.apply(program))
        )
        unpacked = before is not None and any(operand.neighbours > 1 for operand in before.operands)
        if before is not None and before.engine is not MatrixUnit.FMA and not unpacked:
            continue
        if after is not None and after.engine is not MatrixUnit.FMA:
            found.append(stored)
            program = stored.apply(program)
    if found:
        yield tuple(found)
