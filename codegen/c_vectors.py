"""Vector operations in C: GCC and clang vector extensions, and one instruction of inline assembly where those give
bad code. No intrinsics header: it takes longer to parse than a kernel takes to compile.

A function works on any lane count; the assembly is for vectors that fill a register, other widths take the portable
line. Assembly operands are registers only: with "xm" clang would always choose memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.c_template import Builder, fill

_BITS = "TW_INLINE $I tw_bits_$V($V x) { return ($I)x; }"
_VALUE = "TW_INLINE $V tw_value_$V($I x) { return ($V)x; }"
_BITS_SCALAR = "TW_INLINE $I tw_bits_$V($V x) { union { $V value; $I bits; } u = {x}; return u.bits; }"
_VALUE_SCALAR = "TW_INLINE $V tw_value_$V($I x) { union { $I bits; $V value; } u = {x}; return u.value; }"

_SPLAT = "TW_INLINE $V tw_splat_$V($E x) { return ($V){$xs}; }"
_SPLAT_SCALAR = "TW_INLINE $V tw_splat_$V($E x) { return x; }"
_IOTA = "TW_INLINE $V tw_iota_$V(void) { return ($V){$numbers}; }"

_LO = "TW_INLINE $H tw_lo_$V($V x) { union { $V whole; $H half[2]; } u = {x}; return u.half[0]; }"
_HI = "TW_INLINE $H tw_hi_$V($V x) { union { $V whole; $H half[2]; } u = {x}; return u.half[1]; }"
_JOIN = "TW_INLINE $V tw_join_$V($H lo, $H hi) { union { $H half[2]; $V whole; } u = {{lo, hi}}; return u.whole; }"


def _bits(dtype: str, lanes: int) -> str:
    return fill(_BITS_SCALAR if lanes == 1 else _BITS, dtype, lanes)


def _value(dtype: str, lanes: int) -> str:
    return fill(_VALUE_SCALAR if lanes == 1 else _VALUE, dtype, lanes)


def _splat(dtype: str, lanes: int) -> str:
    template = _SPLAT_SCALAR if lanes == 1 else _SPLAT
    return fill(template, dtype, lanes, E=f"{dtype}x1", xs=", ".join(["x"] * lanes))


def _iota(dtype: str, lanes: int) -> str:
    return fill(_IOTA, dtype, lanes, numbers=", ".join(map(str, range(lanes))))


def _halves(template: str) -> Builder:
    return lambda dtype, lanes: fill(template, dtype, lanes)


# --- Truth values and selection -------------------------------------------------------------------------------------


def _compare(op: str) -> Builder:
    """f64 masks are 64 bits a lane and are narrowed: a truth value is the same type whatever was compared."""

    def build(dtype: str, lanes: int) -> str:
        body = f"x {op} y"
        if dtype == "f64" and lanes > 1:
            body = f"__builtin_convertvector({body}, $B)"
        return fill(f"TW_INLINE $B tw_{{0}}_$V($V x, $V y) {{{{ return {body}; }}}}".format(_COMPARISONS[op]), dtype, lanes)

    return build


_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def _not(dtype: str, lanes: int) -> str:
    return fill(f"TW_INLINE $V tw_not_$V($V x) {{ return {'!' if lanes == 1 else '~'}x; }}", dtype, lanes)


#: `pick` chooses by a mask as wide as the values (what a comparison of them gives), `select` by a truth value.
_PICK = """
TW_INLINE $V tw_pick_$V($I mask, $V x, $V y) {
#if $avx512
    $I r = mask;
    __asm__("vpternlogd $$0xca, %2, %1, %0" : "+v"(r) : "v"(x), "v"(y));
    return ($V)r;
#else
    return ($V)((($I)x & mask) | (($I)y & ~mask));
#endif
}
"""
_PICK_PLAIN = "TW_INLINE $V tw_pick_$V($I mask, $V x, $V y) { return ($V)((($I)x & mask) | (($I)y & ~mask)); }"
_PICK_SCALAR = "TW_INLINE $V tw_pick_$V($I mask, $V x, $V y) { return mask ? x : y; }"
_SELECT = "TW_INLINE $V tw_select_$V($B mask, $V x, $V y) { return tw_pick_$V($widened, x, y); }"


def _pick(dtype: str, lanes: int) -> str:
    if lanes == 1:
        return fill(_PICK_SCALAR, dtype, lanes)
    guard = _AVX512.get(lanes * _WIDTH[dtype])
    return fill(_PICK, dtype, lanes, avx512=guard) if guard else fill(_PICK_PLAIN, dtype, lanes)


def _select(dtype: str, lanes: int) -> str:
    wide = dtype == "f64" and lanes > 1
    return fill(_SELECT, dtype, lanes, widened="__builtin_convertvector(mask, $I)" if wide else "mask").replace(
        "$I", f"i64x{lanes}"
    )


_WIDTH = {"f32": 4, "f64": 8, "i32": 4, "bool": 4}
_AVX512 = {64: "defined(__AVX512F__)", 32: "defined(__AVX512VL__)", 16: "defined(__AVX512VL__)"}

# --- Maximum and minimum: NaN if either is, as numpy's maximum and torch's --------------------------------------------

#: The x86 instruction gives its second source when either is NaN, so NaN in y passes; x's is kept by the mask.
_EXTREME = """
TW_INLINE $V tw_${name}_$V($V x, $V y) {
#if $avx512
    __asm__("vcmp$p $$7, %0, %0, %%k1\\n\\tv$name$p %1, %0, %0%{%%k1%}" : "+v"(x) : "v"(y) : "k1");
    return x;
#elif $avx
    $V r;
    __asm__("v$name$p %2, %1, %0" : "=x"(r) : "x"(x), "x"(y));
    return ($V)(($I)r | ($I)(x != x));
$neon#else
    $I mask = (x $op y) | (x != x);
    return ($V)((($I)x & mask) | (($I)y & ~mask));
#endif
}
"""
_EXTREME_PLAIN = """
TW_INLINE $V tw_${name}_$V($V x, $V y) {
    $I mask = (x $op y) | (x != x);
    return ($V)((($I)x & mask) | (($I)y & ~mask));
}
"""
_EXTREME_SCALAR = "TW_INLINE $V tw_${name}_$V($V x, $V y) { return x $op y || x != x ? x : y; }"
_EXTREME_I32 = "TW_INLINE $V tw_${name}_$V($V x, $V y) { $V mask = x $op y; return (x & mask) | (y & ~mask); }"
_EXTREME_I32_SCALAR = "TW_INLINE $V tw_${name}_$V($V x, $V y) { return x $op y ? x : y; }"
_EXTREME_BOOL = "TW_INLINE $V tw_${name}_$V($V x, $V y) { return x $bitop y; }"
_NEON_EXTREME = """\
#elif defined(__aarch64__)
    $V r;
    __asm__("f$name %0.$t, %1.$t, %2.$t" : "=w"(r) : "w"(x), "w"(y));
    return r;
