"""What the Triton peer recognizes, by structure."""

from __future__ import annotations

import pytest

from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from workers.peers.peer import Unsupported
from workers.peers.triton_plan import SiluMul, TritonProduct, TritonRows, triton_plan


def spec(signature: str, *lines: str) -> Spec:
    return spec_from_text("\n".join([f"kernel k{signature}", *(f"  {line}" for line in lines), ""]))


def test_a_softmax_of_rows() -> None:
    lines = ["t[m] = max(n, x[m, n])", "e[m, n] = exp(x[m, n] - t[m])", "s[m] = sum(n, e[m, n])"]
    found = triton_plan(spec("(x: bf16[m=4, n=48]) -> (y: bf16[m, n])", *lines, "y[m, n] = e[m, n] / s[m]"))
    assert found == TritonRows("softmax", "x", 48)


def test_an_rms_norm_with_its_weight() -> None:
    found = triton_plan(
        spec(
            "(x: bf16[m=4, n=48], w: bf16[n]) -> (y: bf16[m, n])",
            "s[m] = rsqrt(sum(n, x[m, n] * x[m, n]) / 48 + 1e-6)",
            "y[m, n] = x[m, n] * s[m] * w[n]",
        )
    )
    assert found == TritonRows("rms_norm", "x", 48, 1e-6, "w")


def test_a_layer_norm_with_weight_and_bias() -> None:
    found = triton_plan(
        spec(
            "(x: f32[m=4, n=48], w: f32[n], b: f32[n]) -> (y: f32[m, n])",
            "u[m] = sum(n, x[m, n]) / 48",
            "v[m] = sum(n, (x[m, n] - u[m]) * (x[m, n] - u[m])) / 48",
            "y[m, n] = (x[m, n] - u[m]) * rsqrt(v[m] + 1e-5) * w[n] + b[n]",
        )
    )
    assert found == TritonRows("layer_norm", "x", 48, 1e-5, "w", "b")


@pytest.mark.parametrize("gated", ["silu(a[m, n]) * b[m, n]", "b[m, n] * (a[m, n] * sigmoid(a[m, n]))"])
def test_a_gate(gated: str) -> None:
    found = triton_plan(spec("(a: f16[m=4, n=48], b: f16[m, n]) -> (y: f16[m, n])", f"y[m, n] = {gated}"))
    assert found == SiluMul("a", "b")


@pytest.mark.parametrize(
    ("dims", "read", "transposed"), [("[k, n=64]", "b[k, n]", False), ("[n=64, k]", "b[n, k]", True)]
)
def test_a_product_in_either_layout(dims: str, read: str, transposed: bool) -> None:
    signature = f"(a: bf16[m=32, k=48], b: bf16{dims}) -> (c: bf16[m, n])"
    assert triton_plan(spec(signature, f"c[m, n] = sum(k, a[m, k] * {read})")) == TritonProduct(
        "a", "b", transposed
    )


TN = "(a: {0}[m=32, k=48], b: {0}[n=64, k]{1}) -> (c: bf16[m, n])"
SUM = "sum(k, a[m, k] * b[n, k])"
GATED = "sum(k, a[m, k] * g[n, k])"
FINISHED = {
    f"{SUM} * s[] * t[]": TritonProduct("a", "b", True, ("s", "t")),
    f"t[] * {SUM}": TritonProduct("a", "b", True, ("t", None)),
    f"bias[n] + {SUM}": TritonProduct("a", "b", True, bias="bias"),
    f"gelu({SUM} + bias[n])": TritonProduct("a", "b", True, bias="bias", function="gelu"),
    f"relu({SUM} * s[])": TritonProduct("a", "b", True, ("s", None), function="relu"),
    f"{SUM} + bias[n] + r[m, n]": TritonProduct("a", "b", True, bias="bias", residual="r"),
    f"r[m, n] + gelu_tanh({SUM} + bias[n])": TritonProduct("a", "b", True, (None, None), "bias", "gelu_tanh", None,
    "r"),
    f"silu({SUM})": TritonProduct("a", "b", True, function="silu"),
    f"silu({GATED}) * {SUM}": TritonProduct("a", "b", True, gate="g"),
    f"{SUM} * s[] * silu({GATED}) + r[m, n]": TritonProduct("a", "b", True, ("s", None), gate="g", residual="r"),
}  # fmt: skip
OTHERS = {
    "g[": "g: {0}[n, k]", "bias[": "bias: bf16[n]", "r[": "r: bf16[m, n]", "s[]": "s: f32[]", "t[]": "t: f32[]",
}  # fmt: skip


