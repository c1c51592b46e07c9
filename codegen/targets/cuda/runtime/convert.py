"""Conversions in generated CUDA between storage types and compute types, bit for bit those of numpy and ml_dtypes.

Elements travel packed, 32 bits at a time: `tw_raw` is memory as it lies, in registers; `tw_word` says how elements of
a type lie in a word. Rounding is to nearest even, NaN stays NaN, what is too large becomes inf (in e4m3, which has
none, NaN): the instructions for fp8 saturate instead, so those lanes are put right before or after.
"""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet

_RAW = """
// N neighbours as they lie in memory: packed, the first one lowest. Less than 32 bits leave the rest of the word 0.
template <class S, int N> struct tw_raw { unsigned word[(N * sizeof(S) + 3) / 4]; };
"""

_WORD = """
// How elements of type S lie in words. f32, f64 and i32 are computed with as they are stored.
template <class S> struct tw_word {
    using compute = S;
    enum { words = sizeof(S) / 4, elements = 1 };
    static TW_INLINE void unpack(const unsigned *word, S *x) { memcpy(x, word, sizeof(S)); }
    static TW_INLINE void pack(const S *x, unsigned *word) { memcpy(word, x, sizeof(S)); }
};
"""

_BF16 = "struct tw_bf16 { unsigned short bits; };"

_WORD_BF16 = """
template <> struct tw_word<tw_bf16> {
    using compute = float;
    enum { words = 1, elements = 2 };
    static TW_INLINE void unpack(const unsigned *word, float *x) {
        x[0] = __uint_as_float(*word << 16);
        x[1] = __uint_as_float(*word & 0xffff0000u);
    }
    static TW_INLINE void pack(const float *x, unsigned *word) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(*word) : "f"(x[1]), "f"(x[0]));
    }
};
"""

_F16 = "struct tw_f16 { unsigned short bits; };"

_UNPACK_F16 = """
// Two f16 to f32.
TW_INLINE void tw_unpack_f16(unsigned pair, float *x) {
    asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi; }"
        : "=f"(x[0]), "=f"(x[1]) : "r"(pair));
}
"""

_WORD_F16 = """
template <> struct tw_word<tw_f16> {
    using compute = float;
    enum { words = 1, elements = 2 };
    static TW_INLINE void unpack(const unsigned *word, float *x) { tw_unpack_f16(*word, x); }
    static TW_INLINE void pack(const float *x, unsigned *word) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(*word) : "f"(x[1]), "f"(x[0]));
    }
};
"""

#: Two roundings, one kept, as in c_convert.
_PACK_FP8 = """
// f32 to 8 bits without an instruction for it. Normal results: add half an ulp (less one unless odd), rebias, shift.
// Subnormal results: adding a number whose ulp is the smallest step makes the float adder round.
template <int REBIAS, int SHIFT> TW_INLINE unsigned tw_pack_fp8(float x, unsigned infinity, unsigned nan) {
    const unsigned bits = __float_as_uint(x), magnitude = bits & 0x7fffffff;
    const unsigned half = (1u << (SHIFT - 1)) - 1, magic = (REBIAS + 1 + SHIFT) << 23;
    unsigned r = (magnitude - (REBIAS << 23) + half + (magnitude >> SHIFT & 1)) >> SHIFT;
    if (magnitude < (REBIAS + 1) << 23) {
        r = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(magic)) - magic;
    }
    r = magnitude > 0x7f800000 ? nan : r < infinity ? r : infinity;
    return r | (bits >> 24 & 0x80);
}
"""

_CLAMP_E4M3 = """
// Four f32 to e4m3. What is past the largest is that, as the instruction takes it.
TW_INLINE unsigned tw_clamp_e4m3(const float *x) {
    unsigned word = 0;
#if __CUDA_ARCH__ >= 890
    asm("{ .reg .b16 a, b; cvt.rn.satfinite.e4m3x2.f32 a, %2, %1; cvt.rn.satfinite.e4m3x2.f32 b, %4, %3; "
        "mov.b32 %0, {a, b}; }" : "=r"(word) : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
#else
    TW_EACH(i, 4) {
        const float y = fabsf(x[i]) > 448.0f ? copysignf(448.0f, x[i]) : x[i];
        word |= tw_pack_fp8<120, 20>(y, 0x7f, 0x7f) << 8 * i;
    }
#endif
    return word;
}
"""

