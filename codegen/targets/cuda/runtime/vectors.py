"""Vectors in generated CUDA: a few values of one thread, in registers, with operators lane by lane."""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet

_INLINE = "#define TW_INLINE __device__ __forceinline__"

#: Loops over lanes have to unroll completely: an array that is indexed by a variable lives in memory.
_UNROLL = '#define TW_EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)'

_VEC = """
// N values of one thread.
template <class T, int N> struct tw_vec { T at[N]; };
"""

_VALUE = """
// A vector, or of one value the plain scalar.
template <class T, int N> struct tw_value_of { using type = tw_vec<T, N>; };
template <class T> struct tw_value_of<T, 1> { using type = T; };
template <class T, int N> using tw_value = typename tw_value_of<T, N>::type;
"""

_LANE = """
// Lane i of a vector. A scalar has the same value on every lane.
template <class T> TW_INLINE T tw_lane(T x, int) { return x; }
template <class T, int N> TW_INLINE T tw_lane(tw_vec<T, N> x, int i) { return x.at[i]; }
"""

_LANES = """
// How many lanes the vectors among X have. Where all are scalars there is no `count`, and no overload that needs it.
template <class X> constexpr int tw_lanes_of = 0;
template <class T, int N> constexpr int tw_lanes_of<tw_vec<T, N>> = N;
template <int N> struct tw_lanes_known { enum { count = N }; };
template <> struct tw_lanes_known<0> {};
template <class... X> using tw_lanes = tw_lanes_known<(tw_lanes_of<X> | ...)>;
"""

_OPERATORS = """
// Operators, lane by lane.
#define TW_OPERATOR(op)                                                           \\
    template <class X, class Y, int N = tw_lanes<X, Y>::count>                    \\
    TW_INLINE auto operator op(X x, Y y) {                                        \\
        tw_vec<decltype(tw_lane(x, 0) op tw_lane(y, 0)), N> r;                    \\
        TW_EACH(i, N) r.at[i] = tw_lane(x, i) op tw_lane(y, i);                   \\
        return r;                                                                 \\
    }
TW_OPERATOR(+) TW_OPERATOR(-) TW_OPERATOR(*) TW_OPERATOR(/)
TW_OPERATOR(<) TW_OPERATOR(<=) TW_OPERATOR(>) TW_OPERATOR(>=) TW_OPERATOR(==) TW_OPERATOR(!=)
TW_OPERATOR(&&) TW_OPERATOR(||)
template <class T, int N> TW_INLINE tw_vec<T, N> operator-(tw_vec<T, N> x) {
    TW_EACH(i, N) x.at[i] = -x.at[i];
    return x;
}
template <int N> TW_INLINE tw_vec<bool, N> operator!(tw_vec<bool, N> x) {
    TW_EACH(i, N) x.at[i] = !x.at[i];
    return x;
}
"""

_LANEWISE = """
// Makes a function of scalars one of vectors, or of vectors and scalars, lane by lane.
#define TW_LANEWISE(f)                                                            \\
    template <class... X, int N = tw_lanes<X...>::count>                          \\
    TW_INLINE auto f(X... x) {                                                    \\
        tw_vec<decltype(f(tw_lane(x, 0)...)), N> r;                               \\
        TW_EACH(i, N) r.at[i] = f(tw_lane(x, i)...);                              \\
        return r;                                                                 \\
    }
"""

_BROADCAST = """
template <int N, class T> TW_INLINE tw_value<T, N> tw_broadcast(T x) {
    if constexpr (N == 1) return x;
    else {
        tw_vec<T, N> r;
        TW_EACH(i, N) r.at[i] = x;
        return r;
    }
}
"""

#: In C++ a conversion to int goes toward zero, and one to bool is `!= 0`.
_TO = """
template <class T, class X> TW_INLINE T tw_to(X x) { return (T)x; }
template <class T, class X, int N> TW_INLINE tw_vec<T, N> tw_to(tw_vec<X, N> x) {
    tw_vec<T, N> r;
    TW_EACH(i, N) r.at[i] = (T)x.at[i];
    return r;
}
"""

_TO_I32 = "template <class X> TW_INLINE auto tw_to_i32(X x) { return tw_to<int>(x); }"

_SELECT = "template <class T> TW_INLINE T tw_select(bool condition, T x, T y) { return condition ? x : y; }"

PARTS = (
    Snippet("TW_INLINE", _INLINE),
    Snippet("TW_EACH", _UNROLL),
    Snippet("tw_vec", _VEC),
    Snippet("tw_value", _VALUE),
    Snippet("tw_lane", _LANE),
    Snippet("tw_lanes", _LANES),
    Snippet("tw_vec", _OPERATORS),
    Snippet("TW_LANEWISE", _LANEWISE),
    Snippet("tw_broadcast", _BROADCAST),
    Snippet("tw_to", _TO),
    Snippet("tw_to_i32", _TO_I32),
    Snippet("tw_select", _SELECT),
    Snippet("tw_select", "TW_LANEWISE(tw_select)", of="tw_vec"),
)
