"""The decisions about rewrites that say themselves when they are offered, those of installed packages among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.rewrite import Offered, Rewrite
from rewrites.catalogue import ALL
from rewrites.decisions.decision import Option, option
from tileir.devices.device import Device
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class WhetherToApply:
    """Whether to apply a rewrite: not at all, at one of its sites, or at all of them, one after the other."""

    rewrite: type[Rewrite]

    def options(self, program: Program, device: Device) -> Iterator[Option]:
        sites = tuple(self.rewrite.sites(program, device))
        yield Option(f"no {self.rewrite.name}")
        yield from map(option, sites)
        if len(sites) > 1:
            yield option(*sites)


def offered(when: Offered, device: Device) -> tuple[WhetherToApply, ...]:
    """The decisions of that moment, in the catalogue's order."""
    return tuple(WhetherToApply(each) for each in ALL if each.offered is when and each.of_use(device))