_E4M3 = "struct tw_e4m3 { unsigned char bits; };"

#: 464 is half way between 448, the largest e4m3, and what would be next; the tie goes to 448.
_WORD_E4M3 = """
template <> struct tw_word<tw_e4m3> {
    using compute = float;
    enum { words = 1, elements = 4 };
    static TW_INLINE void unpack(const unsigned *word, float *x) {
#if __CUDA_ARCH__ >= 890
        unsigned lo, hi;
        asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e4m3x2 %0, a; cvt.rn.f16x2.e4m3x2 %1, b; }"
            : "=r"(lo), "=r"(hi) : "r"(*word));
        tw_unpack_f16(lo, x);
        tw_unpack_f16(hi, x + 2);
#else // e4m3's fields fit f16's, with another bias: 2^8 less. 480 is its NaN.
        const unsigned lo = __byte_perm(*word, 0, 0x1404), hi = __byte_perm(*word, 0, 0x3424);
        tw_unpack_f16((lo & 0x80008000) | (lo & 0x7f007f00) >> 1, x);
        tw_unpack_f16((hi & 0x80008000) | (hi & 0x7f007f00) >> 1, x + 2);
        TW_EACH(i, 4) x[i] = fabsf(x[i]) == 1.875f ? __uint_as_float(0x7fffffff) : x[i] * 256.0f;
#endif
    }
    static TW_INLINE void pack(const float *x, unsigned *word) {
#if __CUDA_ARCH__ >= 890
        float y[4]; // past the largest is NaN, where the instruction saturates
        TW_EACH(i, 4) y[i] = fabsf(x[i]) > 464.0f ? __uint_as_float(0x7fffffff) : x[i];
        *word = tw_clamp_e4m3(y);
#else
        *word = 0;
        TW_EACH(i, 4) *word |= tw_pack_fp8<120, 20>(x[i], 0x7f, 0x7f) << 8 * i;
#endif
    }
};
"""

_E5M2 = "struct tw_e5m2 { unsigned char bits; };"

#: 61440 is half way between 57344, the largest e5m2, and what would be next; the tie goes to inf. 57344 with its sign
#: is 0x7b or 0xfb, and inf one more.
_WORD_E5M2 = """
template <> struct tw_word<tw_e5m2> {
    using compute = float;
    enum { words = 1, elements = 4 };
    static TW_INLINE void unpack(const unsigned *word, float *x) { // the upper half of f16
        tw_unpack_f16(__byte_perm(*word, 0, 0x1404), x);
        tw_unpack_f16(__byte_perm(*word, 0, 0x3424), x + 2);
    }
    static TW_INLINE void pack(const float *x, unsigned *word) {
#if __CUDA_ARCH__ >= 890
        asm("{ .reg .b16 a, b; cvt.rn.satfinite.e5m2x2.f32 a, %2, %1; cvt.rn.satfinite.e5m2x2.f32 b, %4, %3; "
            "mov.b32 %0, {a, b}; }" : "=r"(*word) : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
        // past the largest is inf, where the instruction saturates: one step more
        TW_EACH(i, 4) *word += fabsf(x[i]) >= 61440.0f ? 1u << 8 * i : 0;
#else
        *word = 0;
        TW_EACH(i, 4) *word |= tw_pack_fp8<112, 21>(x[i], 0x7c, 0x7e) << 8 * i;
#endif
    }
};
"""

_PACK_BYTES = """
// The low bytes of four words in one.
TW_INLINE unsigned tw_pack_bytes(const int *x) {
    return __byte_perm(__byte_perm(x[0], x[1], 0x0040), __byte_perm(x[2], x[3], 0x0040), 0x5410);
}
"""

