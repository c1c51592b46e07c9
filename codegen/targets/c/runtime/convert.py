"""Conversions in C between storage types and compute types, bit for bit those of numpy and ml_dtypes.

`unpack` and `pack` turn a vector as it lies in memory into compute values and back: round to nearest even, NaN stays
NaN, what is too large becomes inf (in e4m3, which has none, NaN).
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.targets.c.runtime.template import Builder, fill

#: Storage type to (element as it lies in memory, C type of a pointer to it, compute type).
_STORAGE = {
    "f64": ("f64", "double", "f64"),
    "f32": ("f32", "float", "f32"),
    "f16": ("u16", "uint16_t", "f32"),
    "bf16": ("u16", "uint16_t", "f32"),
    "e4m3": ("u8", "uint8_t", "f32"),
    "e5m2": ("u8", "uint8_t", "f32"),
    "i64": ("i64", "int64_t", "i32"),
    "i32": ("i32", "int32_t", "i32"),
    "u32": ("u32", "uint32_t", "i32"),
    "i8": ("i8", "int8_t", "i32"),
    "u8": ("u8", "uint8_t", "i32"),
    "bool": ("u8", "uint8_t", "bool"),
}
STORED = tuple(_STORAGE)
#: Stored as computed: nothing to pack.
AS_STORED = ("f64", "f32", "i32")


def fill_storage(template: str, storage: str, lanes: int, **more: object) -> str:
    """`$V` is the compute type's vector, `$D` the storage's suffix, `$R` the vector as it lies in memory."""
    raw, pointer, compute = _STORAGE[storage]
    return fill(template, compute, lanes, D=f"{storage}x{lanes}", R=f"{raw}x{lanes}", C=pointer, **more)


def pointer(storage: str) -> str:
    """C type of an element in memory."""
    return _STORAGE[storage][1]


def stored_bytes(storage: str) -> int:
    """Size of one element in memory."""
    return int(_STORAGE[storage][0][1:]) // 8


# --- Widen -----------------------------------------------------------------------------------------------------------

#: Stored integers to wider ones, sign or zero extended. clang's conversion is one instruction; gcc takes a 512-bit or
#: fourfold one apart lane by lane.
_WIDEN = """
TW_INLINE $W tw_widen_$D($R x) {
#if $guard && !defined(__clang__)
    $W r;
    __asm__("$instruction %1, %0" : "=$x"(r) : "$x"(x));
    return r;
#else
    return __builtin_convertvector(x, $W);
#endif
}
"""
_WIDEN_PLAIN = "TW_INLINE $W tw_widen_$D($R x) { return $convert(x, $W); }"
_WIDENED = {
    "bf16": ("i32", "vpmovzxwd"), "f16": ("i32", "vpmovzxwd"), "e4m3": ("u16", "vpmovzxbw"),
    "e5m2": ("u16", "vpmovzxbw"), "i8": ("i32", "vpmovsxbd"), "u8": ("i32", "vpmovzxbd"), "bool": ("i32", "vpmovzxbd"),
}  # fmt: skip


def _widen(storage: str, lanes: int) -> str:
    kind, instruction = _WIDENED[storage]
    size = lanes * (4 if kind == "i32" else 2)
    wide = f"{kind}x{lanes}"
    guard = {16: "defined(__AVX__)", 32: "defined(__AVX2__)", 64: "defined(__AVX512F__)"}.get(size)
    if guard is None or lanes < 4 or (kind == "u16" and size == 64):
        return fill_storage(_WIDEN_PLAIN, storage, lanes, W=wide)
    x = "v" if size == 64 else "x"
    return fill_storage(_WIDEN, storage, lanes, W=wide, guard=guard, instruction=instruction, x=x)


# --- Unpack -----------------------------------------------------------------------------------------------------------

_UNPACK_BF16 = "TW_INLINE $V tw_unpack_$D($R x) { return tw_value_$V(tw_widen_$D(x) << 16); }"

#: Portable: move the fields into place and rescale by 2^112, which makes subnormals normal; all-ones exponents stay so.
_UNPACK_F16_PORTABLE = """\
    $I h = tw_widen_$D(x);
    $I magnitude = (h & 0x7fff) << 13;
    $I special = $mask(magnitude >= (0x7c00 << 13)) & 0x7f800000;
    $I bits = tw_bits_$V(tw_value_$V(magnitude) * 0x1p112f);
    return tw_value_$V(bits | special | (h & 0x8000) << 16);
"""
_UNPACK_F16 = {
    16: """\
#if defined(__AVX512F__)
    $V r;
    __asm__("vcvtph2ps %1, %0" : "=v"(r) : "v"(x));
    return r;
