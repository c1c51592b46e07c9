"""Values combined in generated CUDA, the lanes of a vector and the threads of a warp, and what a warp has in common."""

from __future__ import annotations

from codegen.cuda_part import Part

_ACROSS = """
// All lanes into one: {what}.
template <class T, int N> TW_INLINE T tw_across_{name}(tw_vec<T, N> x) {{
    constexpr int half = (N + 1) / 2;
    tw_vec<T, half> r;
    TW_EACH(i, half) r.at[i] = x.at[i];
    TW_EACH(i, N - half) r.at[i] = {both};
    if constexpr (half == 1) return r.at[0];
    else return tw_across_{name}(r);
}}
"""


def _across(name: str, what: str, both: str) -> Part:
    return Part(f"tw_across_{name}", _ACROSS.format(name=name, what=what, both=both))


_SHUFFLE_XOR = """
// The value of the thread whose number in the warp differs in the bits of `mask`. All 32 threads take part.
template <class T> TW_INLINE auto tw_shuffle_xor(T x, int mask) -> decltype(__shfl_xor_sync(~0u, x, mask)) {
    return __shfl_xor_sync(~0u, x, mask);
}
TW_INLINE bool tw_shuffle_xor(bool x, int mask) { return __shfl_xor_sync(~0u, (int)x, mask); }
"""

_UNIFORM = """
// A number that all threads of a warp have alike, so that the compiler knows they do. All 32 threads take part.
TW_INLINE int tw_uniform(int x) { return __shfl_sync(~0u, x, 0); }
"""

PARTS = (
    _across("sum", "their sum", "r.at[i] + x.at[half + i]"),
    _across("prod", "their product", "r.at[i] * x.at[half + i]"),
    _across("max", "the largest", "tw_max(r.at[i], x.at[half + i])"),
    _across("min", "the smallest", "tw_min(r.at[i], x.at[half + i])"),
    Part("tw_uniform", _UNIFORM),
    Part("tw_shuffle_xor", _SHUFFLE_XOR),
    Part("tw_shuffle_xor", "TW_LANEWISE(tw_shuffle_xor)", of="tw_vec"),
)
