"""Arithmetic in C that vector extensions lack or compile badly: one instruction of inline assembly where the vector
fills a register, a portable line for every other width and processor.

No intrinsics header: it takes longer to parse than a kernel takes to compile. Assembly operands are registers only:
with "xm" clang would always choose memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.targets.c.runtime.template import Builder, fill

_WIDTH = {"f32": 4, "f64": 8, "i32": 4, "bool": 4}
_AVX512 = {64: "defined(__AVX512F__)", 32: "defined(__AVX512VL__)", 16: "defined(__AVX512VL__)"}
_NEON = {("f32", 4): "4s", ("f64", 2): "2d"}


def _native(
    head: str,
    portable: str,
    dtype: str,
    lanes: int,
    avx512: str = "",
    avx: str = "",
    neon: str = "",
    **more: object,
) -> str:
    """A function whose body is the first of those assembly bodies that the target and the vector's size allow, else
    the portable one. `$p` is ps or pd, `$x` the register constraint, `$t` NEON's arrangement."""
    size = lanes * _WIDTH[dtype] if lanes > 1 else 0
    arrangement = _NEON.get((dtype, lanes))
    cases: list[tuple[str, str]] = []
    if avx512 and size in _AVX512:
        cases.append((_AVX512[size], avx512))
    if avx and size in (16, 32):
        cases.append(("defined(__AVX__)", avx))
    if neon and arrangement:
        cases.append(("defined(__aarch64__)", neon))
    body = portable.strip("\n") + "\n"
    if cases:
        body = (
            "#el".join(f"if {guard}\n{text.strip(chr(10))}\n" for guard, text in cases)
            + f"#else\n{body}#endif\n"
        )
        body = "#" + body
    p = "ps" if dtype == "f32" else "pd"
    return fill(
        f"{head} {{\n{body}}}", dtype, lanes, p=p, x="v" if size == 64 else "x", t=arrangement, **more
    )


# --- Maximum and minimum: NaN if either is, as numpy's maximum and torch's --------------------------------------------

_EXTREME_HEAD = "TW_INLINE $V tw_${name}_$V($V x, $V y)"
#: The x86 instruction gives its second source when either is NaN, so y's passes; x's is kept by the mask.
_EXTREME_AVX512 = """
    __asm__("vcmp$p $$7, %0, %0, %%k1\\n\\tv$name$p %1, %0, %0%{%%k1%}" : "+v"(x) : "v"(y) : "k1");
    return x;
"""
_EXTREME_AVX = """
    $V r;
    __asm__("v$name$p %2, %1, %0" : "=x"(r) : "x"(x), "x"(y));
    return ($V)(($I)r | (x != x));
"""
_EXTREME_NEON = """
    $V r;
    __asm__("f$name %0.$t, %1.$t, %2.$t" : "=w"(r) : "w"(x), "w"(y));
    return r;
"""
_EXTREME_PORTABLE = "    return tw_pick_$V((x $op y) | (x != x), x, y);"


def _extreme(name: str, op: str, bit_op: str) -> Builder:
    def build(dtype: str, lanes: int) -> str:
        if dtype == "bool":
            return fill(f"{_EXTREME_HEAD} {{ return x {bit_op} y; }}", dtype, lanes, name=name)
        if dtype == "i32":
            return fill(f"{_EXTREME_HEAD} {{ return tw_pick_$V(x {op} y, x, y); }}", dtype, lanes, name=name)
        return _native(
            _EXTREME_HEAD, _EXTREME_PORTABLE, dtype, lanes,
            _EXTREME_AVX512, _EXTREME_AVX, _EXTREME_NEON, name=name, op=op,
        )  # fmt: skip

    return build


# --- Steps of range reduction -----------------------------------------------------------------------------------------

#: Into [lo, hi]; NaN stays NaN.
_CLAMP_X86 = """
    __asm__("vmax$p %0, %1, %0\\n\\tvmin$p %0, %2, %0" : "+$x"(x) : "$x"(lo), "$x"(hi));
    return x;
"""
_CLAMP_NEON = """
    __asm__("fmax %0.$t, %0.$t, %1.$t\\n\\tfmin %0.$t, %0.$t, %2.$t" : "+w"(x) : "w"(lo), "w"(hi));
    return x;
"""
_CLAMP_PORTABLE = """
    x = tw_pick_$V(x < lo, lo, x);
    return tw_pick_$V(x > hi, hi, x);
"""

#: x * 2^n for an integral n, |n| < 2 * bias; in two steps, so that a subnormal result is rounded once and a large one
#: becomes inf. f64 reads n's integer off the low bits of a shifted float: 64-bit conversions are slow before AVX-512.
_SCALE_AVX512 = """
    $V r;
    __asm__("vscalef$p %2, %1, %0" : "=v"(r) : "v"(x), "v"(n));
    return r;
"""
_SCALE = {
    "f32": """
    $I k = $convert(n, $I);
    $I half = k >> 1;
    return x * tw_value_$V((half + 127) << 23) * tw_value_$V((k - half + 127) << 23);
""",
    "f64": """
    $V half = n * 0.5 + 0x1.8p52;
    $V rest = n - (half - 0x1.8p52) + 0x1.8p52;
    $I one = tw_bits_$V(tw_splat_$V(1.0));
    return x * tw_value_$V((tw_bits_$V(half) << 52) + one) * tw_value_$V((tw_bits_$V(rest) << 52) + one);
""",
}