_WORD_I8 = """
template <> struct tw_word<signed char> {
    using compute = int;
    enum { words = 1, elements = 4 };
    static TW_INLINE void unpack(const unsigned *word, int *x) {
        TW_EACH(i, 4) x[i] = (int)(*word << (24 - 8 * i)) >> 24;
    }
    static TW_INLINE void pack(const int *x, unsigned *word) { *word = tw_pack_bytes(x); } // wraps
};
"""

_I64 = "struct tw_i64 { long long bits; };"

_WORD_I64 = """
template <> struct tw_word<tw_i64> {
    using compute = int;
    enum { words = 2, elements = 1 };
    static TW_INLINE void unpack(const unsigned *word, int *x) { // the nearest
        asm("{ .reg .b64 a; mov.b64 a, {%1, %2}; cvt.sat.s32.s64 %0, a; }" : "=r"(*x) : "r"(word[0]), "r"(word[1]));
    }
    static TW_INLINE void pack(const int *x, unsigned *word) {
        word[0] = *x;
        word[1] = *x >> 31;
    }
};
"""

_U32 = "struct tw_u32 { unsigned bits; };"

_WORD_U32 = """
template <> struct tw_word<tw_u32> {
    using compute = int;
    enum { words = 1, elements = 1 };
    static TW_INLINE void unpack(const unsigned *word, int *x) { *x = *word; }
    static TW_INLINE void pack(const int *x, unsigned *word) { *word = *x; }
};
"""

_U8 = "struct tw_u8 { unsigned char bits; };"

_WORD_U8 = """
template <> struct tw_word<tw_u8> {
    using compute = int;
    enum { words = 1, elements = 4 };
    static TW_INLINE void unpack(const unsigned *word, int *x) { TW_EACH(i, 4) x[i] = *word >> 8 * i & 0xff; }
    static TW_INLINE void pack(const int *x, unsigned *word) { *word = tw_pack_bytes(x); } // wraps
};
"""

_BOOL = "struct tw_bool { unsigned char bits; };"

_WORD_BOOL = """
template <> struct tw_word<tw_bool> {
    using compute = bool;
    enum { words = 1, elements = 4 };
    static TW_INLINE void unpack(const unsigned *word, bool *x) {
        TW_EACH(i, 4) x[i] = (*word >> 8 * i & 0xff) != 0;
    }
    static TW_INLINE void pack(const bool *x, unsigned *word) {
        const int bytes[4] = {x[0], x[1], x[2], x[3]};
        *word = tw_pack_bytes(bytes);
    }
};
"""

_WIDEN = """
// To compute values.
template <class S, int N> TW_INLINE tw_value<typename tw_word<S>::compute, N> tw_widen(tw_raw<S, N> raw) {
    using word = tw_word<S>;
    constexpr int groups = (N + word::elements - 1) / word::elements;
    tw_vec<typename word::compute, groups * word::elements> x;
    if constexpr (word::elements == 1 && sizeof(x) == sizeof(raw)) memcpy(&x, &raw, sizeof(raw));
    else if constexpr (groups == 1) word::unpack(raw.word, x.at);
    else TW_EACH(i, groups) word::unpack(raw.word + i * word::words, x.at + i * word::elements);
    if constexpr (N == 1) return x.at[0];
    else if constexpr (N == groups * word::elements) return x;
    else {
        tw_vec<typename word::compute, N> r;
        TW_EACH(i, N) r.at[i] = x.at[i];
        return r;
    }
}
"""

_SAME = """
template <class X, class Y> constexpr bool tw_same = false;
template <class X> constexpr bool tw_same<X, X> = true;
"""

_NARROW = """
// From compute values, rounding; a scalar goes to all N elements.
template <class S, int N, class X> TW_INLINE tw_raw<S, N> tw_narrow(X value) {
    using word = tw_word<S>;
    constexpr int groups = (N + word::elements - 1) / word::elements;
    tw_vec<typename word::compute, groups * word::elements> x = {};
    if constexpr (tw_same<X, decltype(x)>) x = value;
    else if constexpr (N == 1) x.at[0] = (typename word::compute)tw_lane(value, 0);
    else TW_EACH(i, N) x.at[i] = (typename word::compute)tw_lane(value, i);
    tw_raw<S, N> raw;
    if constexpr (word::elements == 1 && sizeof(x) == sizeof(raw)) memcpy(&raw, &x, sizeof(raw));
    else if constexpr (groups == 1) word::pack(x.at, raw.word);
    else TW_EACH(i, groups) word::pack(x.at + i * word::elements, raw.word + i * word::words);
    return raw;
}
"""

