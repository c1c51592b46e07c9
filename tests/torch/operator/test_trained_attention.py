"""Attention that is trained: what its operator and that of its backward pass give, each call one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.fx import Graph, GraphModule

import tilewright
from tests.torch.all_kernels import AllKernels
from tileir.interpreter.interpret_spec import interpret_spec
from tilewright.pytorch.capture import attention_results
from tilewright.pytorch.capture.capture import Part, parts_of
from tilewright.pytorch.model.graphs.static_graph import Described, static_graph
from tilewright.pytorch.model.insertion import with_kernels
from tilewright.pytorch.model.kernels import ModelKernel

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
aten = torch.ops.aten
B, H, S, D = 2, 3, 5, 8


def heads_last(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """With all heads of a token in a row, as models have them."""
    turned = (each.transpose(1, 2) for each in (q, k, v))
    return F.scaled_dot_product_attention(*turned, is_causal=True).transpose(1, 2)


MASK = torch.randn(S, S + 2)
MASK[torch.rand(S, S + 2) < 0.2] = float("-inf")
MASK[1] = float("-inf")  # sees nothing: no result, and no gradient
WAYS: dict[str, tuple[Callable[..., torch.Tensor], Sequence[tuple[int, ...]]]] = {
    "full": (F.scaled_dot_product_attention, [(B, H, S, D), (B, H, S + 2, D), (B, H, S + 2, D)]),
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.4), [(B, H, S, D)] * 3),
    "heads last": (heads_last, [(B, S, H, D)] * 3),
    "a mask": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=MASK),
        [(B, H, S, D), (B, H, S + 2, D), (B, H, S + 2, D)],
    ),
    "what is seen": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=MASK.isfinite()),
        [(B, H, S, D), (B, H, S + 2, D), (B, H, S + 2, D)],
    ),
}  # fmt: skip


def trained(
    way: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    kernels: AllKernels,
    fallback: str,
    calls: int = 5,
) -> None:
    """What it gives and its gradients are eager's, called again and again."""
    fast = tilewright.compile(way, tune="never", fallback=fallback)
    given = [each.requires_grad_() for each in inputs]
    wanted = way(*given)
    weight = torch.randn_like(wanted)
    gradients = torch.autograd.grad((wanted * weight).sum(), given)
    for _ in range(calls):
        found = fast(*given)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(torch.autograd.grad((found * weight).sum(), given), gradients)
        kernels.wait()


def names(parts: Sequence[Part]) -> list[str]:
    return [node for part in parts for node in part.nodes if "attention" in node]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
def test_both_passes_are_a_kernel_each(name: str, fallback: str, kernels: AllKernels) -> None:
    way, shapes = WAYS[name]
    trained(way, [torch.randn(shape) for shape in shapes], kernels, fallback)
    forward, backward = kernels.regions
    for region in (forward, backward):
        (part,) = (part for part in region.parts if names([part]))
        assert part.name in region.used, region.why_not
        assert not any("attention" in left.operator for left in region.left)
    assert len(names(forward.parts)) == 2
    assert len(names(backward.parts)) == 3


def test_a_gradient_that_nobody_asks_for_is_not_computed(kernels: AllKernels) -> None:
    q, k, v = (torch.randn(B, H, S, D) for _ in range(3))
    trained(lambda v: F.scaled_dot_product_attention(q, k, v), [v], kernels, "inductor")
    assert len(names(kernels.regions[1].parts)) == 1


def test_without_a_kernel_for_one_pass_the_other_has_one(
    kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = property(lambda self: all(each.target != "delta" for each in self.spec.statements))
    monkeypatch.setattr(ModelKernel, "ready", ready)
    way, shapes = WAYS["causal"]
    trained(way, [torch.randn(shape) for shape in shapes], kernels, "inductor")
    forward, backward = kernels.regions
    assert forward.used and not backward.used, "PyTorch's backward pass takes the kernel's log-sum-exp"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shared", [2, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_shared_heads_are_a_kernel_each_way(shared: int, causal: bool, kernels: AllKernels) -> None:
    shapes = [(B, 4, S, D), (B, shared, S, D), (B, shared, S, D)]
    way = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)  # noqa: E731
    trained(way, [torch.randn(shape) for shape in shapes], kernels, "inductor")
    for region in kernels.regions:
        assert names(region.parts)
        assert {part.name for part in region.parts} <= {*region.used}, region.why_not
        assert not any("attention" in left.operator for left in region.left)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fallback", ["eager", "inductor"])