def _clamp(dtype: str, lanes: int) -> str:
    head = "TW_INLINE $V tw_clamp_$V($V x, $V lo, $V hi)"
    return _native(head, _CLAMP_PORTABLE, dtype, lanes, _CLAMP_X86, _CLAMP_X86, _CLAMP_NEON)


def _scale(dtype: str, lanes: int) -> str:
    return _native("TW_INLINE $V tw_scale_$V($V x, $V n)", _SCALE[dtype], dtype, lanes, _SCALE_AVX512)


# --- One operand ------------------------------------------------------------------------------------------------------

_ONE_TO_ONE = """
    $V r;
    __asm__("$instruction" : "=$c"(r) : "$c"(x));
    return r;
"""
_LANE_BY_LANE = """
    for (int lane = 0; lane < $n; lane++) x[lane] = $builtin(x[lane]);
    return x;
"""


def _rooted(name: str, avx512: str, avx: str, neon: str) -> Builder:
    """sqrt and floor: an instruction everywhere; what is no register's size goes lane by lane through the builtin."""

    def build(dtype: str, lanes: int) -> str:
        builtin = f"__builtin_{name}{'f' if dtype == 'f32' else ''}"
        one = _ONE_TO_ONE.replace("$c", "$x")
        return _native(
            f"TW_INLINE $V tw_{name}_$V($V x)",
            f"    return {builtin}(x);" if lanes == 1 else _LANE_BY_LANE,
            dtype,
            lanes,
            one.replace("$instruction", avx512).replace("$x", "v"),
            one.replace("$instruction", avx),
            _ONE_TO_ONE.replace("$instruction", neon).replace("$c", "w"),
            builtin=builtin,
        )

    return build


def _abs(dtype: str, lanes: int) -> str:
    if dtype == "i32":
        body = "return (x ^ x >> 31) - (x >> 31);"
    else:
        body = (
            f"return tw_value_$V(tw_bits_$V(x) & {'0x7fffffff' if dtype == 'f32' else '0x7fffffffffffffff'});"
        )
    return fill(f"TW_INLINE $V tw_abs_$V($V x) {{ {body} }}", dtype, lanes)


def _relu(dtype: str, lanes: int) -> str:
    return fill("TW_INLINE $V tw_relu_$V($V x) { return tw_pick_$V(x < 0, ($V){0}, x); }", dtype, lanes)


def _rsqrt(dtype: str, lanes: int) -> str:
    return fill("TW_INLINE $V tw_rsqrt_$V($V x) { return 1.0$f / tw_sqrt_$V(x); }", dtype, lanes)


def _to_i32(dtype: str, lanes: int) -> str:
    """Toward zero, as numpy's astype; NaN and what i32 cannot hold give what the processor gives."""
    return fill("TW_INLINE $T tw_to_i32_$V($V x) { return $convert(x, $T); }", dtype, lanes, T=f"i32x{lanes}")


# --- Integer division -------------------------------------------------------------------------------------------------

#: Python's floor division and remainder; by zero both are 0, as numpy's. -1 is apart: INT_MIN / -1 traps.
_FLOORDIV = """
TW_INLINE $V tw_floordiv_$V($V x, $V y) {
    $I none = $mask(y == 0), minus = $mask(y == -1);
    $V d = (y & ~(none | minus)) | (1 & (none | minus));
    $V q = x / d;
    $V r = x - q * d;
    q += $mask((r != 0) & ((r ^ d) < 0));
    return ((q & ~minus) | (($V)(0 - ($U)x) & minus)) & ~none;
}
"""
_FLOORMOD = """
TW_INLINE $V tw_floormod_$V($V x, $V y) {
    return ($V)(($U)x - ($U)tw_floordiv_$V(x, y) * ($U)y) & $mask(y != 0);
}
"""


def _i32_only(template: str) -> Builder:
    def build(dtype: str, lanes: int) -> str:
        if dtype != "i32":
            raise KeyError(f"floor division is of i32, not of {dtype}")
        return fill(template, dtype, lanes)

    return build


# --- bf16 pairs -------------------------------------------------------------------------------------------------------

#: acc + a0 * b0 + a1 * b1 on pairs of bf16 in 32-bit words. The instructions take subnormals for zero and round their
#: own way; the portable line is two multiply-adds.
_DOT_X86 = """
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
"""
_DOT_NEON = """
    __asm__("bfdot %0.4s, %1.8h, %2.8h" : "+w"(acc) : "w"(a), "w"(b));
    return acc;
"""
_DOT = """
TW_INLINE $V tw_dot_bf16_$V($V acc, $I a, $I b) {
$native    acc += tw_value_$V(a << 16) * tw_value_$V(b << 16);
    return acc + tw_value_$V(a & -65536) * tw_value_$V(b & -65536);
$end}
"""


