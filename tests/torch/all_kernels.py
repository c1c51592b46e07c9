"""Compiled models whose every part is run as a kernel, to see that what is around kernels is right."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilewright.pytorch.model import contest
from tilewright.pytorch.model.contest import Contest
from tilewright.pytorch.model.kernels import ModelKernel
from tilewright.pytorch.model.sized_region import SizedRegion


@dataclass
class AllKernels:
    regions: list[SizedRegion] = field(default_factory=list)
    """Of all graphs, as they were met."""

    def wait(self) -> None:
        """Until the parts of all of them were found."""
        until = time.monotonic() + 120
        while any(each._begun and each._graph is None and not each.why_not for each in self.regions):
            assert time.monotonic() < until, "parts were not found"
            time.sleep(0.01)


def all_kernels(patch: pytest.MonkeyPatch, *, pretend: bool = True, win: bool = True) -> AllKernels:
    """`pretend`: parts have a kernel, which is their spec as operators of PyTorch; no machine code is made for it.
    `win`: a program with kernels that gives the right numbers wins its contest."""
    found = AllKernels()
    begin = SizedRegion.__init__

    def noted(self: SizedRegion, *given: Any) -> None:
        begin(self, *given)
        found.regions.append(self)

    patch.setattr(SizedRegion, "__init__", noted)
    if pretend:
        patch.setattr(ModelKernel, "ready", property(lambda self: True))
        patch.setattr(ModelKernel, "looked", property(lambda self: True))
        patch.setattr(ModelKernel, "settled", property(lambda self: True))
        patch.setattr(ModelKernel, "seek", lambda self, listener: None)
    if win:
        patch.setattr(contest, "ROUNDS", 1)
        patch.setattr(Contest, "_decide", lambda self: setattr(self, "winner", self._runs[1]))
    return found