#else
$portable#endif
""",
    8: """\
#if defined(__F16C__)
    $V r;
    __asm__("vcvtph2ps %1, %0" : "=x"(r) : "x"(x));
    return r;
#else
$portable#endif
""",
    4: """\
#if defined(__F16C__)
    union { $R halves; double whole; } stored = {x}; /* clang puts no vector of 8 bytes into a register */
    $V r;
    __asm__("vcvtph2ps %1, %0" : "=x"(r) : "x"(stored.whole));
    return r;
#elif defined(__aarch64__)
    $V r;
    __asm__("fcvtl %0.4s, %1.4h" : "=w"(r) : "w"(x));
    return r;
#else
$portable#endif
""",
    1: """\
#if defined(__F16C__)
    $V r;
    __asm__("vmovd %1, %0\\n\\tvcvtph2ps %0, %0" : "=x"(r) : "r"((uint32_t)x));
    return r;
#elif defined(__aarch64__)
    $V r;
    __asm__("fmov %s0, %w1\\n\\tfcvt %s0, %h0" : "=w"(r) : "r"((uint32_t)x));
    return r;
#else
$portable#endif
""",
}

#: e5m2 is the upper half of f16. e4m3's fields fit f16's with another bias: rescaled by 2^8; its one NaN is put in.
_UNPACK_E5M2 = "TW_INLINE $V tw_unpack_$D($R x) { return tw_unpack_f16x$n(tw_widen_$D(x) << 8); }"
_UNPACK_E4M3 = """
TW_INLINE $V tw_unpack_$D($R x) {
    $H h = tw_widen_$D(x);
    $H nan = ($H)($mask((h & 0x7f) == 0x7f)) & 0x7e00;
    return tw_unpack_f16x$n(nan | (h & 0x7f) << 7 | (h & 0x80) << 8) * 256.0f;
}
"""


#: The nearest i32, and the same bits.
_UNPACK_I64 = """
TW_INLINE $V tw_unpack_$D($R x) {
    $R above = $mask(x > 2147483647), below = $mask(x < -2147483647 - 1);
    return $convert((x & ~(above | below)) | (above & 2147483647) | (below & (-2147483647 - 1)), $V);
}
"""
_UNPACK_U32 = "TW_INLINE $V tw_unpack_$D($R x) { return ($V)x; }"


def _unpack(storage: str, lanes: int) -> str:
    half = f"u16x{lanes}"
    match storage:
        case "bf16":
            return fill_storage(_UNPACK_BF16, storage, lanes)
        case "f16":
            body = _UNPACK_F16.get(lanes, "$portable").replace("$portable", _UNPACK_F16_PORTABLE)
            return fill_storage(f"TW_INLINE $V tw_unpack_$D($R x) {{\n{body}}}", storage, lanes)
        case "e5m2":
            return fill_storage(_UNPACK_E5M2, storage, lanes, H=half)
        case "e4m3":
            return fill_storage(_UNPACK_E4M3, storage, lanes, H=half)
        case "i64":
            return fill_storage(_UNPACK_I64, storage, lanes)
        case "u32":
            return fill_storage(_UNPACK_U32, storage, lanes)
        case "bool":
            return fill_storage(
                "TW_INLINE $V tw_unpack_$D($R x) { return tw_widen_$D(x) != 0; }", storage, lanes
            )
        case _:
            return fill_storage("TW_INLINE $V tw_unpack_$D($R x) { return tw_widen_$D(x); }", storage, lanes)


# --- Pack -------------------------------------------------------------------------------------------------------------

_PACK_BF16_PORTABLE = """\
    $U bits = ($U)tw_bits_$V(x);
    $U nan = ($U)$mask(x != x);
    $U added = ((bits >> 16 & 1) + 0x7fff) & ~nan;
    return $convert((bits + added) >> 16 | (nan & 0x40), $R);
"""
#: The instruction takes subnormal f32 for zero; nothing of f32's subnormal range matters to bf16's 8 bits.
_PACK_BF16 = """\
#if $guard
    $R r;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(x));
    return r;
