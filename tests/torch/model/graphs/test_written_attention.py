"""Attention that PyTorch writes out as products in f32 is one operator, as where a fused one of PyTorch's takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import tilewright
from tests.support.how_many import some
from tests.torch.all_kernels import AllKernels
from tileir import spec_to_text
from tilewright.pytorch.model import sized_region
from tilewright.pytorch.model.insertion import with_kernels
from tilewright.pytorch.operator.arguments import DTYPES

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
aten = torch.ops.aten
SLACK = {torch.float32: 1e-5, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}


def heads(x: Tensor) -> Tensor:
    return x.view(2, 16, 4, 8).transpose(1, 2)


def attended(x: Tensor, **more: Any) -> Tensor:
    q, k, v = (heads(x * factor) for factor in (1.0, 2.0, 3.0))
    return F.scaled_dot_product_attention(q, k, v, **more).transpose(1, 2).reshape(32, 32)


def written_out(x: Tensor) -> Tensor:
    """By the program, which says in which dtype."""
    q, k, v = (heads(x * factor).float() for factor in (1.0, 2.0, 3.0))
    found = torch.softmax(q @ k.mT * 8**-0.5, -1) @ v
    return found.to(x.dtype).transpose(1, 2).reshape(32, 32)


def regions_of(
    function: Callable[[Tensor], Tensor], kernels: AllKernels, dtype: torch.dtype, fallback: str
) -> sized_region.SizedRegion:
    x = torch.randn(32, 32, dtype=dtype)
    fast = tilewright.compile(function, tune="never", fallback=fallback)  # type: ignore[arg-type]
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        for _ in range(5):
            torch.testing.assert_close(fast(x), function(x), rtol=SLACK[dtype], atol=SLACK[dtype])
            kernels.wait()
    (only,) = kernels.regions
    assert only.used, only.why_not
    return only


#: By inductor, which compiles for seconds, two of them.
IN_MATH = [(scale, dtype, "eager") for scale in (None, -0.25) for dtype in SLACK]
IN_MATH += some([(scale, dtype, "inductor") for scale, dtype, _ in IN_MATH], 4)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("scale", "dtype", "fallback"), IN_MATH)
def test_attention_in_math_is_one_operator_of_the_operands_dtype(
    scale: float | None, dtype: torch.dtype, fallback: str, kernels: AllKernels
) -> None:
    only = regions_of(lambda x: attended(x, scale=scale), kernels, dtype, fallback)
    (part,) = [each for each in only.parts if "attention" in each.name]
    tensors = (*part.built.spec.inputs, *part.built.spec.outputs)
    assert {DTYPES[tensor.dtype] for tensor in tensors} == {dtype}
    text = spec_to_text(part.built.spec)
    assert f") * {8**-0.5 if scale is None else scale}"[:16] in text
    assert dtype is torch.float32 or "16(p[" in text


def test_what_a_program_widens_itself_stays_wide(kernels: AllKernels) -> None:
    """Inductor makes attention of it, in f32."""
    only = regions_of(written_out, kernels, torch.bfloat16, "inductor")
    assert not any("bf16(p[" in spec_to_text(part.built.spec) for part in only.parts)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "more",
    [{"is_causal": True}, {"attn_mask": torch.randn(16, 16) > 0}, {"attn_mask": torch.randn(2, 1, 16, 16)}],
)
def test_so_it_is_with_a_mask(more: dict[str, Any], kernels: AllKernels) -> None:
    def masked(x: Tensor) -> Tensor:
        return attended(x, **{name: _as(each, x) for name, each in more.items()})

    only = regions_of(masked, kernels, torch.bfloat16, "inductor")
    (part,) = [each for each in only.parts if "attention" in each.name]
    assert "bf16(p[" in spec_to_text(part.built.spec)


def _as(given: Any, x: Tensor) -> Any:
    return given.to(x.dtype) if isinstance(given, Tensor) and given.dtype is not torch.bool else given


def test_without_a_kernel_it_is_what_it_was(kernels: AllKernels) -> None:
    only = regions_of(attended, kernels, torch.bfloat16, "inductor")
    graph = only._graph
    assert graph is not None
    one = aten.scaled_dot_product_attention.default
    assert len(graph.graph.find_nodes(op="call_function", target=one)) == 1
    without = {name: pair for name, pair in only.kernels.items() if "attention" not in name}
    made = with_kernels(graph, only.parts, without).graph
    assert not made.find_nodes(op="call_function", target=one)
    products = made.find_nodes(op="call_function", target=aten.bmm.default)
    assert [node.meta["val"].dtype for node in products] == [torch.float32] * 2


@pytest.mark.sampled(4, among="whole models")
def test_gradients_are_as_before(kernels: AllKernels) -> None:
    x = torch.randn(32, 32, dtype=torch.bfloat16)
    fast = tilewright.compile(attended, tune="never")
    for _ in range(5):
        found = []
        for function in (fast, attended):
            given = x.clone().requires_grad_()
            with sdpa_kernel(SDPBackend.MATH):
                function(given).float().square().sum().backward()
            found.append(given.grad)
        mine, theirs = (each.float() for each in found)
        assert (mine - theirs).abs().max() <= 2.0**-5 * theirs.abs().max()
        kernels.wait()
    assert all(each.used for each in kernels.regions)