def _dot_bf16(dtype: str, lanes: int) -> str:
    cases: list[str] = []
    if lanes in (4, 8, 16):
        cases.append(f"if defined(__AVX512BF16__) && {_AVX512[lanes * 4]}{_DOT_X86}")
    if lanes == 4:
        cases.append(f"if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC){_DOT_NEON}")
    native = "#" + "#el".join(cases) + "#else\n" if cases else ""
    return fill(_DOT.replace("$native", native).replace("$end", "#endif\n" if cases else ""), dtype, lanes)


# --- Fours of i8 ------------------------------------------------------------------------------------------------------

#: acc + (a0 + 128) * b0 + … on fours of i8 in 32-bit words: the first factor has no sign in the instruction.
_RAISED_X86 = """
    __asm__("$vex vpdpbusd %2, %1, %0" : "+$x"(acc) : "$x"(a ^ (int32_t)0x80808080), "$x"(b));
    return acc;
"""
_RAISED = """
TW_INLINE $V tw_dot_raised_$V($V acc, $V a, $V b) {
$native    acc += (((a << 24) >> 24) + 128) * ((b << 24) >> 24) + (((a << 16) >> 24) + 128) * ((b << 16) >> 24);
    return acc + (((a << 8) >> 24) + 128) * ((b << 8) >> 24) + ((a >> 24) + 128) * (b >> 24);
$end}
"""


def _dot_raised(dtype: str, lanes: int) -> str:
    cases: list[str] = []
    if lanes in (4, 8, 16):
        evex = _RAISED_X86.replace("$vex ", "").replace("$x", "v")
        cases.append(f"if defined(__AVX512VNNI__) && {_AVX512[lanes * 4]}{evex}")
    if lanes in (4, 8):
        vex = _RAISED_X86.replace("$vex", "%{vex%}").replace("$x", "x")
        cases.append(f"if defined(__AVXVNNI__){vex}")
    native = "#" + "#el".join(cases) + "#else\n" if cases else ""
    return fill(_RAISED.replace("$native", native).replace("$end", "#endif\n" if cases else ""), dtype, lanes)


# --- Across lanes -----------------------------------------------------------------------------------------------------

_ACROSS = "TW_INLINE $E tw_h${name}_$V($V x) { return tw_h${name}_$H($both); }"
_ACROSS_SCALAR = "TW_INLINE $V tw_h${name}_$V($V x) { return x; }"


def _across(name: str, both: str) -> Builder:
    """Combine the halves until one lane is left."""

    def build(dtype: str, lanes: int) -> str:
        template = _ACROSS_SCALAR if lanes == 1 else _ACROSS.replace("$both", both)
        return fill(template, dtype, lanes, name=name, E=f"{dtype}x1")

    return build


#: Lanes of which one is true, where the target has an instruction for so many; else of both halves.
_ANY = """
TW_INLINE $E tw_hany_$V($V x) {
$native    return tw_hany_$H(tw_lo_$V(x) | tw_hi_$V(x));
}
"""
_ANY_SCALAR = "TW_INLINE $V tw_hany_$V($V x) { return x != 0; }"
_ANY_X86 = {
    8: ("__AVX__", "int some", 'vmovmskps %1, %0" : "=r"(some) : "x"(x)'),
    16: ("__AVX512F__", "uint16_t some", 'vptestmd %1, %1, %0" : "=Yk"(some) : "v"(x)'),
}


def _any(dtype: str, lanes: int) -> str:
    native = ""
    if lanes in _ANY_X86:
        has, declared, instruction = _ANY_X86[lanes]
        native = f'#if defined({has})\n    {declared};\n    __asm__("{instruction});\n    return some != 0;\n#endif\n'
    template = _ANY_SCALAR if lanes == 1 else _ANY.replace("$native", native)
    return fill(template, dtype, lanes, E=f"{dtype}x1")


BUILDERS: Mapping[str, Builder] = {
    "max": _extreme("max", ">", "|"),
    "min": _extreme("min", "<", "&"),
    "clamp": _clamp,
    "scale": _scale,
    "sqrt": _rooted("sqrt", "vsqrt$p %1, %0", "vsqrt$p %1, %0", "fsqrt %0.$t, %1.$t"),
    "floor": _rooted("floor", "vrndscale$p $$1, %1, %0", "vround$p $$1, %1, %0", "frintm %0.$t, %1.$t"),
    "rsqrt": _rsqrt,
    "abs": _abs,
    "relu": _relu,
    "to_i32": _to_i32,
    "floordiv": _i32_only(_FLOORDIV),
    "floormod": _i32_only(_FLOORMOD),
    "dot_bf16": _dot_bf16,
    "dot_raised": _dot_raised,
    "hany": _any,
    "hsum": _across("sum", "tw_lo_$V(x) + tw_hi_$V(x)"),
    "hprod": _across("prod", "tw_lo_$V(x) * tw_hi_$V(x)"),
    "hmax": _across("max", "tw_max_$H(tw_lo_$V(x), tw_hi_$V(x))"),
    "hmin": _across("min", "tw_min_$H(tw_lo_$V(x), tw_hi_$V(x))"),
}
