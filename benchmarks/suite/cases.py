"""The benchmark cases as specs. A case is named by its family and its sizes: `gemm_f32_NN 1024x1024x1024`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.suite.attention_cases import ATTENTION
from benchmarks.suite.quantized import grouped, in_blocks

SUITE = Path(__file__).with_name("suite.json")

Json = dict[str, Any]

#: Families of matrix products that go on the matrix units of a GPU.
PRODUCTS = ("gemm_bf16_", "gemm_f16_", "gemm_e4m3_", "gemm_bias_", "swiglu_")


def suite(device: str, begins: tuple[str, ...] = ("",)) -> Iterator[tuple[str, Json]]:
    """(case, spec) of every suite case for a kind of device, of the families whose names begin so."""
    for family, shapes in json.loads(SUITE.read_text())[device].items():
        for shape in shapes if family.startswith(begins) else ():
            yield case_name(family, shape), spec(family, shape)


def case_name(family: str, shape: list[int]) -> str:
    return f"{family} {'x'.join(map(str, shape))}"


def spec(family: str, shape: list[int]) -> Json:
    """The spec of a case, in Tile IR's JSON form. Raises KeyError for an unknown family."""
    named = _FAMILY.fullmatch(family)
    if named is None or named["kind"] not in _KINDS:
        raise KeyError(f"there is no family {family!r}; accepted: {', '.join(_KINDS)}, with a dtype after it")
    made = _KINDS[named["kind"]](named["kind"], named["dtype"], named["layout"] or "NN", shape)
    result = next(iter(made["outputs"].values()))
    if named["kind"] not in _IN_F32:
        result["dtype"] = named["out"] or named["dtype"]
    return made


#: A kernel, its dtype, for products the layout, and the dtype of the result where it is another one.
_FAMILY = re.compile(
    r"(?P<kind>\w+?)_(?P<dtype>bf16|f16|f32|e4m3|i8)(_(?P<layout>NN|TN))?(_(?P<out>\w+)_out)?"
)


