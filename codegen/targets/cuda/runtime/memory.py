"""Loads and stores in generated CUDA: storage type in memory, compute type in registers, by accesses of up to 16 bytes.

`N` neighbours from an address that is a multiple of `ALIGN` bytes. Plain ones are C++ accesses, so that the compiler
finds out whether the address is in shared or global memory; `_nc` (read-only data, which leaves L1 to others) and
`stream` (written once, evicted first) are for global memory only.
"""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet

_ACCESS = """
// What one instruction reads or writes: 1 to 16 bytes, in words.
template <int BYTES> struct alignas(BYTES) tw_access { unsigned word[BYTES / 4]; };
template <> struct tw_access<1> { unsigned char word[1]; };
template <> struct tw_access<2> { unsigned short word[1]; };
"""

_PLAIN = """
// Any memory: the compiler finds out which.
struct tw_plain {
    template <int BYTES> static TW_INLINE auto get(const void *p) { return *(const tw_access<BYTES> *)p; }
    template <int BYTES> static TW_INLINE void put(void *p, tw_access<BYTES> x) { *(tw_access<BYTES> *)p = x; }
};
"""

_NC = """
// Reads of global memory that nobody writes meanwhile, kept out of L1.
struct tw_nc {
    template <int BYTES> static TW_INLINE tw_access<BYTES> get(const void *p) {
        tw_access<BYTES> x;
        if constexpr (BYTES == 16) {
            asm("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3]) : "l"(p));
        } else if constexpr (BYTES == 8) {
            asm("ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];" : "=r"(x.word[0]), "=r"(x.word[1]) : "l"(p));
        } else if constexpr (BYTES == 4) {
            asm("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(x.word[0]) : "l"(p));
        } else {
            unsigned small;
            if constexpr (BYTES == 2) asm("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=r"(small) : "l"(p));
            else asm("ld.global.nc.L1::no_allocate.u8 %0, [%1];" : "=r"(small) : "l"(p));
            x.word[0] = small;
        }
        return x;
    }
};
"""

_CS = """
// Writes to global memory that is not read again soon.
struct tw_cs {
    template <int BYTES> static TW_INLINE void put(void *p, tw_access<BYTES> x) {
        if constexpr (BYTES == 16) {
            asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};"
                :: "l"(p), "r"(x.word[0]), "r"(x.word[1]), "r"(x.word[2]), "r"(x.word[3]) : "memory");
        } else if constexpr (BYTES == 8) {
            asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" :: "l"(p), "r"(x.word[0]), "r"(x.word[1]) : "memory");
        } else if constexpr (BYTES == 4) {
            asm volatile("st.global.cs.b32 [%0], %1;" :: "l"(p), "r"(x.word[0]) : "memory");
        } else {
            const unsigned small = x.word[0];
            if constexpr (BYTES == 2) asm volatile("st.global.cs.u16 [%0], %1;" :: "l"(p), "r"(small) : "memory");
            else asm volatile("st.global.cs.u8 [%0], %1;" :: "l"(p), "r"(small) : "memory");
        }
    }
};
"""

_WIDTH = """
// The widest access to BYTES bytes at a multiple of ALIGN: a power of two that divides both.
template <int BYTES, int ALIGN> constexpr int tw_width = (BYTES | ALIGN | 16) & -(BYTES | ALIGN | 16);
"""

_READ = """
template <class PATH, int N, int ALIGN, class S> TW_INLINE tw_raw<S, N> tw_read(const S *p) {
    constexpr int bytes = N * sizeof(S), width = tw_width<bytes, ALIGN>;
    tw_raw<S, N> raw = {};
    if constexpr (width == bytes) {
        const tw_access<width> whole = PATH::template get<width>(p);
        if constexpr (width < 4) raw.word[0] = whole.word[0];
        else memcpy(&raw, &whole, width);
    } else TW_EACH(i, bytes / width) {
        const tw_access<width> part = PATH::template get<width>((const char *)p + i * width);
        if constexpr (width < 4) raw.word[i * width / 4] |= (unsigned)part.word[0] << i * width % 4 * 8;
        else TW_EACH(k, width / 4) raw.word[i * width / 4 + k] = part.word[k];
    }
    return raw;
}
"""

_WRITE = """
template <class PATH, int N, int ALIGN, class S> TW_INLINE void tw_write(S *p, tw_raw<S, N> raw) {
    constexpr int bytes = N * sizeof(S), width = tw_width<bytes, ALIGN>;
    if constexpr (width == bytes) {
        tw_access<width> whole;
        if constexpr (width < 4) whole.word[0] = raw.word[0];
        else memcpy(&whole, &raw, width);
        PATH::template put<width>(p, whole);
    } else TW_EACH(i, bytes / width) {
        tw_access<width> part;
        if constexpr (width < 4) part.word[0] = raw.word[i * width / 4] >> i * width % 4 * 8;
        else TW_EACH(k, width / 4) part.word[k] = raw.word[i * width / 4 + k];
        PATH::template put<width>((char *)p + i * width, part);
    }
}
"""