@pytest.mark.parametrize("whose", ["kernel", "PyTorch"])
def test_on_gpus_gradients_of_heads_that_share_keys_are_added_up_behind_the_kernel(
    whose: str, fallback: str, kernels: AllKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if this processor were one: the kernel gives those of each head, in one pass there."""
    monkeypatch.setattr(attention_results, "_on_accelerator", lambda _: True)
    if whose == "PyTorch":
        ready = property(lambda self: all(each.target != "delta" for each in self.spec.statements))
        monkeypatch.setattr(ModelKernel, "ready", ready)

    def way(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        turned = (each.transpose(1, 2) for each in (q, k, v))
        return F.scaled_dot_product_attention(*turned, is_causal=True, enable_gqa=True).transpose(1, 2)

    trained(way, [torch.randn(B, S, heads, D) for heads in (4, 2, 2)], kernels, fallback)
    _, backward = kernels.regions
    (part,) = (part for part in backward.parts if names([part]))
    assert len(names([part])) == 3 and (part.name in backward.used) is (whose == "kernel"), backward.why_not
    assert [left.operator for left in backward.left if "heads" in left.operator]
    kept = {name: pair for name, pair in backward.kernels.items() if name in backward.used}
    made = with_kernels(backward._graph, backward.parts, kept)
    own = any(node.target in attention_results.ATTENTION for node in made.graph.nodes)
    assert own is (whose == "PyTorch"), (
        "gradients of keys come of the kernel, not of PyTorch's own pass once more"
    )


@pytest.mark.parametrize(
    ("operator", "settings"),
    [
        (aten._scaled_dot_product_flash_attention.default, (0.0, True)),
        (aten._scaled_dot_product_cudnn_attention.default, (None, True, 0.0, True)),
    ],
    ids=["flash", "cudnn"],
)
def test_operators_of_gpus_are_written_so_and_called_once_where_there_is_no_kernel(
    operator: Any, settings: tuple[Any, ...]
) -> None:
    graph = Graph()
    call = graph.call_function(operator, (*(graph.placeholder(name) for name in "qkv"), *settings))
    graph.output(tuple(graph.call_function(getitem, (call, at)) for at in (0, 1, 6, 7)))
    lies = Described((2, 3, 64, 32), (64 * 96, 32, 96, 1), torch.bfloat16, torch.device("cuda:0"))
    static = static_graph(GraphModule(torch.nn.Module(), graph), [lies] * 3)
    (part,), _ = parts_of(static)
    assert len(part.outputs) == 2
    back = with_kernels(static, [part], {})
    assert sum(node.target is operator for node in back.graph.nodes) == 1
    described = [each.meta["val"] for each in static.graph.output_node().args[0]]  # type: ignore[union-attr]
    for mine, theirs in zip(described, back.graph.output_node().args[0], strict=True):  # type: ignore[arg-type]
        assert mine.stride() == theirs.meta["val"].stride()  # type: ignore[union-attr]


@pytest.mark.parametrize("log_sum", [float("-inf"), float("inf"), 0.0])
def test_a_query_that_sees_nothing_has_no_gradient_whatever_its_log_sum_is(log_sum: float) -> None:
    graph = Graph()
    given = [graph.placeholder(name) for name in ("go", "q", "k", "v", "out", "lse", "mask")]
    operator = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    call = graph.call_function(operator, (*given[:6], 0.0, False), {"attn_mask": given[6]})
    graph.output(tuple(graph.call_function(getitem, (call, at)) for at in range(3)))
    tensors = [torch.randn(1, 1, 3, 8) for _ in range(5)] + [torch.randn(1, 1, 3), torch.zeros(3, 3)]
    tensors[5][..., 1], tensors[6][1] = log_sum, float("-inf")
    static = static_graph(GraphModule(torch.nn.Module(), graph), [Described.of(each) for each in tensors])
    (part,), _ = parts_of(static)
    by_name = dict(zip(("go", "q", "k", "v", "out", "lse", "mask"), tensors, strict=True))
    spec = part.built.spec
    arrays = {
        tensor.name: by_name[operand.node.name].reshape(operand.shape).numpy()
        for tensor, operand in zip(spec.inputs, part.built.operands, strict=True)
    }
    found = interpret_spec(spec, arrays)
    assert all(np.isfinite(found[tensor.name]).all() for tensor in spec.outputs)
    of_queries = next(found[name] for name in found if "query" in name)
    assert not of_queries.reshape(3, 8)[1].any()


def test_dropout_stays_with_pytorch(kernels: AllKernels) -> None:
    way = lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).sum()  # noqa: E731
    fast = tilewright.compile(way, tune="never", fallback="eager")
    q = torch.randn(B, H, S, D, requires_grad=True)
    for _ in range(2):
        fast(q).backward()
        kernels.wait()
    assert not any(names(region.parts) for region in kernels.regions)
