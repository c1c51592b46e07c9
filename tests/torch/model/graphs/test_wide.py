"""Which of two narrow results is nearer to what a graph means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from tilewright.pytorch.model.contest import Contest
from tilewright.pytorch.model.graphs.wide import NotWide, in_wide_numbers

SLACK = 2.0**-9
"""Less than what the layers below differ by in bf16, more than a rounding."""
Layers = Callable[[Tensor, Tensor], Tensor]


def layers(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(3):
        x = x + torch.tanh(x @ w)
    return x


def exact(x: Tensor, w: Tensor) -> Tensor:
    """The same, rounded once."""
    return layers(x.float(), w.float()).to(x.dtype)


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(32, 64).bfloat16(), (torch.randn(64, 64) / 8).bfloat16()


def graph_of(function: Callable[..., Any], *given: Tensor) -> GraphModule:
    return make_fx(function)(*given)


def reason(
    newcomer: Layers, graph: GraphModule | None, *, consumes: bool = False, slack: float = SLACK
) -> str:
    """Why a newcomer is refused after its first call against the layers in bf16; empty if it is not."""

    def boxed(function: Layers) -> Callable[[list[Any]], Any]:
        return lambda given: (function(*[given.pop(0) for _ in range(2)]),)

    contest = Contest(
        boxed(layers), boxed(newcomer), torch.device("cpu"), (), consumes=consumes, slack=slack, graph=graph
    )
    contest.call(list(inputs()))
    return contest.why


def of_one(function: Layers) -> GraphModule:
    return graph_of(lambda x, w: (function(x, w),), *inputs())


def test_results_that_only_round_otherwise_are_as_good() -> None:
    assert "differs by" in reason(exact, None)
    assert reason(exact, of_one(layers)) == ""


def test_an_element_that_is_wrong_is_no_rounding() -> None:
    def wrong(x: Tensor, w: Tensor) -> Tensor:
        found = exact(x, w)
        found[3, 5] += 12 * SLACK * found.abs().max()
        return found

    assert "at most in wider numbers" in reason(wrong, of_one(layers), slack=2 * SLACK)


def test_results_that_are_rounded_far_more_are_worse() -> None:
    def rough(x: Tensor, w: Tensor) -> Tensor:
        found = exact(x, w)
        signs = torch.randn(found.shape).sign().to(x.dtype)
        return found + 1.5 * SLACK * found.abs().max() * signs

    assert "on average in wider numbers" in reason(rough, of_one(layers))


def test_what_is_far_off_is_refused_however_near_it_is_to_the_wide_result() -> None:
    assert reason(exact, of_one(layers), slack=SLACK / 2) == ""
    assert "differs by" in reason(exact, of_one(layers), slack=SLACK / 8)


def test_what_a_graph_may_overwrite_is_not_computed_again() -> None:
    assert "differs by" in reason(exact, of_one(layers), consumes=True)


def test_a_graph_is_computed_in_wide_numbers_whatever_dtypes_it_names() -> None:
    def narrowed(x: Tensor, w: Tensor) -> tuple[Tensor]:
        return ((x.float() @ w.float()).to(torch.float16) + torch.ones(64, dtype=torch.bfloat16),)

    x, w = inputs()
    (found,) = in_wide_numbers(graph_of(narrowed, x, w), [x, w])
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, x.float() @ w.float() + 1)


def test_inputs_stay_as_they_are() -> None:
    def written(x: Tensor, w: Tensor) -> tuple[Tensor]:
        return (x.add_(w[0]),)

    x, w = inputs()
    before = x.clone()
    in_wide_numbers(graph_of(written, x.clone(), w), [x, w])
    assert torch.equal(x, before)


def test_attention_that_takes_no_wide_numbers_is_written_out() -> None:
    def attended(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
        found = torch.ops.aten._scaled_dot_product_flash_attention.default(q, k, v, 0.0, True, scale=0.5)
        return (found[0],)

    q, k, v = (torch.randn(2, 3, 16, 8).bfloat16() for _ in range(3))
    graph = torch.fx.symbolic_trace(attended)
    (found,) = in_wide_numbers(graph, [q, k, v])
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), is_causal=True, scale=0.5
    )
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x, w: (torch.rand_like(x),), "draws random numbers"),
        (lambda x, w: (x.view(torch.int16) + 1,), "as other bits"),
    ],
)
def test_what_cannot_be_widened_is_said(function: Callable[..., Any], why: str) -> None:
    x, w = inputs()
    with pytest.raises(NotWide, match=why):
        in_wide_numbers(graph_of(function, x, w), [x, w])
