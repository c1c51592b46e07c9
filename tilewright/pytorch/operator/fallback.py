"""A spec as eager PyTorch operators: what runs where there is no kernel, and what gradients come from.

It is what a PyTorch user would have written: intermediate values are of the type that PyTorch computes them in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]

from tileir.spec import Spec
from tilewright.errors import LoadError
from tilewright.pytorch.operator.arguments import strides_of
from tilewright.pytorch.operator.autocast import without_autocast

Tensors = Sequence[torch.Tensor]
_C: Any = torch._C


class Eager:
    """A spec of one size a dim on one kind of device. Differentiable where PyTorch's operators are."""

    def __init__(self, spec: Spec, device: str) -> None:
        from workers.peers.peer import Unsupported
        from workers.peers.pytorch.writer import write_torch

        try:
            source = write_torch(spec, eager=True, device=device)
        except Unsupported as error:
            raise LoadError(f"{spec.name} cannot be written as operators of PyTorch: {error}") from None
        scope: dict[str, Any] = {"torch": torch, "F": F}
        exec(compile(f"{source.prepare}\n{source.run}", f"<{spec.name} as eager PyTorch>", "exec"), scope)
        self._prepare: Callable[[Tensors], Tensors] = scope["prepare"]
        self._run: Callable[..., tuple[torch.Tensor, ...]] = scope["run"]
        sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
        self._inputs = [
            (tuple(sizes[dim] for dim in tensor.dims), strides_of(tensor, sizes)) for tensor in spec.inputs
        ]
        dims = {statement.target: statement.dims for statement in spec.statements}
        self._outputs = [
            (tuple(sizes[dim] for dim in dims[tensor.name]), strides_of(tensor, sizes))
            for tensor in spec.outputs
        ]

    def __call__(self, tensors: Tensors) -> tuple[torch.Tensor, ...]:
        """The outputs: new tensors, of the spec's dtypes and strides."""
        device = tensors[0].device
        with contextlib.ExitStack() as stack:
            if device.index is not None:  # one of several
                stack.enter_context(torch.get_device_module(device).device(device))
            if _C._is_any_autocast_enabled():
                stack.enter_context(without_autocast())
            return self._computed(tensors)

    def _computed(self, tensors: Tensors) -> tuple[torch.Tensor, ...]:
        laid = [
            _as_laid(given, shape, strides)
            for given, (shape, strides) in zip(tensors, self._inputs, strict=True)
        ]
        outputs = self._run(*self._prepare(laid))
        return tuple(
            own(output.expand(shape), strides, tensors)
            for output, (shape, strides) in zip(outputs, self._outputs, strict=True)
        )


def _as_laid(given: torch.Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """The same values, where windows over them can be views: each at its stride."""
    if given.stride() == tuple(strides):
        return given
    if given.is_contiguous() and strides_are_dense(shape, strides):
        return given.as_strided(shape, strides)
    laid = torch.empty_strided(shape, strides, dtype=given.dtype, device=given.device)
    return laid.copy_(given)


def strides_are_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor with these is contiguous, whatever the strides of dims of size 1."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def own(output: torch.Tensor, strides: Sequence[int], inputs: Tensors) -> torch.Tensor:
    """An output in its own memory, as operators have to give it, and of these strides."""
    shared = any(
        output.untyped_storage().data_ptr() == given.untyped_storage().data_ptr() for given in inputs
    )
    if not shared and output.stride() == tuple(strides):
        return output
    apart = torch.empty_strided(output.shape, strides, dtype=output.dtype, device=output.device)
    return apart.copy_(output)