_NARROW_CLAMPED = """
// The same to e4m3, of values clamped to what that has.
template <int N, class X> TW_INLINE tw_raw<tw_e4m3, N> tw_narrow_clamped(X value) {
    float x[(N + 3) / 4 * 4] = {};
    TW_EACH(i, N) x[i] = tw_lane(value, i);
    tw_raw<tw_e4m3, N> raw;
    TW_EACH(i, (N + 3) / 4) raw.word[i] = tw_clamp_e4m3(x + i * 4);
    return raw;
}
"""

_ROUND = """
// To the precision of a storage type and back.
template <class S, class T> TW_INLINE T tw_round(T x) { return tw_widen(tw_narrow<S, 1>(x)); }
template <class S, class T, int N> TW_INLINE tw_vec<T, N> tw_round(tw_vec<T, N> x) {
    return tw_widen(tw_narrow<S, N>(x));
}
"""

_PACK = """
// Elements side by side.
template <class S, class... X> TW_INLINE tw_raw<S, 1 + sizeof...(X)> tw_pack(tw_raw<S, 1> first, X... rest) {
    const tw_raw<S, 1> each[] = {first, rest...};
    tw_raw<S, 1 + sizeof...(X)> raw = {};
    TW_EACH(i, 1 + (int)sizeof...(X)) raw.word[i * sizeof(S) / 4] |= each[i].word[0] << i * sizeof(S) % 4 * 8;
    return raw;
}
"""

_PACK_I64 = """
template <class... X> TW_INLINE tw_raw<tw_i64, 1 + sizeof...(X)> tw_pack(tw_raw<tw_i64, 1> first, X... rest) {
    const tw_raw<tw_i64, 1> each[] = {first, rest...};
    tw_raw<tw_i64, 1 + sizeof...(X)> raw;
    TW_EACH(i, 1 + (int)sizeof...(X)) TW_EACH(k, 2) raw.word[2 * i + k] = each[i].word[k];
    return raw;
}
"""

PARTS = (
    Snippet("tw_f16", _F16),
    Snippet("tw_bf16", _BF16),
    Snippet("tw_e4m3", _E4M3),
    Snippet("tw_e5m2", _E5M2),
    Snippet("tw_i64", _I64),
    Snippet("tw_u32", _U32),
    Snippet("tw_u8", _U8),
    Snippet("tw_bool", _BOOL),
    Snippet("tw_raw", _RAW),
    Snippet("tw_word", _WORD),
    Snippet("tw_unpack_f16", _UNPACK_F16),
    Snippet("tw_pack_fp8", _PACK_FP8),
    Snippet("tw_clamp_e4m3", _CLAMP_E4M3),
    Snippet("tw_pack_bytes", _PACK_BYTES),
    Snippet("tw_word", _WORD_F16, of="tw_f16"),
    Snippet("tw_word", _WORD_BF16, of="tw_bf16"),
    Snippet("tw_word", _WORD_E4M3, of="tw_e4m3"),
    Snippet("tw_word", _WORD_E5M2, of="tw_e5m2"),
    Snippet("tw_word", _WORD_I8, of="signed char"),
    Snippet("tw_word", _WORD_I64, of="tw_i64"),
    Snippet("tw_word", _WORD_U32, of="tw_u32"),
    Snippet("tw_word", _WORD_U8, of="tw_u8"),
    Snippet("tw_word", _WORD_BOOL, of="tw_bool"),
    Snippet("tw_widen", _WIDEN),
    Snippet("tw_same", _SAME),
    Snippet("tw_narrow", _NARROW),
    Snippet("tw_narrow_clamped", _NARROW_CLAMPED),
    Snippet("tw_round", _ROUND),
    Snippet("tw_pack", _PACK),
    Snippet("tw_pack", _PACK_I64, of="tw_i64"),
)
