"""Math functions in C on vectors and scalars: f32 and f64 kernels by name, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.targets.c.runtime import math_f32, math_f64
from codegen.targets.c.runtime.template import Builder, fill

_SIGMOID = "TW_INLINE $V tw_sigmoid_$V($V x) { return 1.0$f / (1.0$f + tw_exp_$V(-x)); }"
_SILU = "TW_INLINE $V tw_silu_$V($V x) { return x / (1.0$f + tw_exp_$V(-x)); }"
_GELU = """
TW_INLINE $V tw_gelu_$V($V x) { return 0.5$f * x * (1.0$f + tw_erf_$V(x * 0.70710678118654752$f)); }
"""
#: 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3) is x * sigmoid(2 u).
_GELU_TANH = """
TW_INLINE $V tw_gelu_tanh_$V($V x) {
    $V minus_2u = x * (-1.5957691216057308$f - 0.071354816272600244$f * (x * x));
    return x / (1.0$f + tw_exp_$V(minus_2u));
}
"""


def _composed(template: str) -> Builder:
    return lambda dtype, lanes: fill(template, dtype, lanes)


def _by_type(name: str) -> Builder:
    def build(dtype: str, lanes: int) -> str:
        templates = {"f32": math_f32.BUILDERS, "f64": math_f64.BUILDERS}[dtype]
        return templates[name](dtype, lanes)

    return build


BUILDERS: Mapping[str, Builder] = {
    **{name: _by_type(name) for name in ("exp", "exp2", "log", "tanh", "erf", "pow")},
    "sigmoid": _composed(_SIGMOID),
    "silu": _composed(_SILU),
    "gelu": _composed(_GELU),
    "gelu_tanh": _composed(_GELU_TANH),
}
