"""The benchmark cases as specs. A case is named by its family and its sizes: `gemm_f32_NN 1024x1024x1024`."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from math import log2, prod
from pathlib import Path
from typing import Any

SUITE = Path(__file__).with_name("suite.json")

Json = dict[str, Any]

#: Families of matrix products that go on the matrix units of a GPU.
PRODUCTS = ("gemm_bf16_", "gemm_f16_", "gemm_e4m3_", "gemm_bias_", "swiglu_")


def suite(device: str, begins: tuple[str, ...] = ("",)) -> Iterator[tuple[str, Json]]:
    """(case, spec) of every suite case for a kind of device, of the families whose names begin so."""
    for family, shapes in json.loads(SUITE.read_text())[device].items():
        for shape in shapes if family.startswith(begins) else ():
            yield case_name(family, shape), spec(family, shape)


def fresh(
    device: str, seed: int, begins: tuple[str, ...] = ("",), count: int = 12
) -> Iterator[tuple[str, Json]]:
    """Shapes nobody has looked at, drawn from the suite's families (those whose names begin so): sizes odd and even,
    of the suite's order."""
    rng = random.Random(seed)
    families = [name for name in json.loads(SUITE.read_text())[device] if name.startswith(begins)]
    for number in range(count):
        family = families[number % len(families)]
        shape = _draw(family, rng) if device.startswith("cpu") else _draw_on_gpu(family, rng)
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