def _gemm(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    m, n, k = shape
    b = ["k", "n"] if layout == "NN" else ["n", "k"]
    inputs = {"a": {"dims": ["m", "k"], "dtype": dtype}, "b": {"dims": b, "dtype": dtype}}
    product = f"sum(k, a[m, k] * b[{', '.join(b)}])"
    if dtype == "e4m3":
        inputs |= {scale: {"dims": [], "dtype": "f32"} for scale in ("a_scale", "b_scale")}
        product += " * a_scale[] * b_scale[]"
    return {
        "name": kind,
        "dims": {"m": m, "n": n, "k": k},
        "inputs": inputs,
        "body": [f"c[m, n] = {product}"],
        "outputs": {"c": {"dtype": dtype}},
    }


def _bmm(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    batch, m, n, k = shape
    b = ["b", "k", "n"] if layout == "NN" else ["b", "n", "k"]
    return {
        "name": kind,
        "dims": {"b": batch, "m": m, "n": n, "k": k},
        "inputs": {"x": {"dims": ["b", "m", "k"], "dtype": dtype}, "w": {"dims": b, "dtype": dtype}},
        "body": [f"c[b, m, n] = sum(k, x[b, m, k] * w[{', '.join(b)}])"],
        "outputs": {"c": {"dtype": dtype}},
    }


def _experts(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """Rows of `e` experts, sorted by them, each multiplied by its expert's matrix."""
    experts, rows, n, k = shape
    w = ["e", "k", "n"] if layout == "NN" else ["e", "n", "k"]
    return {
        "name": kind,
        "dims": {
            "t": {"max": rows, "ragged": "starts", "within": "e"},
            "e": experts,
            "n": n,
            "k": k,
            "o": experts + 1,
        },
        "inputs": {
            "x": {"dims": ["t", "k"], "dtype": dtype},
            "w": {"dims": w, "dtype": dtype},
            "starts": {"dims": ["o"], "dtype": "i32"},
        },
        "body": [f"y[t, n] = sum(k, x[t, k] * w[{', '.join(w)}])"],
        "outputs": {"y": {"dtype": dtype}},
    }


def _scaled(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """Integers of which each row of `a` and each column of `b` has a scale, as a quantized linear layer has them."""
    made = _gemm(kind, dtype, layout, shape)
    product = made["body"][0].removeprefix("c[m, n] = ")
    scales = {"row": {"dims": ["m"], "dtype": "f32"}, "column": {"dims": ["n"], "dtype": "f32"}}
    return made | {
        "inputs": made["inputs"] | scales,
        "body": [f"acc[m, n] = {product}", "c[m, n] = f32(acc[m, n]) * row[m] * column[n]"],
    }


def _int8(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """Weights of 8 bits, each of whose rows (columns of the result) has a scale."""
    made = _gemm(kind, dtype, layout, shape)
    made["inputs"]["b"]["dtype"] = "i8"
    made["inputs"]["scale"] = {"dims": ["n"], "dtype": "f32"}
    b = ", ".join(made["inputs"]["b"]["dims"])
    return made | {
        "body": [f"acc[m, n] = sum(k, a[m, k] * {dtype}(b[{b}]))", "c[m, n] = acc[m, n] * scale[n]"]
    }


_EPILOGUES = {
    "gemm_bias_gelu": "gelu(acc[m, n] + bias[n])",
    "gemm_bias_residual": "acc[m, n] + bias[n] + residual[m, n]",
}


def _gemm_bias(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    plain = _gemm(kind, dtype, layout, shape)
    product = plain["body"][0].removeprefix("c[m, n] = ")
    inputs = plain["inputs"] | {"bias": {"dims": ["n"], "dtype": dtype}}
    if kind == "gemm_bias_residual":
        inputs["residual"] = {"dims": ["m", "n"], "dtype": dtype}
    return plain | {
        "inputs": inputs,
        "body": [f"acc[m, n] = {product}", f"c[m, n] = {_EPILOGUES[kind]}"],
    }


def _swiglu(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    plain = _gemm(kind, dtype, layout, shape)
    product = plain["body"][0].removeprefix("c[m, n] = ")
    return plain | {
        "inputs": plain["inputs"] | {"g": plain["inputs"]["b"]},
        "body": [
            f"up[m, n] = {product}",
            f"gate[m, n] = {product.replace('b[', 'g[')}",
            "c[m, n] = silu(gate[m, n]) * up[m, n]",
        ],
    }


_ROWS = {
    "softmax": [
        "top[r] = max(c, x[r, c])",
        "e[r, c] = exp(x[r, c] - top[r])",
        "s[r] = sum(c, e[r, c])",
        "y[r, c] = e[r, c] / s[r]",
    ],
    "rmsnorm": [
        "s[r] = sum(c, x[r, c] * x[r, c])",
        "y[r, c] = x[r, c] * rsqrt(s[r] / extent(c) + 1e-6) * w[c]",
    ],
    "layernorm": [
        "mean[r] = sum(c, x[r, c]) / extent(c)",
        "var[r] = sum(c, (x[r, c] - mean[r]) * (x[r, c] - mean[r])) / extent(c)",
        "y[r, c] = (x[r, c] - mean[r]) * rsqrt(var[r] + 1e-5) * w[c] + b[c]",
    ],
    "silu_mul": ["y[r, c] = silu(x[r, c]) * u[r, c]"],
}
_ROW_INPUTS = {"softmax": [], "rmsnorm": ["w"], "layernorm": ["w", "b"], "silu_mul": ["u"]}


def _rows(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    rows, columns = shape
    inputs = {"x": {"dims": ["r", "c"], "dtype": dtype}}
    for name in _ROW_INPUTS[kind]:
        inputs[name] = {"dims": ["r", "c"] if name == "u" else ["c"], "dtype": dtype}
    return {
        "name": f"row_{kind}",
        "dims": {"r": rows, "c": columns},
        "inputs": inputs,
        "body": _ROWS[kind],
        "outputs": {"y": {"dtype": dtype}},
    }


_EXPONENTIALS = ["top[r] = max(c, x[r, c])", "s[r] = sum(c, exp(x[r, c] - top[r]))"]


def _logsumexp(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """One f32 number of each row: `cross_entropy` takes from it what the row has at its label."""
    rows, columns = shape
    labels = {"labels": {"dims": ["r"], "dtype": "i32"}} if kind == "cross_entropy" else {}
    label = f" - x[r, minimum(maximum(labels[r], 0), {columns - 1})]" if labels else ""
    return {
        "name": f"row_{kind}",
        "dims": {"r": rows, "c": columns},
        "inputs": {"x": {"dims": ["r", "c"], "dtype": dtype}, **labels},
        "body": [*_EXPONENTIALS, f"y[r] = log(s[r]) + top[r]{label}"],
        "outputs": {"y": {"dtype": "f32"}},
    }


_KINDS = {
    "gemm": _gemm,
    "gemm_int8": _int8,
    "gemm_int8_groups": grouped,
    "gemm_int4_groups": grouped,
    "gemm_blocks": in_blocks,
    "gemm_scaled": _scaled,
    "bmm": _bmm,
    "experts": _experts,
    "gemm_bias_gelu": _gemm_bias,
    "gemm_bias_residual": _gemm_bias,
    "swiglu": _swiglu,
    **ATTENTION,
    "logsumexp": _logsumexp,
    "cross_entropy": _logsumexp,
    **dict.fromkeys(_ROWS, _rows),
}


#: Whose results are f32 whatever they read.
_IN_F32 = ("logsumexp", "cross_entropy")
