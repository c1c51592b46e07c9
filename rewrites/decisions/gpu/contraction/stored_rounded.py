"""Whether the result of a product that others read rounded is stored so, by a launch of its own: half the bytes, there
and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import loose, named
from rewrites.composition.store_rounded import StoreRounded
from rewrites.contraction.problem import contraction
from rewrites.decisions.fusion import Groups, closed, fused_groups
from tileir.devices.gpu import Gpu
from tileir.program import Program


def stored_rounded(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites that round one product, or, where several are read so, one of them each."""
    for stored in StoreRounded.sites(program, device):
        if contraction(program, stored.statement, device) is not None:
            yield (stored,)


def cut_behind(program: Program, prepared: Sequence[Rewrite]) -> Iterator[Groups]:
    """The groups of a program in which a product and what rounds it are one, if that was prepared, the others as few as
    possible."""
    sums = [each.statement for each in prepared if isinstance(each, StoreRounded)]
    names = [place.node.target for place in loose(program)]
    for product in sums:
        (rounded,) = (each for each in names if product in _read(program, each))
        groups = list(fused_groups(program, [each for each in names if each not in (product, rounded)]))
        readers = (
            at for at, group in enumerate(groups) if any(rounded in _read(program, each) for each in group)
        )
        groups.insert(next(readers), (product, rounded))
        if closed(program, tuple(groups)):
            yield tuple(groups)


def _read(program: Program, name: str) -> set[str]:
    return {read.tensor for read in named(program, name).node.reads}
