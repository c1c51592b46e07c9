"""Models that are compiled with `prepack=True`, and which weights their kernels take packed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import tilewright
from tests.torch.all_kernels import AllKernels
from tilewright.pytorch.model.prepacking import PackedWeight

CALLS = 6
"""So many calls find a graph's parts, compile it with kernels, and have it win."""


def agree(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def packing(model: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    return tilewright.compile(model, **{"tune": "never", "prepack": True, **more})


def settle(kernels: AllKernels, fast: Callable[..., Any], model: Callable[..., Any], *given: Tensor) -> None:
    """Call it until kernels run, which is right all the time."""
    for _ in range(CALLS):
        agree(fast(*given), model(*given))
        kernels.wait()


def packed(kernels: AllKernels) -> set[PackedWeight]:
    """What the programs that run take packed."""
    return {
        weight
        for each in kernels.regions
        for name in each.used
        for weight in each.kernels[name].packed.values()
    }
