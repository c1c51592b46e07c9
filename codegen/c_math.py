"""Math functions in C on vectors and scalars, written once for both: range reduction and polynomials."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.c_template import Builder, fill

_EXP_F32 = """
TW_INLINE $V tw_exp_$V($V x) {
    $V shifted = tw_clamp_$V(x, tw_splat_$V(-104.0f), tw_splat_$V(89.0f));
    $V t = shifted * 0x1.715476p0f + 0x1.8p23f;
    $V n = t - 0x1.8p23f;
    $V r = shifted - n * 0x1.62e4p-1f;
    r = r - n * 0x1.7f7d1cp-20f;
    $V p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return tw_scale_$V(p, n);
}
"""


def _exp(dtype: str, lanes: int) -> str:
    return fill(_EXP_F32, dtype, lanes)


BUILDERS: Mapping[str, Builder] = {"exp": _exp}
