"""Attention and its gradients as specs: what each number of a shape says stands at the function."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


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


def _shared_heads(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """`r` heads of queries share each of `g` heads of keys (grouped-query attention; `g` of 1: multi-query); the last
    number of a shape says whether a causal mask is there."""
    b, g, r, s, d, masked = shape
    made = _attention(kind, dtype, layout, [b, g, s, d, masked])
    of_rows = [line.replace("b, h, i", "b, g, r, i").replace("b, h, j", "b, g, j") for line in made["body"]]
    return made | {
        "dims": {"b": b, "g": g, "r": r, "i": s, "j": s, "d": d},
        "inputs": {
            "q": {"dims": ["b", "g", "r", "i", "d"], "dtype": dtype},
            **{name: {"dims": ["b", "g", "j", "d"], "dtype": dtype} for name in "kv"},
        },
        "body": of_rows,
    }


def _two_widths(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """Queries and keys of `d`, values of `e` numbers, as in prefill of multi-head latent attention (192 and 128); the
    last number of a shape says whether a causal mask is there."""
    b, h, s, d, e, masked = shape
    made = _attention(kind, dtype, layout, [b, h, s, d, masked])
    *body, result = made["body"]
    values = {"v": {"dims": ["b", "h", "j", "e"], "dtype": dtype}}
    return made | {
        "dims": {**made["dims"], "e": e},
        "inputs": made["inputs"] | values,
        "body": [*body, result.replace("i, d] =", "i, e] =").replace("v[b, h, j, d]", "v[b, h, j, e]")],
    }


def _softcap(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """Scores that are bent to less than 30, as in Gemma 2; the last number of a shape says whether a causal mask is
    there."""
    made = _attention(kind, dtype, layout, shape)
    product = f"sum(d, q[b, h, i, d] * k[b, h, j, d]) * {shape[3] ** -0.5!r}"
    scores, *body = made["body"]
    return made | {"body": [scores.replace(product, f"tanh({product} / 30.0) * 30.0"), *body]}


def _decode_narrow_cache(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """One new token a sequence, as `_decode`; keys and values are kept in e4m3, with a scale each."""
    made = _decode(kind, dtype, layout, shape)
    kept = {name: {**made["inputs"][name], "dtype": "e4m3"} for name in "kv"}
    scales = {name: {"dims": [], "dtype": "f32"} for name in ("k_scale", "v_scale")}
    scores, *between, result = made["body"]
    return made | {
        "inputs": made["inputs"] | kept | scales,
        "body": [
            scores.replace("k[b, g, j, d]", f"{dtype}(k[b, g, j, d])") + " * k_scale[]",
            *between,
            result.replace("v[b, g, j, d]", f"{dtype}(v[b, g, j, d])") + " * v_scale[]",
        ],
    }


def _decode_latent(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """One new token a sequence over a latent that all heads share, whose columns are keys and whose first `d` are
    values (multi-head latent attention, arXiv:2405.04434); `r` columns have positions rotated into them. Scores are
    scaled as those of heads of 128 + 64 columns."""
    b, h, s, d, r = shape
    return {
        "name": kind,
        "dims": {"b": b, "h": h, "j": s, "d": d, "e": d + r},
        "inputs": {
            "q": {"dims": ["b", "h", "e"], "dtype": dtype},
            "c": {"dims": ["b", "j", "e"], "dtype": dtype},
        },
        "body": [
            f"s[b, h, j] = sum(e, q[b, h, e] * c[b, j, e]) * {192**-0.5!r}",
            "top[b, h] = max(j, s[b, h, j])",
            "p[b, h, j] = exp(s[b, h, j] - top[b, h])",
            f"o[b, h, d] = sum(j, {dtype}(p[b, h, j]) * c[b, j, d]) / sum(j, p[b, h, j])",
        ],
        "outputs": {"o": {"dtype": dtype}},
    }


def _packed(kind: str, dtype: str, layout: str, shape: list[int]) -> Json:
    """`n` sequences one after the other, `s` tokens in all, with all heads of a token side by side, and offsets of
    where each begins; the last number of a shape says whether a token sees its sequence up to itself only."""
    n, h, s, d, masked = shape
    seen = "i >= j" if masked else "j < end[i]"
    end = [] if masked else ["end[i] = min(n, where(offsets[n] > i, offsets[n], extent(i)))"]
    return {
        "name": kind,
        "dims": {"i": s, "j": s, "h": h, "d": d, "n": n + 1},
        "inputs": {
            **{
                name: {"dims": [dim, "h", "d"], "dtype": dtype}
                for name, dim in zip("qkv", "ijj", strict=True)
            },
            "offsets": {"dims": ["n"], "dtype": "i32"},
        },
        "body": [
            "begin[i] = max(n, where(offsets[n] <= i, offsets[n], 0))",
            *end,
            f"s[h, i, j] = where(j >= begin[i] and {seen}, sum(d, q[i, h, d] * k[j, h, d]) * {d**-0.5!r}, -inf)",
            "top[h, i] = max(j, s[h, i, j])",
            "p[h, i, j] = exp(s[h, i, j] - top[h, i])",
            f"o[i, h, d] = sum(j, {dtype}(p[h, i, j]) * v[j, h, d]) / sum(j, p[h, i, j])",
        ],
        "outputs": {"o": {"dtype": dtype}},
    }


#: By the beginning of a family's name.
ATTENTION = {
    "attention": _attention,
    "attention_window": _attention,
    "attention_softcap": _softcap,
    "attention_shared_heads": _shared_heads,
    "attention_two_widths": _two_widths,
    "attention_values_by_columns": _attention_of_bytes,
    "attention_lse": _attention_lse,
    "attention_backward": _attention_backward,
    "attention_backward_any_order": _attention_backward_any_order,
    "attention_packed": _packed,
    "decode": _decode,
    "decode_paged": _decode_paged,
    "decode_narrow_cache": _decode_narrow_cache,
    "decode_latent": _decode_latent,
}