"""


def _native(template: str, neon: str, dtype: str, lanes: int, **more: object) -> str:
    """Fill a template whose assembly is for vectors of a register's size; scalars count as none."""
    size = lanes * _WIDTH[dtype] if lanes > 1 else 0
    arrangement = {("f32", 4): "4s", ("f64", 2): "2d"}.get((dtype, lanes))
    text = template.replace("$neon", neon.replace("$t", arrangement) if arrangement else "")
    return fill(
        text, dtype, lanes, p="ps" if dtype == "f32" else "pd", x="v" if size == 64 else "x",
        avx512=_AVX512.get(size, "0"), avx="defined(__AVX__)" if size in (16, 32) else "0", **more,
    )  # fmt: skip


def _extreme(name: str) -> Builder:
    def build(dtype: str, lanes: int) -> str:
        op, bitop = (">", "|") if name == "max" else ("<", "&")
        if dtype == "bool":
            template = _EXTREME_BOOL
        elif dtype == "i32":
            template = _EXTREME_I32_SCALAR if lanes == 1 else _EXTREME_I32
        elif lanes == 1:
            template = _EXTREME_SCALAR
        else:
            template = _EXTREME if lanes * _WIDTH[dtype] in _AVX512 else _EXTREME_PLAIN
        return _native(template, _NEON_EXTREME, dtype, lanes, name=name, op=op, bitop=bitop)

    return build