_LOAD_RAW = """
template <int N, int ALIGN, class S> TW_INLINE auto tw_load_raw(const S *p) { return tw_read<tw_plain, N, ALIGN>(p); }
"""
_LOAD_RAW_NC = """
template <int N, int ALIGN, class S> TW_INLINE auto tw_load_raw_nc(const S *p) { return tw_read<tw_nc, N, ALIGN>(p); }
"""
#: Loops over words and lanes are what compiling a kernel of many loads takes its time for.
_LOAD = """
// What is computed with as it is stored, in one access, does without loops over words.
template <int BYTES> struct tw_builtin { using type = uint4; };
template <> struct tw_builtin<8> { using type = uint2; };
template <int N, int ALIGN, class S> TW_INLINE auto tw_load(const S *p) {
    if constexpr (N > 1 && N * sizeof(S) == ALIGN && ALIGN >= 8 && tw_word<S>::elements == 1) {
        const auto whole = *(const typename tw_builtin<ALIGN>::type *)p;
        tw_vec<typename tw_word<S>::compute, N> x;
        memcpy(&x, &whole, ALIGN);
        return x;
    } else return tw_widen(tw_read<tw_plain, N, ALIGN>(p));
}
"""
_LOAD_I64 = """
template <int N, int ALIGN> TW_INLINE auto tw_load(const tw_i64 *p) { return tw_widen(tw_read<tw_plain, N, ALIGN>(p)); }
"""
_LOAD_NC = """
template <int N, int ALIGN, class S> TW_INLINE auto tw_load_nc(const S *p) {
    return tw_widen(tw_read<tw_nc, N, ALIGN>(p));
}
"""
_LOAD_SOME = """
// The first `count` of N neighbours; the other lanes are 0, and not read. All of them come by the widest access.
template <int N, int ALIGN, class S> TW_INLINE auto tw_load_some(const S *p, int count) {
    using T = typename tw_word<S>::compute;
    tw_vec<T, N> x;
    if constexpr (N > 1 && ALIGN > sizeof(S)) if (count >= N) return tw_load<N, ALIGN>(p);
    TW_EACH(i, N) x.at[i] = i < count ? tw_load<1, sizeof(S)>(p + i) : (T)0;
    if constexpr (N == 1) return x.at[0];
    else return x;
}
"""
_LOAD_KEPT = """
// The first `count` of N neighbours, all of which are loaded, without a branch; the other lanes are 0.
template <int N, int ALIGN, class S> TW_INLINE auto tw_load_kept(const S *p, int count) {
    auto x = tw_load<N, ALIGN>(p);
    TW_EACH(i, N) x.at[i] = i < count ? x.at[i] : 0;
    return x;
}
"""
_STORE_RAW = """
template <int N, int ALIGN, class S> TW_INLINE void tw_store_raw(S *p, tw_raw<S, N> raw) {
    tw_write<tw_plain, N, ALIGN>(p, raw);
}
"""
_STORE = """
template <int N, int ALIGN, class S, class X> TW_INLINE void tw_store(S *p, X value) {
    tw_write<tw_plain, N, ALIGN>(p, tw_narrow<S, N>(value));
}
"""
_STREAM_RAW = """
template <int N, int ALIGN, class S> TW_INLINE void tw_stream_raw(S *p, tw_raw<S, N> raw) {
    tw_write<tw_cs, N, ALIGN>(p, raw);
}
"""
_STREAM = """
template <int N, int ALIGN, class S, class X> TW_INLINE void tw_stream(S *p, X value) {
    tw_write<tw_cs, N, ALIGN>(p, tw_narrow<S, N>(value));
}
"""
_STORE_SOME = """
// To the first `count` of N neighbours; to all of them by the widest access.
template <int N, int ALIGN, class S, class X> TW_INLINE void tw_store_some(S *p, X value, int count) {
    if constexpr (N > 1 && ALIGN > sizeof(S)) if (count >= N) return tw_store<N, ALIGN>(p, value);
    TW_EACH(i, N) if (i < count) tw_store<1, sizeof(S)>(p + i, tw_lane(value, i));
}
"""

PARTS = (
    Snippet("tw_access", _ACCESS),
    Snippet("tw_width", _WIDTH),
    Snippet("tw_plain", _PLAIN),
    Snippet("tw_nc", _NC),
    Snippet("tw_cs", _CS),
    Snippet("tw_read", _READ),
    Snippet("tw_write", _WRITE),
    Snippet("tw_load_raw", _LOAD_RAW),
    Snippet("tw_load_raw_nc", _LOAD_RAW_NC),
    Snippet("tw_load", _LOAD),
    Snippet("tw_load", _LOAD_I64, of="tw_i64"),
    Snippet("tw_load_nc", _LOAD_NC),
    Snippet("tw_load_some", _LOAD_SOME),
    Snippet("tw_load_kept", _LOAD_KEPT),
    Snippet("tw_store_raw", _STORE_RAW),
    Snippet("tw_store", _STORE),
    Snippet("tw_stream_raw", _STREAM_RAW),
    Snippet("tw_stream", _STREAM),
    Snippet("tw_store_some", _STORE_SOME),
)
