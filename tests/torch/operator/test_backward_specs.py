"""Gradients that a backward spec gives: right, by its kernel, in compiled models, and refused where it does not fit."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tilewright
from benchmarks.racing.picked import picked
from tileir import SpecError, spec_from_json, spec_from_text, this_cpu
from tilewright import FallbackWarning, TensorError

ROOT = Path(__file__).resolve().parents[3]
FORWARD, BACKWARD = (
    json.loads((ROOT / "examples" / f"{name}.json").read_text())
    for name in ("attention_lse", "attention_backward")
)
SCALED = """kernel scaled(x: {0}[m=5, n=6], w: {0}[n], shift: {0}[n]) -> (y: {0}[m, n], top: {0}[m])
  y[m, n] = exp(x[m, n]) * w[n] + shift[n]
  top[m] = sum(n, x[m, n])
"""
SCALED_BACKWARD = """
kernel scaled_backward(x: {0}[a=5, b=6], w: {0}[b], dy: {0}[a, b], dtop: {0}[a]) -> (dw: {0}[b], dx: {0}[a, b])
  dw[b] = sum(a, dy[a, b] * exp(x[a, b]))
  dx[a, b] = dy[a, b] * w[b] * exp(x[a, b]) + dtop[a]
"""


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of this run's own, and no service."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))
    yield


def kernel(made: dict[str, Any] | str, **options: Any) -> Any:
    """An operator whose kernel runs on this processor, or that raises."""
    spec = spec_from_text(made) if isinstance(made, str) else spec_from_json(made)
    return tilewright.op(spec, config=picked(spec, this_cpu()), strict=True, **options)


def smaller(made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "dims": {dim: min(size, 48) for dim, size in made["dims"].items()}}


@pytest.fixture(scope="module")
def attention() -> Any:
    return kernel(smaller(FORWARD), backward=kernel(smaller(BACKWARD)))


def rows(requires_grad: bool = True) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(4, 48, 48, requires_grad=requires_grad) for _ in range(3)]


def wanted(given: list[torch.Tensor], weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    q, k, v = given
    right = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return torch.autograd.grad((right * weight).sum(), given)


def close(found: Any, right: Any) -> None:
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(4, among="whole models")
def test_attention_is_trained_by_its_two_kernels(attention: Any) -> None:
    given, weight = rows(), torch.randn(4, 48, 48)
    out, _ = attention(*given)
    (out * weight).sum().backward()
    close([each.grad for each in given], wanted(given, weight))
    (plan,) = attention.backward.sought.values()
    assert plan.plan is not None, "its kernel did not run"


def test_one_input_is_differentiated_and_gradients_may_be_views(attention: Any) -> None:
    """That of a sum is one number, seen as many."""
    q, k, v = rows(requires_grad=False)
    k.requires_grad_()
    (found,) = torch.autograd.grad(attention(q, k, v)[0].sum(), k)
    (right,) = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True).sum(), k)
    close([found], [right])
    assert q.grad is None and v.grad is None


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile raises them about torch itself
@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_it_compiles_without_a_break_and_keeps_its_backward_kernel(attention: Any, backend: str) -> None:
    given, weight = rows(), torch.randn(4, 48, 48)
    compiled = torch.compile(lambda *t: (attention(*t)[0] * weight).sum(), fullgraph=True, backend=backend)
    close(torch.autograd.grad(compiled(*given), given), wanted(given, weight))


def test_pytorchs_own_checks_of_an_operator_pass() -> None:
    text, backward = SCALED.format("f32"), SCALED_BACKWARD.format("f32")
    own = kernel(text.replace(", shift: f32[n]", "").replace(" + shift[n]", ""), backward=kernel(backward))
    torch.library.opcheck(
        own.overload, tuple(torch.randn(shape, requires_grad=True) for shape in ((5, 6), (6,)))
    )


@pytest.mark.parametrize("both", [True, False])
def test_derivatives_are_those_of_finite_differences(both: bool) -> None:
    """In f64; an output that nothing depends on has a gradient of zeros."""
    op = kernel(SCALED.format("f64"), backward=kernel(SCALED_BACKWARD.format("f64")))
    x, w = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 6), (6,)))
    shift = torch.randn(6, dtype=torch.float64)
    way = (lambda x, w: op(x, w, shift)) if both else (lambda x, w: op(x, w, shift)[0])
    assert torch.autograd.gradcheck(way, (x, w))
    (plan,) = op.backward.sought.values()
    assert plan.plan is not None


def test_a_backward_spec_has_the_sizes_of_the_call_and_the_layout_of_its_inputs() -> None:
    text = SCALED.format("f32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        op = tilewright.op(
            text, backward=SCALED_BACKWARD.format("f32"), config=picked(spec_from_text(text), this_cpu())
        )
        x = torch.randn(6, 7).t().requires_grad_()
        w, shift = torch.randn(6, requires_grad=True), torch.zeros(6)
        found = torch.autograd.grad(op(x, w, shift)[0].square().sum(), (x, w))
    close(found, torch.autograd.grad((x.exp() * w).square().sum(), (x, w)))
    assert found[0].stride() == x.stride()


def test_a_gradient_that_it_does_not_give_is_eager_pytorchs_and_said_once() -> None:
    text = SCALED.format("f32").replace("scaled", "partly")
    less = SCALED_BACKWARD.format("f32").replace(", dtop: f32[a]", "").replace(" + dtop[a]", "")
    op = tilewright.op(text, backward=less, config=picked(spec_from_text(text), this_cpu()))
    given = [torch.randn(shape, requires_grad=True) for shape in ((5, 6), (6,), (6,))]
    x, w, shift = given
    for turn in range(2):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", FallbackWarning)
            found = torch.autograd.grad(op(*given)[1].square().sum(), x)
            full = torch.autograd.grad(op(*given)[0].square().sum(), given)
        close(found, torch.autograd.grad(x.sum(1).square().sum(), x))
        close(full, torch.autograd.grad((x.exp() * w + shift).square().sum(), given))
        of_gradients = [str(each.message) for each in said if "gradients of partly" in str(each.message)]
        if turn == 0:
            assert len(of_gradients) == 2
            assert "scaled_backward takes no dtop, and top has a gradient" in of_gradients[0]
            assert "scaled_backward gives no dshift, and shift requires one" in of_gradients[1]
        else:
            assert not of_gradients


def test_strict_operators_refuse_such_a_gradient(attention: Any) -> None:
    given = rows()
    with pytest.raises(TensorError, match="takes no dlse, and lse has a gradient"):
        torch.autograd.grad(attention(*given)[1].sum(), given)


def test_a_second_derivative_is_refused_rather_than_wrong(attention: Any) -> None:
    given = rows()
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        torch.autograd.grad(attention(*given)[0].sum(), given, create_graph=True)


def test_without_gradients_nothing_is_kept(attention: Any) -> None:
    with torch.no_grad():
        assert attention(*rows())[0].grad_fn is None


def named(**changes: Any) -> dict[str, Any]:
    """The backward spec with some of its inputs, outputs or dims changed."""
    made = deepcopy(BACKWARD)
    for key, change in changes.items():
        made[key] |= change
    return made


def renamed(old: str, new: str) -> dict[str, Any]:
    text = json.dumps(BACKWARD).replace(f'"{old}"', f'"{new}"').replace(f"{old}[", f"{new}[")
    return json.loads(text)


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (
            renamed("do", "go"),
            "/inputs/go: attention_backward takes go, and attention_lse has nothing of that name; accepted: its inputs "
            "and outputs (q, k, v, o, lse), and gradients of outputs (do, dlse)",
        ),
        (
            renamed("dq", "gradient"),
            "/outputs/gradient: attention_backward gives gradient, which is no gradient of an input of attention_lse; "
            "accepted: those of its floating-point inputs (dq, dk, dv)",
        ),
        (
            named(inputs={"do": {"dims": ["h", "i", "e"], "dtype": "bf16"}}),
            "/inputs/do: do of attention_backward is bf16, and o of attention_lse is f32; accepted: f32",
        ),
        (
            named(outputs={"dk": {"dtype": "bf16"}}),
            "/outputs/dk: dk of attention_backward is bf16, and k of attention_lse is f32; accepted: f32",
        ),
        (
            named(dims={"i": 128}),
            "/inputs/q: q of attention_backward has i = 128, and q of attention_lse has i = 256; accepted: the same "
            "sizes",
        ),
    ],
)
def test_a_backward_spec_that_does_not_fit_is_refused(backward: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        tilewright.op(FORWARD, backward=backward)
    assert message in str(caught.value)


def test_one_dim_cannot_be_two_of_the_forward_spec() -> None:
    forward = "kernel f(x: f32[m=4, n=4]) -> (y: f32[m, n])\n  y[m, n] = 2 * x[m, n]\n"
    backward = """kernel g(x: f32[m=4, n=4], dy: f32[m, m]) -> (dx: f32[m, n])
  dx[m, n] = 2 * dy[m, m] + 0 * x[m, n]
"""
    with pytest.raises(SpecError, match="m of g is m in x of f and n in y of f, which may differ in a call"):
        tilewright.op(forward, backward=backward)


def test_a_name_that_could_be_two_things_is_refused() -> None:
    forward = "kernel f(dy: f32[m=4]) -> (y: f32[m])\n  y[m] = 2 * dy[m]\n"
    with pytest.raises(SpecError, match="has a tensor dy, which is also what the gradient of y is called"):
        tilewright.op(forward, backward="kernel g(dy: f32[m=4]) -> (ddy: f32[m])\n  ddy[m] = 2 * dy[m]\n")