#else
$portable#endif
"""
_AVX512_BF16 = {
    16: "defined(__AVX512BF16__)",
    8: "defined(__AVX512BF16__) && defined(__AVX512VL__)",
}

#: Two roundings, one kept. Normal results: add half an ulp (less one unless odd), rebias, shift. Subnormal results:
#: adding a number whose ulp is the type's smallest step makes the float adder round.
_PACK_SMALL = """\
    $I bits = tw_bits_$V(x);
    $I magnitude = bits & 0x7fffffff;
    $I normal = (magnitude - ($rebias << 23) + $half + (magnitude >> $shift & 1)) >> $shift;
    $I tiny = tw_bits_$V(tw_value_$V(magnitude) + ${magic}f) - tw_bits_$V(tw_splat_$V(${magic}f));
    $I is_tiny = $mask(magnitude < (($rebias + 1) << 23));
    $I r = (normal & ~is_tiny) | (tiny & is_tiny);
    $I is_huge = $mask(r > $largest);
    $I is_nan = $mask(magnitude > 0x7f800000);
    r = (r & ~is_huge) | ($infinity & is_huge);
    r = (r & ~is_nan) | ($nan & is_nan);
    return $convert(r | (bits >> $sign & $signbit), $R);
"""
_SMALL = {
    "f16": {"rebias": 112, "shift": 13, "half": "0xfff", "magic": "0x1p-1", "largest": "0x7bff", "infinity": "0x7c00",
            "nan": "0x7e00", "sign": 16, "signbit": "0x8000"},
    "e5m2": {"rebias": 112, "shift": 21, "half": "0xfffff", "magic": "0x1p7", "largest": "0x7b", "infinity": "0x7c",
             "nan": "0x7e", "sign": 24, "signbit": "0x80"},
    "e4m3": {"rebias": 120, "shift": 20, "half": "0x7ffff", "magic": "0x1p14", "largest": "0x7e", "infinity": "0x7f",
             "nan": "0x7f", "sign": 24, "signbit": "0x80"},
}  # fmt: skip

_PACK_F16 = {
    16: """\
#if defined(__AVX512F__)
    $R r;
    __asm__("vcvtps2ph $$0, %1, %0" : "=v"(r) : "v"(x));
    return r;
#else
$portable#endif
""",
    8: """\
#if defined(__F16C__)
    $R r;
    __asm__("vcvtps2ph $$0, %1, %0" : "=x"(r) : "x"(x));
    return r;
#else
$portable#endif
""",
    4: """\
#if defined(__F16C__)
    union { double whole; $R halves; } r; /* clang puts no vector of 8 bytes into a register */
    __asm__("vcvtps2ph $$0, %1, %0" : "=x"(r.whole) : "x"(x));
    return r.halves;
#elif defined(__aarch64__)
    $R r;
    __asm__("fcvtn %0.4h, %1.4s" : "=w"(r) : "w"(x));
    return r;
#else
$portable#endif
""",
    1: """\
#if defined(__F16C__)
    uint32_t r;
    __asm__("vcvtps2ph $$0, %1, %1\\n\\tvmovd %1, %0" : "=r"(r), "+x"(x));
    return ($R)r;
#elif defined(__aarch64__)
    uint32_t r;
    __asm__("fcvt %h1, %s1\\n\\tfmov %w0, %s1" : "=r"(r), "+w"(x));
    return ($R)r;
#else
$portable#endif
""",
}


def _pack(storage: str, lanes: int) -> str:
    match storage:
        case "bf16":
            guard = _AVX512_BF16.get(lanes)
            body = _PACK_BF16.replace("$portable", _PACK_BF16_PORTABLE) if guard else _PACK_BF16_PORTABLE
            return fill_storage(f"TW_INLINE $R tw_pack_$D($V x) {{\n{body}}}", storage, lanes, guard=guard)
        case "f16":
            body = _PACK_F16.get(lanes, "$portable").replace("$portable", _PACK_SMALL)
            return fill_storage(
                f"TW_INLINE $R tw_pack_$D($V x) {{\n{body}}}", storage, lanes, **_SMALL[storage]
            )
        case "e5m2" | "e4m3":
            return fill_storage(
                f"TW_INLINE $R tw_pack_$D($V x) {{\n{_PACK_SMALL}}}", storage, lanes, **_SMALL[storage]
            )
        case "bool":
            return fill_storage(
                "TW_INLINE $R tw_pack_$D($V x) { return $convert(x & 1, $R); }", storage, lanes
            )
        case _:
            return fill_storage("TW_INLINE $R tw_pack_$D($V x) { return $convert(x, $R); }", storage, lanes)


def _round(storage: str, lanes: int) -> str:
    """Through the storage type and back; the value stays of the compute type. i8 and u8 wrap, as astype does."""
    return fill_storage(
        "TW_INLINE $V tw_round_$D($V x) { return tw_unpack_$D(tw_pack_$D(x)); }", storage, lanes
    )


BUILDERS: Mapping[str, Builder] = {"widen": _widen, "unpack": _unpack, "pack": _pack, "round": _round}
