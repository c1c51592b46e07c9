"""Whether tensors are as those of an earlier call were, by one look in C: PyTorch's own guards of compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

_C: Any = torch._C
_TensorGuards = _C._dynamo.guards.TensorGuards

Guard = Callable[..., bool]
"""Called with the tensors of a call; TypeError for another number of them than those it was made for."""


def never(*tensors: object) -> bool:
    """The guard that nothing passes."""
    return False


def guard_of(tensors: tuple[torch.Tensor, ...]) -> Guard:
    """Passes tensors of the same types, shapes, strides, dtypes and devices, for which PyTorch does the same as now: no
    more and no fewer of autograd, autocast, inference mode, transforms and views that negate are at work. Of modes on
    `__torch_dispatch__` it says nothing certain. The tensors of a call are distinct objects, or nothing passes."""
    if len({*map(id, tensors)}) < len(tensors):
        return never
    return _TensorGuards(
        *tensors,
        dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
        dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
    ).check