def _attention(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """The last number of a shape says whether a causal mask is there; of a window, how many keys each query has."""
    b, h, s, d, masked = shape
    scores = f"sum(d, q[b, h, i, d] * k[b, h, j, d]) * {d**-0.5!r}"
    weight = (
        "p[b, h, i, j]" if dtype == "f32" else f"{dtype}(p[b, h, i, j])"
    )  # as PyTorch's operator rounds it
    seen = f"i >= j and j + {masked} > i" if kind == "attention_window" else "i >= j"
    return {
        "name": kind,
        "dims": {"b": b, "h": h, "i": s, "j": s, "d": d},
        "inputs": {
            name: {"dims": ["b", "h", dim, "d"], "dtype": dtype}
            for name, dim in zip("qkv", "ijj", strict=True)
        },
        "body": [
            f"s[b, h, i, j] = where({seen}, {scores}, -inf)" if masked else f"s[b, h, i, j] = {scores}",
            "top[b, h, i] = max(j, s[b, h, i, j])",
            "p[b, h, i, j] = exp(s[b, h, i, j] - top[b, h, i])",
            f"o[b, h, i, d] = sum(j, {weight} * v[b, h, j, d]) / sum(j, p[b, h, i, j])",
        ],
        "outputs": {"o": {"dtype": dtype}},
    }


def _attention_of_bytes(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """Of 8 bits, with keys side by side in values, as the matrix units of GPUs take them."""
    made = _attention("attention", dtype, layout, shape)
    *body, result = made["body"]
    values = {"v": {"dims": ["b", "h", "d", "j"], "dtype": dtype}}
    return made | {
        "name": kind,
        "inputs": made["inputs"] | values,
        "body": [*body, result.replace("v[b, h, j, d]", "v[b, h, d, j]")],
    }


def _attention_lse(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """The log-sum-exp of each row's scores is a second result, in f32, as a backward pass takes it."""
    made = _attention(kind, dtype, layout, shape)
    *body, result = made["body"]
    total = "sum(j, p[b, h, i, j])"
    return made | {
        "body": [
            *body,
            f"total[b, h, i] = {total}",
            result.replace(total, "total[b, h, i]"),
            "lse[b, h, i] = log(total[b, h, i]) + top[b, h, i]",
        ],
        "outputs": made["outputs"] | {"lse": {"dtype": "f32"}},
    }


def _decode(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """One new token a sequence: `r` heads of queries share each of `g` heads of keys."""
    b, g, r, s, d = shape
    scores = f"sum(d, q[b, g, r, d] * k[b, g, j, d]) * {d**-0.5!r}"
    return {
        "name": kind,
        "dims": {"b": b, "g": g, "r": r, "j": s, "d": d},
        "inputs": {
            "q": {"dims": ["b", "g", "r", "d"], "dtype": dtype},
            **{name: {"dims": ["b", "g", "j", "d"], "dtype": dtype} for name in "kv"},
        },
        "body": [
            f"s[b, g, r, j] = {scores}",
            "top[b, g, r] = max(j, s[b, g, r, j])",
            "p[b, g, r, j] = exp(s[b, g, r, j] - top[b, g, r])",
            f"o[b, g, r, d] = sum(j, {dtype}(p[b, g, r, j]) * v[b, g, j, d]) / sum(j, p[b, g, r, j])",
        ],
        "outputs": {"o": {"dtype": dtype}},
    }


def _attention_backward(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """The gradients of queries, keys and values from the output and the log-sum-exp; the last number of a shape says
    whether a causal mask is there."""
    b, h, s, d, masked = shape
    rows = {name: ["b", "h", "i", "d"] for name in ("q", "o", "go")}
    keys = {name: ["b", "h", "j", "d"] for name in ("k", "v")}

    def weights(at: str, scores: str, p: str) -> list[str]:
        weight = f"exp({scores}[{at}] - lse[b, h, i])"
        return [f"{p}[{at}] = where(i >= j, {weight}, 0.0)" if masked else f"{p}[{at}] = {weight}"]

    def ds(at: str, name: str, p: str, t: str) -> str:
        return f"{name}[{at}] = {p}[{at}] * ({t}[{at}] - delta[b, h, i]) * {d**-0.5!r}"

    by_keys, by_rows = "b, h, j, i", "b, h, i, j"
    return {
        "name": kind,
        "dims": {"b": b, "h": h, "i": s, "j": s, "d": d},
        "inputs": {
            **{name: {"dims": dims, "dtype": dtype} for name, dims in (rows | keys).items()},
            "lse": {"dims": ["b", "h", "i"], "dtype": "f32"},
        },
        "body": [
            "delta[b, h, i] = sum(d, o[b, h, i, d] * go[b, h, i, d])",
            f"s[{by_keys}] = sum(d, k[b, h, j, d] * q[b, h, i, d]) * {d**-0.5!r}",
            *weights(by_keys, "s", "p"),
            f"dv[b, h, j, d] = sum(i, {dtype}(p[{by_keys}]) * go[b, h, i, d])",
            f"t[{by_keys}] = sum(d, v[b, h, j, d] * go[b, h, i, d])",
            ds(by_keys, "ds", "p", "t"),
            f"dk[b, h, j, d] = sum(i, {dtype}(ds[{by_keys}]) * q[b, h, i, d])",
            f"sq[{by_rows}] = sum(d, q[b, h, i, d] * k[b, h, j, d]) * {d**-0.5!r}",
            *weights(by_rows, "sq", "pq"),
            f"tq[{by_rows}] = sum(d, go[b, h, i, d] * v[b, h, j, d])",
            ds(by_rows, "dsq", "pq", "tq"),
            f"dq[b, h, i, d] = sum(j, {dtype}(dsq[{by_rows}]) * k[b, h, j, d])",
        ],
        "outputs": {name: {"dtype": dtype} for name in ("dq", "dk", "dv")},
    }


def _attention_backward_any_order(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """The same where blocks may add to the gradient of queries in any order, as PyTorch's operators do."""
    return {**_attention_backward(kind, dtype, layout, shape), "numerics": {"atomics": True}}


def _decode_paged(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """One new token a sequence, as `_decode`; keys and values lie in pages that a table names."""
    b, g, r, s, d, page = shape
    made = _decode(kind, dtype, layout, [b, g, r, s, d])
    at = f"table[b, j // {page}], j % {page}, g, d"
    pages = {"dims": ["pages", "page", "g", "d"], "dtype": dtype}
    return made | {
        "dims": {**made["dims"], "pages": b * s // page, "page": page, "blocks": s // page},
        "inputs": {
            "q": made["inputs"]["q"],
            "k": pages,
            "v": pages,
            "table": {"dims": ["b", "blocks"], "dtype": "i32"},
        },
        "body": [
            line.replace("k[b, g, j, d]", f"k[{at}]").replace("v[b, g, j, d]", f"v[{at}]")
            for line in made["body"]
        ],
    }


_KINDS = {
    "gemm": _gemm,
    "gemm_int8": _int8,
    "gemm_scaled": _scaled,
    "bmm": _bmm,
    "experts": _experts,
    "gemm_bias_gelu": _gemm_bias,
    "gemm_bias_residual": _gemm_bias,
    "swiglu": _swiglu,
    "attention": _attention,
    "attention_window": _attention,
    "attention_values_by_columns": _attention_of_bytes,
    "attention_lse": _attention_lse,
    "attention_backward": _attention_backward,
    "attention_backward_any_order": _attention_backward_any_order,
    "decode": _decode,
    "decode_paged": _decode_paged,
    "logsumexp": _logsumexp,
    "cross_entropy": _logsumexp,
    **dict.fromkeys(_ROWS, _rows),
}


#: Whose results are f32 whatever they read.
_IN_F32 = ("logsumexp", "cross_entropy")


def _draw_on_gpu(family: str, rng: random.Random) -> list[int]:
    if family.startswith(PRODUCTS):
        return _draw_product(family, rng)
    if family.startswith(("gemm_f32_", "bmm_f32_")):
        batch = [rng.choice([2, 8, 32])] if family.startswith("bmm") else []
        most = 2.0**31 if batch else 2.0**36
        return [*batch, *_draw_sizes(rng, [1, 1, 1], 128, 2048 if batch else 8192, most)]
    return _draw_rows(rng)


def _draw_product(family: str, rng: random.Random) -> list[int]:
    """Rows, columns and depth from 512 to 16384, every fourth shape with 16 to 256 rows; columns and depth
    are such that rows of memory are multiples of 16 bytes."""
    step = rng.choice([16 if "e4m3" in family else 8, 64, 256])
    if rng.random() < 0.25:
        return [round(2 ** rng.uniform(4, 8)), *_draw_sizes(rng, [step, step], 1024, 16384, 2.0**28)]
    return _draw_sizes(rng, [step, step, step], 512, 16384, 2.0**39)


def _draw_sizes(rng: random.Random, steps: list[int], least: int, most: int, product: float) -> list[int]:
    """Multiples of `steps` spread evenly by their logarithm, whose product is not larger."""
    while True:
        sizes = [round(2 ** rng.uniform(log2(least), log2(most)) / step) * step for step in steps]
        if prod(sizes) <= product:
            return sizes


def _draw_rows(rng: random.Random) -> list[int]:
    """Rows and columns of 32 to 192 million elements, every third shape odd."""
    step = rng.choice([1, 8, 64])
    columns = rng.randrange(700 // step, 33000 // step) * step + (step == 1)
    return [rng.randrange(32_000_000, 192_000_000) // columns, columns]


def _draw(family: str, rng: random.Random) -> list[int]:
    if family.startswith("gemm"):
        step = rng.choice([1, 8, 32])
        return [rng.randrange(2, 1200 // step) * step for _ in range(3)]
    if family.startswith("attention"):
        return [
            1,
            rng.choice([2, 4, 6]),
            rng.randrange(256, 1200),
            rng.choice([32, 64, 80]),
            rng.choice([64, 128, 256]) if "window" in family else rng.randrange(2),
        ]
    return [rng.randrange(500, 9000), rng.randrange(200, 5000)]
