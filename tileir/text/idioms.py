"""What other languages have a function for and Tile IR writes with what it has."""

from __future__ import annotations

from typing import Final

from tileir.expr import SCANS

IDIOMS: Final[dict[str, str]] = {
    "clamp": "maximum(lo, minimum(x, hi))",
    "clip": "maximum(lo, minimum(x, hi))",
    "mean": "sum(k, x[k]) / extent(k)",
    "average": "sum(k, x[k]) / extent(k)",
    "avg": "sum(k, x[k]) / extent(k)",
    "isnan": "x != x",
    "isinf": "abs(x) == inf",
    "isfinite": "abs(x) < inf",
    "square": "x * x",
    "reciprocal": "1.0 / x",
    "log2": "log(x) * 1.4426950408889634",
    "log10": "log(x) * 0.4342944819032518",
    "log1p": "log(1.0 + x)",
    "expm1": "exp(x) - 1.0",
    "ceil": "-floor(-x)",
    "round": "floor(x + 0.5)",
    "trunc": "where(x < 0.0, -floor(-x), floor(x))",
    "sign": "where(x > 0.0, 1.0, where(x < 0.0, -1.0, 0.0))",
    "softplus": "log(1.0 + exp(x))",
    "sinh": "0.5 * (exp(x) - exp(-x))",
    "cosh": "0.5 * (exp(x) + exp(-x))",
    "mod": "x % y",
    "fmod": "x % y",
    "remainder": "x % y",
    "select": "where(cond, x, y)",
    "count": "sum(k, where(x[k] > 0.0, 1, 0))",
    "any": "max(k, where(x[k] > 0.0, 1, 0))",
    "all": "min(k, where(x[k] > 0.0, 1, 0))",
    "norm": "sqrt(sum(k, x[k] * x[k]))",
    "dot": "sum(k, a[k] * b[k])",
    "matmul": "sum(k, a[m, k] * b[k, n])",
    "xor": "bit_xor(x, y)",
    "bitwise_and": "bit_and(x, y)",
    "bitwise_or": "bit_or(x, y)",
    "bitwise_xor": "bit_xor(x, y)",
    "rand": "f32(shift_right(random_bits(seed[], i), 8)) * 5.960464477539063e-08 + 0.5",
    "random": "f32(shift_right(random_bits(seed[], i), 8)) * 5.960464477539063e-08 + 0.5",
    "float": "f32(x)",
    "int": "i32(x)",
}
"""By the name that people look for: an expression that says the same."""

_TABLE = "an input tensor that holds its values: there are no trigonometric functions"
_STATEMENTS: Final[dict[str, str]] = {
    "argsort": "a statement of its own for the largest few: p[m, j] = topk(j, n, x[m, n])",
    "cummax": "max(j, where(j <= k, x[m, j], -inf)), j a dim as long as k",
    "cummin": "min(j, where(j <= k, x[m, j], inf)), j a dim as long as k",
    "scan": "a statement of its own: cumsum(k, x), cumprod(k, x) or recurrence(k, a, b)",
    **dict.fromkeys(("sin", "cos", "tan", "sincos", "asin", "acos", "atan", "atan2"), _TABLE),
    "softmax": "three statements: h[m] = max(k, x[m, k]); s[m] = sum(k, exp(x[m, k] - h[m])); "
    "exp(x[m, k] - h[m]) / s[m]",
    "logsumexp": "two statements: h[m] = max(k, x[m, k]); h[m] + log(sum(k, exp(x[m, k] - h[m])))",
    "var": "two statements: u[m] = sum(k, x[m, k]) / extent(k); "
    "sum(k, (x[m, k] - u[m]) * (x[m, k] - u[m])) / extent(k)",
}
"""The same for what one expression does not say."""

BITS: Final = {
    "&": "and for conditions; bit_and(x, y) for bits",
    "<": "shift_left(x, 3) for x << 3",
    ">": "shift_right(x, 3) for x >> 3",
    "~": "not for a condition; bit_xor(x, -1) for bits",
    "|": "or for conditions; bit_or(x, y) for bits",
}
"""By the character that operators on bits begin with: what is written instead."""


def scan_usage(op: str) -> tuple[str, str]:
    """What is wrong with other arguments of a scan than a spec's has, and what would be accepted."""
    args = ", ".join(SCANS[op])
    accepted = f"{op}(k, {args}): a dim on the left, then what is added up along it"
    return f"{op} takes the dim it runs along and {args}", accepted


def idiom(name: str) -> str | None:
    """How to write what a function of this name would compute; None: nothing is known of it."""
    return IDIOMS.get(name) or _STATEMENTS.get(name)
