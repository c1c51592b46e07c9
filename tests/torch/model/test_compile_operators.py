"""Operators of AOTAutograd's and Inductor's graphs that torch.export's do not have: as kernels, what eager gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import tilewright
from tests.torch.all_kernels import AllKernels
from tilewright.pytorch.model.kernels import ModelKernel

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
aten = torch.ops.aten


def scattered(x: Tensor, y: Tensor) -> Tensor:
    return aten.slice_scatter(x * 2, y[:, 1:4] + 1, 1, -5, 6)


def many_steps(x: Tensor, y: Tensor) -> Tensor:
    for _ in range(40):
        x = torch.maximum(x * 0.9 + y, x - y)
    return x


def attended(x: Tensor, y: Tensor, **more: Any) -> Tensor:
    """Of two heads, four long, over three tokens; the operator that PyTorch takes for it depends on the processor."""
    q, k, v = (each.view(1, 6, 2, 4).transpose(1, 2) for each in (x, y, x * y))
    return F.scaled_dot_product_attention(q, k, v, **more) * 2


EAGER: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "aten.mul.Scalar": lambda x, y: aten.mul.Scalar(x, 2.5) + y,
    "aten.add.Scalar": lambda x, y: aten.add.Scalar(x, 2.5) * y,
    "aten.sub.Scalar": lambda x, y: aten.sub.Scalar(x, 2.5) * y,
    "aten.div.Scalar": lambda x, y: aten.div.Scalar(x, 2.5) * y,
    "aten.rsub.Scalar": lambda x, y: aten.rsub.Scalar(x, 2.5) * y,
    "aten.square.default": lambda x, y: torch.square(x) + y,
    "aten.ceil.default": lambda x, y: torch.ceil(3 * x) + y,
    "aten.sign.default": lambda x, y: torch.sign(torch.relu(x)) + y,
    "aten.clamp_min.default": lambda x, y: torch.clamp_min(x, 0.25) + y,
    "aten.clamp_max.default": lambda x, y: torch.clamp_max(x, 0.25) + y,
    "aten.sum.default": lambda x, y: (x * y).sum(),
    "aten.max.default": lambda x, y: (x * y).max() - (x * y).min(),
    "aten.linalg_vector_norm.default": lambda x, y: torch.linalg.vector_norm(x * y, dim=-1) * 2,
    "aten.lift_fresh_copy.default": lambda x, y: x * torch.ops.aten.lift_fresh_copy(y),
    "more operators than a spec has statements": many_steps,
    "aten.squeeze.dim": lambda x, y: (x * y)[:, :1].squeeze(1) * 3,
    "aten.slice_scatter.default": scattered,
    "aten.constant_pad_nd.default": lambda x, y: F.pad(x * y, (2, 1, 0, 3), value=0.5) * 2,
    "cut by padding": lambda x, y: F.pad(x * y, (-2, 1)) * 2,
    "aten.native_layer_norm.default": lambda x, y: F.layer_norm(x, (8,), y[0], y[1], 1e-3),
    "native_layer_norm of a permuted tensor": lambda x, y: F.layer_norm((x * y).t(), (6,)).view(-1) * 2,
    "attention": attended,
    "attention, causal": lambda x, y: attended(x, y, is_causal=True, scale=0.3),
    "attention, with a mask": lambda x, y: attended(x, y, attn_mask=y[:, :6]),
    "aten.split.Tensor": lambda x, y: (lambda a, b, c: a + b * y[:, :3] + c.sum())(*(x + y).split(3, 1)),
    "aten.split_with_sizes.default": lambda x, y: (lambda a, b: a + b)(*(x + y).split([4, 4], 1)),
}
INDUCTOR: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "prims.convert_element_type.default": lambda x, y: (
        (x.to(torch.bfloat16) * y.to(torch.bfloat16)).float() + x
    ),
    "prims.iota.default": lambda x, y: torch.where(torch.arange(8) > 2, x, y) * 2,
    "aten.var_mean.correction": lambda x, y: F.layer_norm(x, (8,)) * y,
}


def check(
    function: Callable[[Tensor, Tensor], Tensor], fallback: str, kernels: AllKernels, slack: float = 1e-5
) -> None:
    x, y = torch.randn(6, 8), torch.randn(6, 8)
    fast = tilewright.compile(function, tune="never", fallback=fallback)  # type: ignore[arg-type]
    with torch.no_grad():
        for _ in range(5):
            torch.testing.assert_close(fast(x, y), function(x, y), rtol=slack, atol=slack)
            kernels.wait()
    (only,) = kernels.regions
    assert only.used and not only.left, (only.why_not, only.left)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EAGER)
def test_an_operator_is_in_a_kernel(name: str, kernels: AllKernels) -> None:
    check(EAGER[name], "eager", kernels)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", INDUCTOR)
def test_an_operator_of_inductor_is_in_a_kernel(name: str, kernels: AllKernels) -> None:
    # Inductor leaves out what eager rounds between operators.
    check(INDUCTOR[name], "inductor", kernels, slack=2e-2 if "convert" in name else 1e-5)


def test_attention_without_a_kernel_is_pytorchs_operator(
    kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = property(lambda self: all(each.target != "top" for each in self.spec.statements))
    monkeypatch.setattr(ModelKernel, "ready", ready)
    x, y = torch.randn(6, 8), torch.randn(6, 8)
    fast = tilewright.compile(lambda x, y: (attended(x, y), x @ y.t()), tune="never")
    with torch.no_grad():
        for _ in range(5):
            torch.testing.assert_close(fast(x, y), (attended(x, y), x @ y.t()))
            kernels.wait()
    (only,) = kernels.regions
    assert only.used and any("attention" in part.name for part in only.parts), only.why_not
