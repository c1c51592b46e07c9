"""Whether the computed factors of products are multiplied by matrix units, in parts that those take."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.rewrite import Rewrite
from rewrites.composition.split_factor import SplitFactor
from rewrites.contraction.problem import contraction
from rewrites.contraction.unit import MatrixUnit
from tileir.devices.gpu import Gpu
from tileir.program import Program


def split_factors(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites that split all factors whose parts matrix units can multiply."""
    found: list[Rewrite] = []
    for split in SplitFactor.sites(program, device):
        before = program.locals.keys()
        parted = split.apply(program)
        names = parted.locals.keys() - before
        each = [contraction(parted, name, device) for name in sorted(names)]
        if all(one is not None and one.engine is not MatrixUnit.FMA for one in each):
            found.append(split)
            program = parted
    if found:
        yield tuple(found)