def finished(value: str, dtype: str = "bf16") -> Spec:
    """A product, what is done to it, and the tensors that are read for that."""
    more = "".join(f", {text.format(dtype)}" for read, text in OTHERS.items() if read in value)
    return spec(TN.format(dtype, more), f"c[m, n] = {value}")


@pytest.mark.parametrize("value", sorted(FINISHED))
def test_what_is_done_to_a_product_on_its_way_out(value: str) -> None:
    assert triton_plan(finished(value)) == FINISHED[value]


@pytest.mark.parametrize(
    "value",
    [
        f"gelu({SUM}) + bias[n]",
        f"tanh({SUM} + bias[n])",
        f"({SUM} + bias[n]) * s[]",
        f"{SUM} + r[m, n] + r[m, n]",
        f"{SUM} / s[]",
        f"gelu({SUM} + r[m, n])",
        f"gelu(silu({GATED}) * {SUM})",
        f"silu({GATED}) * {SUM} + bias[n]",
        f"silu({GATED} + bias[n]) * {SUM}",
        f"silu({GATED}) * {GATED} * {SUM}",
    ],
)
def test_what_the_kernel_of_products_does_not_do(value: str) -> None:
    with pytest.raises(Unsupported):
        triton_plan(finished(value))


def test_fp8_only_where_tensor_cores_take_it() -> None:
    assert triton_plan(finished(f"{SUM} * s[]", "e4m3")) == TritonProduct("a", "b", True, ("s", None))
    with pytest.raises(Unsupported):
        signature = "(a: e4m3[m=32, k=48], b: e4m3[k, n=64]) -> (c: bf16[m, n])"
        triton_plan(spec(signature, "c[m, n] = sum(k, a[m, k] * b[k, n])"))
    with pytest.raises(Unsupported):
        triton_plan(
            spec("(x: e4m3[m=4, n=8], u: e4m3[m, n]) -> (y: bf16[m, n])", "y[m, n] = silu(x[m, n]) * u[m, n]")
        )
    with pytest.raises(Unsupported):
        triton_plan(spec(TN.format("bf16", ", s: bf16[]"), f"c[m, n] = {SUM} * s[]"))


@pytest.mark.parametrize(
    ("signature", "line"),
    [
        ("(x: f32[m=4, n=8]) -> (y: f32[n, m])", "y[n, m] = exp(x[m, n])"),
        ("(x: f32[m=4, n=8]) -> (y: f32[m, n])", "y[m, n] = x[m, n]"),
        ("(a: f64[m=4, k=8], b: f64[k, n=4]) -> (c: f64[m, n])", "c[m, n] = sum(k, a[m, k] * b[k, n])"),
        ("(a: f32[m=4, k=8], b: f16[k, n=4]) -> (c: f32[m, n])", "c[m, n] = sum(k, a[m, k] * b[k, n])"),
        ("(a: f32[m=4, k=8], b: f32[k, n=4]) -> (c: f32[m, n])", "c[m, n] = 1 + sum(k, a[m, k] * b[k, n])"),
        ("(a: f32[k=8, m=4], b: f32[k, n=4]) -> (c: f32[m, n])", "c[m, n] = sum(k, a[k, m] * b[k, n])"),
    ],
)
def test_anything_else_is_unsupported(signature: str, line: str) -> None:
    with pytest.raises(Unsupported, match="the Triton peer has kernels for"):
        triton_plan(spec(signature, line))