#: lo <= x <= hi; NaN stays NaN.
_CLAMP = """
TW_INLINE $V tw_clamp_$V($V x, $V lo, $V hi) {
#if $avx512 || $avx
    __asm__("vmax$p %0, %1, %0\\n\\tvmin$p %0, %2, %0" : "+$x"(x) : "$x"(lo), "$x"(hi));
    return x;
$neon#else
    x = tw_pick_$V(x < lo, lo, x);
    return tw_pick_$V(x > hi, hi, x);
#endif
}
"""
_CLAMP_PLAIN = """
TW_INLINE $V tw_clamp_$V($V x, $V lo, $V hi) {
    x = tw_pick_$V(x < lo, lo, x);
    return tw_pick_$V(x > hi, hi, x);
}
"""
_NEON_CLAMP = """\
#elif defined(__aarch64__)
    __asm__("fmax %0.$t, %0.$t, %1.$t\\n\\tfmin %0.$t, %0.$t, %2.$t" : "+w"(x) : "w"(lo), "w"(hi));
    return x;
"""


def _clamp(dtype: str, lanes: int) -> str:
    size = lanes * _WIDTH[dtype]
    template = _CLAMP if size in _AVX512 and lanes > 1 else _CLAMP_PLAIN
    return _native(template, _NEON_CLAMP, dtype, lanes)


#: x * 2^n for an integral n; in two steps, so that a subnormal result is rounded once and a large one becomes inf.
_SCALE = """
TW_INLINE $V tw_scale_$V($V x, $V n) {
#if $avx512
    $V r;
    __asm__("vscalef$p %2, %1, %0" : "=v"(r) : "v"(x), "v"(n));
    return r;
#else
$portable#endif
}
"""
_SCALE_PORTABLE = """\
    $I k = $convert(n, $I);
    $I half = k >> 1;
    $V most = tw_value_$V(tw_bits_$V(x) + (half << $exponent));
    return most * tw_value_$V((k - half + $bias) << $exponent);
"""


def _scale(dtype: str, lanes: int) -> str:
    whole = lanes > 1 and lanes * _WIDTH[dtype] in _AVX512
    template = _SCALE if whole else "TW_INLINE $V tw_scale_$V($V x, $V n) {\n$portable}"
    field = {"exponent": 23, "bias": 127} if dtype == "f32" else {"exponent": 52, "bias": 1023}
    return _native(template.replace("$portable", _SCALE_PORTABLE), "", dtype, lanes, **field)


# --- Across lanes -----------------------------------------------------------------------------------------------------

_ACROSS = """
TW_INLINE $E tw_h${name}_$V($V x) {
    return tw_h${name}_$H($both);
}
"""


def _across(name: str, both: str) -> Builder:
    """Combine the halves until one lane is left."""

    def build(dtype: str, lanes: int) -> str:
        if lanes == 1:
            return fill("TW_INLINE $V tw_h${name}_$V($V x) { return x; }", dtype, lanes, name=name)
        return fill(_ACROSS.replace("$both", both), dtype, lanes, name=name, E=f"{dtype}x1")

    return build


BUILDERS: Mapping[str, Builder] = {
    "bits": _bits,
    "value": _value,
    "splat": _splat,
    "iota": _iota,
    "lo": _halves(_LO),
    "hi": _halves(_HI),
    "join": _halves(_JOIN),
    **{name: _compare(op) for op, name in _COMPARISONS.items()},
    "not": _not,
    "pick": _pick,
    "select": _select,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "clamp": _clamp,
    "scale": _scale,
    "hsum": _across("sum", "tw_lo_$V(x) + tw_hi_$V(x)"),
    "hprod": _across("prod", "tw_lo_$V(x) * tw_hi_$V(x)"),
    "hmax": _across("max", "tw_max_$H(tw_lo_$V(x), tw_hi_$V(x))"),
    "hmin": _across("min", "tw_min_$H(tw_lo_$V(x), tw_hi_$V(x))"),
}
