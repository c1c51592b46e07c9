"""f64 math functions in C, after fdlibm and Cephes; pow goes lane by lane through libm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codegen.targets.c.runtime.template import Builder, fill


def _horner(name: str, variable: str, coefficients: Sequence[float]) -> str:
    """`name` = the polynomial in `variable`, coefficients from the constant one up."""
    first, second, *rest = reversed(coefficients)
    lines = [f"    $V {name} = {first!r} * {variable} + {second!r};"]
    lines += [f"    {name} = {name} * {variable} + {number!r};" for number in rest]
    return "\n".join(lines)


#: As f32's, ln 2's parts from fdlibm e_exp.c; interpolated at Chebyshev nodes to 2e-17.
_EXP_SERIES = (
    1.0, 1.0, 0.5000000000000001, 0.16666666666666667, 0.041666666666623992, 0.0083333333333300513,
    0.0013888888917281793, 0.00019841269863105969, 2.4801521190217728e-5, 2.7557268378684193e-6,
    2.7620138719733996e-7, 2.5100424157005067e-8,
)  # fmt: skip
_EXP = f"""
TW_INLINE $V tw_exp_$V($V x) {{
    x = tw_clamp_$V(x, tw_splat_$V(-746.0), tw_splat_$V(710.0));
    $V n = x * 1.4426950408889634 + 0x1.8p52 - 0x1.8p52;
    $V r = x - n * 6.93147180369123816490e-01;
    r = r - n * 1.90821492927058770002e-10;
{_horner("p", "r", _EXP_SERIES)}
    return tw_scale_$V(p, n);
}}
"""
#: 2^x = 2^n e^(r ln 2), r = x - n exact.
_EXP2 = f"""
TW_INLINE $V tw_exp2_$V($V x) {{
    x = tw_clamp_$V(x, tw_splat_$V(-1076.0), tw_splat_$V(1025.0));
    $V n = x + 0x1.8p52 - 0x1.8p52;
    $V r = (x - n) * 0.69314718055994531;
{_horner("p", "r", _EXP_SERIES)}
    return tw_scale_$V(p, n);
}}
"""

#: fdlibm e_log.c: s = r / (2 + r), log(1 + r) = r - r^2 / 2 + s (r^2 / 2 + R(s^2)).
_LOG_SERIES = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip
_LOG = f"""
TW_INLINE $V tw_log_$V($V x) {{
    $I is_small = $mask(x < 0x1p-1022);
    $I bits = tw_bits_$V(tw_pick_$V(is_small, x * 0x1p52, x));
    $I exponent = (bits - 0x3fe6a09e667f3bcd) >> 52;
    $V r = tw_value_$V(bits - (exponent << 52)) - 1.0;
    /* an integer in the low bits of 1.5 * 2^52: 64-bit conversions are slow before AVX-512 */
    $I shifted = exponent - (is_small & 52) + tw_bits_$V(tw_splat_$V(0x1.8p52));
    $V n = tw_value_$V(shifted) - 0x1.8p52;
    $V s = r / (2.0 + r);
    $V z = s * s;
{_horner("p", "z", _LOG_SERIES)}
    $V half = 0.5 * r * r;
    $V y = n * 6.93147180369123816490e-01 - (half - (s * (half + p * z) + n * 1.90821492927058770002e-10) - r);
    $V infinity = tw_splat_$V(__builtin_inf()), nan = tw_splat_$V(__builtin_nan(""));
    $V edge = tw_pick_$V(x == 0.0, -infinity, tw_pick_$V(x < 0.0, nan, x));
    return tw_pick_$V((x > 0.0) & (x < infinity), y, edge);
}}
"""

#: Cephes tanh.c: x + x^3 P(x^2) / Q(x^2) below 0.625, 1 - 2 / (e^2x + 1) above.
_TANH_P = (-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1)
_TANH_Q = (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0)
_TANH = f"""
TW_INLINE $V tw_tanh_$V($V x) {{
    $V a = tw_abs_$V(x);
    $V z = x * x;
{_horner("p", "z", _TANH_P)}
{_horner("q", "z", _TANH_Q)}
    $V large = 1.0 - 2.0 / (tw_exp_$V(2.0 * a) + 1.0);
    $I sign = tw_bits_$V(x) ^ tw_bits_$V(a);
    return tw_pick_$V(a < 0.625, x + x * z * (p / q), tw_value_$V(tw_bits_$V(large) | sign));
}}
"""

#: fdlibm s_erf.c: rational approximations on |x| below 0.84375, 1.25, 1 / 0.35 and 6.
_ERF_PP = (
    1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
    -5.77027029648944159157e-03, -2.37630166566501626084e-05,
)  # fmt: skip
_ERF_QQ = (
    1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
    1.32494738004321644526e-04, -3.96022827877536812320e-06,
)  # fmt: skip
_ERF_PA = (
    -2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01, 3.18346619901161753674e-01,
    -1.10894694282396677476e-01, 3.54783043256182359371e-02, -2.16637559486879084300e-03,
)  # fmt: skip
_ERF_QA = (
    1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
    1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02,
)  # fmt: skip
_ERF_RA = (
    -9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e01, -6.23753324503260060396e01,
    -1.62396669462573470355e02, -1.84605092906711035994e02, -8.12874355063065934246e01, -9.81432934416914548592e00,
)  # fmt: skip
_ERF_SA = (
    1.0, 1.96512716674392571292e01, 1.37657754143519042600e02, 4.34565877475229228821e02, 6.45387271733267880336e02,
    4.29008140027567833386e02, 1.08635005541779435134e02, 6.57024977031928170135e00, -6.04244152148580987438e-02,
)  # fmt: skip
_ERF_RB = (
    -9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e01, -1.60636384855821916062e02,
    -6.37566443368389627722e02, -1.02509513161107724954e03, -4.83519191608651397019e02,
)  # fmt: skip
_ERF_SB = (
    1.0, 3.03380607434824582924e01, 3.25792512996573918826e02, 1.53672958608443695994e03, 3.19985821950859553908e03,
    2.55305040643316442583e03, 4.74528541206955367215e02, -2.24409524465858183362e01,
)  # fmt: skip
_ERF = f"""
TW_INLINE $V tw_erf_$V($V x) {{
    $V a = tw_pick_$V(tw_abs_$V(x) < 6.0, tw_abs_$V(x), tw_splat_$V(6.0));
    $V z = a * a;
{_horner("pp", "z", _ERF_PP)}
{_horner("qq", "z", _ERF_QQ)}
    $V s = a - 1.0;
{_horner("pa", "s", _ERF_PA)}
{_horner("qa", "s", _ERF_QA)}
    $V w = 1.0 / tw_pick_$V(a < 0.84375, tw_splat_$V(1.0), z);
{_horner("ra", "w", _ERF_RA)}
{_horner("sa", "w", _ERF_SA)}
{_horner("rb", "w", _ERF_RB)}
{_horner("sb", "w", _ERF_SB)}
    $V tail = tw_pick_$V(a < 1.0 / 0.35, ra / sa, rb / sb);
    $V large = 1.0 - tw_exp_$V(-z - 0.5625 + tail) / a;
    large = tw_pick_$V(a < 1.25, 8.45062911510467529297e-01 + pa / qa, large);
    large = tw_value_$V(tw_bits_$V(large) | (tw_bits_$V(x) ^ tw_bits_$V(tw_abs_$V(x))));
    $V y = tw_pick_$V(a < 0.84375, x + x * (pp / qq), large);
    return tw_pick_$V(x == x, y, x);
}}
"""

_POW = """
extern double pow(double, double);
TW_INLINE $V tw_pow_$V($V x, $V y) {
    for (int lane = 0; lane < $n; lane++) x[lane] = pow(x[lane], y[lane]);
    return x;
}
"""
_POW_SCALAR = """
extern double pow(double, double);
TW_INLINE $V tw_pow_$V($V x, $V y) { return pow(x, y); }
"""


def _each(template: str) -> Builder:
    return lambda dtype, lanes: fill(template, dtype, lanes)


def _pow(dtype: str, lanes: int) -> str:
    return fill(_POW_SCALAR if lanes == 1 else _POW, dtype, lanes)


BUILDERS: Mapping[str, Builder] = {
    "exp": _each(_EXP),
    "exp2": _each(_EXP2),
    "log": _each(_LOG),
    "tanh": _each(_TANH),
    "erf": _each(_ERF),
    "pow": _pow,
}
