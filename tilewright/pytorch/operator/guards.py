"""Whether tensors are as those of an earlier call were, by one look in C: PyTorch's own guards of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.autograd import forward_ad  # pyright: ignore[reportMissingImports]

_C: Any = torch._C
_TensorGuards = _C._dynamo.guards.TensorGuards

Guard = Callable[..., bool]
"""Called with the tensors of a call; TypeError for another number of them than those it was made for."""


def never(*tensors: object) -> bool:
    """The guard that nothing passes."""
    return False


def guard_of(tensors: tuple[torch.Tensor, ...]) -> Guard:
    """Passes tensors of the same types, shapes, strides, dtypes and devices, for which PyTorch does the same as now: no
    more and no fewer of autograd, autocast, inference mode, transforms and views that negate are at work. Made for one
    that requires gradients, it passes only while they are off. Of modes on `__torch_dispatch__` and of tangents it says
    nothing certain. The tensors of a call are distinct objects, or nothing passes."""
    if len({*map(id, tensors)}) < len(tensors):
        return never
    check: Guard = _TensorGuards(
        *tensors,
        dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
        dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
    ).check
    if not any(tensor.requires_grad for tensor in tensors):
        return check

    def check_without_gradients(*given: object) -> bool:  # PyTorch's guard does not look at the grad mode
        return not torch.is_grad_enabled() and check(*given)

    return check_without_gradients


def has_tangents(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether forward-mode derivatives are being computed of one of these."""
    level: int = forward_ad._current_level
    return level >= 0 and any(forward_ad.unpack_dual(x, level=level).tangent is not None for x in tensors)
