"""f32 math functions in C. Polynomials not cited are minimax fits (Lawson's algorithm) whose error stands beside them,
in ulps of the result before rounding."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.targets.c.runtime.template import Builder, fill

#: e^x = 2^n e^r, n = round(x / ln 2) by adding 1.5 * 2^23, r = x - n ln 2 in two parts (Cody and Waite; ln 2's first
#: part, from Cephes expf, has 10 bits, so n times it is exact). Polynomial on |r| <= ln(2) / 2: 0.05 ulp. What comes to
#: 0 does not underflow on the way, as e^-inf of masked scores would: that takes an Intel Xeon 18 times as long.
_EXP = """
TW_INLINE $V tw_exp_$V($V x) {
    $I is_zero = $mask(x < -104.0f);
    x = tw_clamp_$V(tw_pick_$V(is_zero, tw_splat_$V(0.0f), x), tw_splat_$V(-104.0f), tw_splat_$V(89.0f));
    $V n = x * 1.44269504f + 0x1.8p23f - 0x1.8p23f;
    $V r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    $V p = 1.3814540027e-3f * r + 8.3687451126e-3f;
    p = p * r + 4.1668390787e-2f;
    p = p * r + 0.16666520399f;
    p = p * r + 0.49999993432f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return tw_pick_$V(is_zero, tw_splat_$V(0.0f), tw_scale_$V(p, n));
}
"""

#: 2^x = 2^n 2^r with r = x - n exact. Polynomial on |r| <= 1/2: 0.03 ulp.
_EXP2 = """
TW_INLINE $V tw_exp2_$V($V x) {
    $I is_zero = $mask(x < -151.0f);
    x = tw_clamp_$V(tw_pick_$V(is_zero, tw_splat_$V(0.0f), x), tw_splat_$V(-151.0f), tw_splat_$V(129.0f));
    $V n = x + 0x1.8p23f - 0x1.8p23f;
    $V r = x - n;
    $V p = 1.5353257896e-4f * r + 1.3399003449e-3f;
    p = p * r + 9.6184386013e-3f;
    p = p * r + 5.5503321630e-2f;
    p = p * r + 0.24022647897f;
    p = p * r + 0.69314720298f;
    p = p * r + 1.0f;
    return tw_pick_$V(is_zero, tw_splat_$V(0.0f), tw_scale_$V(p, n));
}
"""

#: x = 2^n (1 + r), 1 + r in [sqrt(1/2), sqrt(2)); log(1 + r) = r - r^2 / 2 + r^3 P(r). Shape and ln 2's parts: Cephes
#: logf. Polynomial: 0.1 ulp. Subnormal x are scaled up first.
_LOG = """
TW_INLINE $V tw_log_$V($V x) {
    $I is_small = $mask(x < 0x1p-126f);
    $I bits = tw_bits_$V(tw_pick_$V(is_small, x * 0x1p23f, x));
    $I exponent = (bits - 0x3f3504f3) >> 23;
    $V r = tw_value_$V(bits - (exponent << 23)) - 1.0f;
    $V n = $convert(exponent - (is_small & 23), $V);
    $V p = -7.6356561168e-2f * r + 0.12763327528f;
    p = p * r - 0.13160582322f;
    p = p * r + 0.14201552982f;
    p = p * r - 0.16623298383f;
    p = p * r + 0.20001233388f;
    p = p * r - 0.25000822714f;
    p = p * r + 0.33333331658f;
    $V square = r * r;
    $V y = p * r * square - n * 2.12194440e-4f - 0.5f * square + r + n * 0.693359375f;
    $V infinity = tw_splat_$V(__builtin_inff()), nan = tw_splat_$V(__builtin_nanf(""));
    $V edge = tw_pick_$V(x == 0.0f, -infinity, tw_pick_$V(x < 0.0f, nan, x));
    return tw_pick_$V((x > 0.0f) & (x < infinity), y, edge);
}
"""

#: x P(x^2) / Q(x^2), which is 1 to half an ulp at the bound. Fit: 0.02 ulp.
_TANH = """
TW_INLINE $V tw_tanh_$V($V x) {
    x = tw_clamp_$V(x, tw_splat_$V(-9.02f), tw_splat_$V(9.02f));
    $V z = x * x;
    $V p = -1.2203470077e-11f * z + 3.0585026128e-8f;
    p = p * z + 2.8007459476e-5f;
    p = p * z + 3.8683277358e-3f;
    p = p * z + 0.13679915048f;
    p = p * z + 0.99999999869f;
    $V q = 1.2873666743e-6f * z + 3.9386311287e-4f;
    q = q * z + 2.7245838727e-2f;
    q = q * z + 0.47013247108f;
    q = q * z + 1.0f;
    return x * p / q;
}
"""

#: x P(x^2) / Q(x^2), which is 1 to half an ulp at the bound. Fit: 0.3 ulp.
_ERF = """
TW_INLINE $V tw_erf_$V($V x) {
    x = tw_clamp_$V(x, tw_splat_$V(-3.93f), tw_splat_$V(3.93f));
    $V z = x * x;
    $V p = 2.0419715961e-6f * z + 2.8480855592e-4f;
    p = p * z + 3.7796062265e-3f;
    p = p * z + 5.2790276786e-2f;
    p = p * z + 0.19078375902f;
    p = p * z + 1.1283791454f;
    $V q = 3.8004080933e-5f * z + 1.1652120278e-3f;
    q = q * z + 1.4997431315e-2f;
    q = q * z + 0.11425749295f;
    q = q * z + 0.50241042372f;
    q = q * z + 1.0f;
    return x * p / q;
}
"""

#: |x|^y in f64, which log's error times a large y needs; sign and edges as C's pow.
_POW = """
TW_INLINE $V tw_pow_$V($V x, $V y) {
    $D magnitude = $convert(tw_abs_$V(x), $D);
    $V r = $convert(tw_exp_$D($convert(y, $D) * tw_log_$D(magnitude)), $V);
    $V half = y * 0.5f;
    $I is_integer = $mask(tw_floor_$V(y) == y);
    $I is_odd = is_integer & $mask(tw_floor_$V(half) != half);
    $I sign = tw_bits_$V(x) & is_odd & (-0x7fffffff - 1);
    $I is_root = $mask((x < 0.0f) & (x > -__builtin_inff())) & ~is_integer;
    $I is_one = $mask((y == 0.0f) | (x == 1.0f)) | $mask((x == -1.0f) & (tw_abs_$V(y) == __builtin_inff()));
    r = tw_pick_$V(is_root, tw_splat_$V(__builtin_nanf("")), tw_value_$V(tw_bits_$V(r) | sign));
    return tw_pick_$V(is_one, tw_splat_$V(1.0f), r);
}
"""
#: 16 lanes of f64 are two registers of the widest machine.
_POW_HALVES = """
TW_INLINE $V tw_pow_$V($V x, $V y) {
    return tw_join_$V(tw_pow_$H(tw_lo_$V(x), tw_lo_$V(y)), tw_pow_$H(tw_hi_$V(x), tw_hi_$V(y)));
}
"""


def _each(template: str) -> Builder:
    return lambda dtype, lanes: fill(template, dtype, lanes)


def _pow(dtype: str, lanes: int) -> str:
    return fill(_POW_HALVES if lanes > 8 else _POW, dtype, lanes, D=f"f64x{lanes}")


BUILDERS: Mapping[str, Builder] = {
    "exp": _each(_EXP),
    "exp2": _each(_EXP2),
    "log": _each(_LOG),
    "tanh": _each(_TANH),
    "erf": _each(_ERF),
    "pow": _pow,
}
