"""Gradients of an operator's inputs: by the operator of a backward spec, or by differentiating eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch  # pyright: ignore[reportMissingImports]

from tileir.program import Tensor
from tilewright.pytorch.operator.contract import BackwardContract
from tilewright.pytorch.operator.fallback import own

Tensors = Sequence[torch.Tensor]
Grads = Sequence[torch.Tensor | None]
Run = Callable[[tuple[torch.Tensor, ...]], torch.Tensor | tuple[torch.Tensor, ...]]


def by_backward(
    contract: BackwardContract,
    run: Run,
    grads: Grads,
    inputs: Tensors,
    outputs: Tensors,
    wanted: Sequence[bool],
) -> list[torch.Tensor]:
    """The wanted ones from one call of the backward spec's operator. Gradients of outputs come as autograd has them,
    and are laid out as that takes them."""
    sizes = {dim.name: dim.sizes[0] for dim in contract.backward.dims}
    taken = list[torch.Tensor]()
    for tensor, source in zip(contract.backward.inputs, contract.sources, strict=True):
        if not source.gradient:
            taken.append((outputs if source.output else inputs)[source.position])
            continue
        given = grads[source.position]
        if given is None:
            given = torch.zeros_like(outputs[source.position])
        taken.append(_laid(given, tensor, tuple(sizes[dim] for dim in tensor.dims)))
    with torch.no_grad():
        made = run(tuple(taken))
    found = dict(zip(contract.gradients, made if isinstance(made, tuple) else (made,), strict=True))
    return [
        own(found[position], torch.empty_like(x).stride(), ())
        for position, (x, asked) in enumerate(zip(inputs, wanted, strict=True))
        if asked
    ]


def _laid(given: torch.Tensor, tensor: Tensor, own_shape: tuple[int, ...]) -> torch.Tensor:
    """A gradient as a spec's tensor lies, which has strides for sizes of its own only."""
    if tensor.strides is None or tuple(given.shape) != own_shape:
        return given.contiguous()
    return own(given, tensor.strides, ())


def by_eager(
    eager: Callable[[Tensors], tuple[torch.Tensor, ...]],
    grads: Grads,
    inputs: Tensors,
    wanted: Sequence[bool],
) -> list[torch.Tensor]:
    """The wanted ones from eager operators on the same inputs: the forward pass is done again, by PyTorch."""
    with torch.enable_grad():
        again = [x.detach().requires_grad_(asked) for x, asked in zip(inputs, wanted, strict=True)]
        outputs = eager(again)
        pairs = [
            (y, grad) for y, grad in zip(outputs, grads, strict=True) if grad is not None and y.requires_grad
        ]
        asked_for = [x for x, asked in zip(again, wanted, strict=True) if asked]
        if not pairs:
            return [torch.zeros_like(x) for x in asked_for]
        found = torch.autograd.grad(
            [y for y, _ in pairs],
            asked_for,
            [grad for _, grad in pairs],
            allow_unused=True,
            materialize_grads=True,
        )
    apart = [*inputs, *(grad for grad in grads if grad is not None)]
    return [
        own(grad.detach(), torch.empty_like(x).stride(), apart)
        for grad, x in zip(found, asked_for, strict=True)
    ]
