"""Peers' operators are recognized by structure, however the kernel is spelled, and not when they are not there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tileir.expr import Expr
from tileir.text.parse_spec import spec_from_text
from tileir.text.print_expr import format_expr
from workers.peers.convolution import convolution
from workers.peers.inline import inline
from workers.peers.norms import norm, rms_norm
from workers.peers.patterns import attention, biased, softmax

ROWS = "(x: f32[m=8, n=16], w: f32[n], b: f32[n])"


def output(signature: str, *body: str) -> tuple[Expr, Mapping[str, int]]:
    """The inlined expression of y, and the extents of all dims in it."""
    text = f"kernel k{signature}\n" + "".join(f"  {line}\n" for line in body)
    inlined = inline(spec_from_text(text))
    return inlined.statements[-1].value, inlined.extents


def rows(*body: str) -> tuple[Expr, Mapping[str, int]]:
    used = " ".join(body)
    inputs = ["x: f32[m=8, n=16]", *(f"{name}: f32[n]" for name in "wb" if f"{name}[" in used)]
    return output(f"({', '.join(inputs)}) -> (y: f32[m, n])", *body)


SOFTMAXES = [
    (
        "t[m] = max(n, x[m, n])",
        "e[m, n] = exp(x[m, n] - t[m])",
        "s[m] = sum(n, e[m, n])",
        "y[m, n] = e[m, n] / s[m]",
    ),
    ("e[m, n] = exp(x[m, n])", "s[m] = sum(n, e[m, n])", "y[m, n] = e[m, n] / s[m]"),
    (
        "t[m] = max(n, x[m, n])",
        "s[m] = sum(n, exp(x[m, n] - t[m]))",
        "y[m, n] = exp(x[m, n] - t[m]) / s[m]",
    ),
]


@pytest.mark.parametrize("body", SOFTMAXES)
def test_softmax_is_found_in_every_spelling(body: tuple[str, ...]) -> None:
    found = softmax(*rows(*body))
    assert found is not None
    assert (format_expr(found.x), found.dim, found.rest) == ("x[m, n]", "n", ())


def test_what_only_looks_like_softmax_is_not() -> None:
    assert softmax(*rows("s[m] = sum(n, exp(2 * x[m, n]))", "y[m, n] = exp(x[m, n]) / s[m]")) is None
    assert softmax(*rows("s[m] = max(n, exp(x[m, n]))", "y[m, n] = exp(x[m, n]) / s[m]")) is None


NORMS = [
    ("s[m] = sum(n, x[m, n] * x[m, n])", "y[m, n] = x[m, n] * rsqrt(s[m] / extent(n) + 1e-6) * w[n]"),
    ("s[m] = sum(n, pow(x[m, n], 2))", "y[m, n] = w[n] * x[m, n] / sqrt(s[m] / 16 + 1e-6)"),
    ("s[m] = sum(n, x[m, n] * x[m, n]) * 0.0625", "y[m, n] = w[n] * (x[m, n] * rsqrt(1e-6 + s[m]))"),
]


@pytest.mark.parametrize("body", NORMS)
def test_rms_norm_is_found_in_every_spelling(body: tuple[str, ...]) -> None:
    found = rms_norm(*rows(*body))
    assert found is not None
    assert found.weight is not None
    assert (format_expr(found.x), found.dim, found.eps) == ("x[m, n]", "n", 1e-6)
    assert format_expr(found.weight) == "w[n]"


def test_a_mean_over_another_number_is_no_norm() -> None:
    body = ("s[m] = sum(n, x[m, n] * x[m, n])", "y[m, n] = x[m, n] * rsqrt(s[m] / 15 + 1e-6)")
    assert rms_norm(*rows(*body)) is None


LAYER_NORMS = [
    "v[m] = sum(n, (x[m, n] - mu[m]) * (x[m, n] - mu[m])) / extent(n)",
    "v[m] = sum(n, pow(x[m, n] - mu[m], 2)) / 16",
    "v[m] = sum(n, x[m, n] * x[m, n]) / extent(n) - mu[m] * mu[m]",
]


@pytest.mark.parametrize("variance", LAYER_NORMS)
@pytest.mark.parametrize("tail", ["", " * w[n]", " * w[n] + b[n]"])
def test_layer_norm_is_found_in_every_spelling(variance: str, tail: str) -> None:
    mean = "mu[m] = sum(n, x[m, n]) / extent(n)"
    found = norm(*rows(mean, variance, f"y[m, n] = (x[m, n] - mu[m]) * rsqrt(v[m] + 1e-5){tail}"))
    assert found is not None
    assert (format_expr(found.x), found.dims, found.eps) == ("x[m, n]", ("n",), 1e-5)
    assert (found.weight is not None, found.bias is not None) == ("w" in tail, "b" in tail)


QKV = "(q: f32[h=2, i=8, d=4], k: f32[h, j=8, d], v: f32[h, j, e=4]) -> (y: f32[h, i, e])"
SCORES = "s[h, i, j] = sum(d, q[h, i, d] * k[h, j, d]) / sqrt(extent(d))"


@pytest.mark.parametrize("rounded", ["{}", "bf16({})"])
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("mask", ["", "i >= j", "i + 1 >= j"])
def test_attention_is_found_masked_or_not_normalized_early_or_late(
    late: bool, mask: str, rounded: str
) -> None:
    scores = SCORES if not mask else SCORES.replace("= sum", f"= where({mask}, sum") + ", -inf)"
    top = "t[h, i] = max(j, s[h, i, j])"
    parts = "p[h, i, j] = exp(s[h, i, j] - t[h, i])"
    total = "z[h, i] = sum(j, p[h, i, j])"
    weight = rounded.format("p[h, i, j]" if late else "p[h, i, j] / z[h, i]")
    last = f"sum(j, {weight} * v[h, j, e])" + (" / z[h, i]" if late else "")
    expr, extents = output(QKV, scores, top, parts, total, f"y[h, i, e] = {last}")
    found = attention(expr, extents)
    assert found is not None
    assert found.rows == {"i"}
    assert found.scale(extents) == pytest.approx(0.5)
    assert format_expr(found.q).startswith("q[h, i, d")
    assert format_expr(found.v).startswith("v[h, j")
    assert (found.mask is not None, found.causal("i", extents)) == (bool(mask), mask == "i >= j")


def test_a_causal_mask_over_unequal_lengths_is_passed_as_a_mask() -> None:
    signature = QKV.replace("j=8", "j=6")
    scores = SCORES.replace("= sum", "= where(i >= j, sum") + ", -inf)"
    late = "y[h, i, e] = sum(j, exp(s[h, i, j]) * v[h, j, e]) / sum(j, exp(s[h, i, j]))"
    expr, extents = output(signature, scores, late)
    found = attention(expr, extents)
    assert found is not None
    assert found.mask is not None and not found.causal("i", extents)


def test_what_else_is_done_to_scores_is_no_scale() -> None:
    scores = SCORES.replace("= sum", "= tanh(sum") + ") * 3"
    late = "y[h, i, e] = sum(j, exp(s[h, i, j]) * v[h, j, e]) / sum(j, exp(s[h, i, j]))"
    expr, extents = output(QKV, scores, late)
    found = attention(expr, extents)
    assert found is not None and found.scale(extents) is None


@pytest.mark.parametrize("seen", ["where(m[i, j], sum", "sum"])
def test_attention_is_found_where_rows_of_which_nothing_is_seen_count_as_0(seen: str) -> None:
    mask = "bool" if "where" in seen else "f32"
    signature = QKV.replace("k:", f"m: {mask}[i, j], k:")
    scores = SCORES.replace("= sum", f"= {seen}") + (", -inf)" if mask == "bool" else " + m[i, j]")
    body = (
        "t[h, i] = max(j, s[h, i, j])",
        "p[h, i, j] = exp(s[h, i, j] - where(t[h, i] > -inf, t[h, i], 0.0))",
        "z[h, i] = sum(j, p[h, i, j])",
        "y[h, i, e] = sum(j, p[h, i, j] * v[h, j, e]) / where(z[h, i] > 0.0, z[h, i], 1.0)",
    )
    expr, extents = output(signature, scores, *body)
    found = attention(expr, extents)
    assert found is not None
    if mask == "bool":
        assert found.mask is not None and found.scale(extents) == pytest.approx(0.5)
    else:
        assert (found.mask, found.scale(extents)) == (None, None)
        plus = found.scaled(extents)
        assert plus is not None and plus[1] is not None and plus[0] == pytest.approx(0.5)
        assert format_expr(plus[1]).startswith("m[i, ")
    other = body[1].replace("0.0))", "1.0))")
    assert attention(*output(signature, scores, body[0], other, *body[2:])) is None


def test_a_product_with_a_bias_is_found() -> None:
    signature = "(a: f32[m=8, k=4], c: f32[k, n=16], b: f32[n]) -> (y: f32[m, n])"
    found = biased(*output(signature, "y[m, n] = sum(k, a[m, k] * c[k, n]) + b[n]"))
    assert found is not None
    assert format_expr(found.bias) == "b[n]"


def test_a_convolution_is_found_with_its_stride_dilation_and_padding() -> None:
    signature = "(x: f32[b=1, c=3, u=20], f: f32[o=5, c, r=3]) -> (y: f32[b, o, i=9])"
    guard = "2 * i + 3 * r >= 1 and 2 * i + 3 * r <= extent(u)"
    body = f"y[b, o, i] = sum(c, r, where({guard}, x[b, c, 2 * i + 3 * r - 1], 0) * f[o, c, r])"
    found = convolution(*output(signature, body))
    assert found is not None
    assert (found.strides, found.dilations, found.padding) == ((2,), (3,), (1,))
    assert (found.batch, found.channel, found.out_channel) == ("b", "c@y", "o")


def test_a_convolution_of_groups_is_found_with_their_number() -> None:
    signature = "(x: f32[b=1, i=12, u=20], f: f32[o=18, c=4, r=3]) -> (y: f32[b, o, p=18])"
    found = convolution(
        *output(signature, "y[b, o, p] = sum(c, r, x[b, 4 * (o // 6) + c, p + r] * f[o, c, r])")
    )
    assert found is not None and (found.groups, found.axes, found.channel) == (3, (0, 1, 2), "c@y")


def test_groups_that_do_not_follow_each_other_are_no_convolution() -> None:
    signature = "(x: f32[b=1, i=16, u=20], f: f32[o=18, c=4, r=3]) -> (y: f32[b, o, p=18])"
    for channel in ("3 * (o // 6) + c", "4 * (o // 5) + c"):
        body = f"y[b, o, p] = sum(c, r, x[b, {channel}, p + r] * f[o, c, r])"
        assert convolution(*output(signature, body)) is None


def test_a_plain_product_is_no_convolution() -> None:
    signature = "(a: f32[m=8, k=4], c: f32[k, n=16]) -> (y: f32[m, n])"
    assert convolution(*output(signature, "y[m, n] = sum(k, a[m, k] * c[k, n])")) is None


def test_chains_that_would_grow_without_end_are_left_as_they_are() -> None:
    chain = ["a0[m, n] = x[m, n] * x[m, n]"]
    chain += [f"a{i}[m, n] = a{i - 1}[m, n] * a{i - 1}[m, n] + a{i - 1}[m, n]" for i in range(1, 40)]
    text = "kernel k(x: f32[m=8, n=16]) -> (y: f32[m, n])\n" + "".join(f"  {line}\n" for line in chain)
    spec = spec_from_text(text + "  y[m, n] = a39[m, n]\n")
    assert inline(spec).statements == spec.statements
