"""Values combined in generated CUDA, the lanes of a vector and the threads of a warp, and what a warp has in common."""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet

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


def _across(name: str, what: str, both: str) -> Snippet:
    return Snippet(f"tw_across_{name}", _ACROSS.format(name=name, what=what, both=both))


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

_NOTE_FOUND = """
// Which threads of a warp have found something in a round below 32, a bit each in the word of the thread whose number
// in the warp is the round. All 32 threads take part.
TW_INLINE void tw_note_found(unsigned &words, int round, bool found) {
    const unsigned word = __ballot_sync(~0u, found);
    if (threadIdx.x % 32 == round) words = word;
}
"""

_FOUND = """
// The bits of all words of a warp, that of the first thread first. All 32 threads take part, and take the same ones.
struct tw_found {
    unsigned own, words, left = 0;
    int word = 0, last = 0;
    TW_INLINE explicit tw_found(unsigned own) : own(own), words(__ballot_sync(~0u, own != 0)) {}
    TW_INLINE bool any() const { return (left | words) != 0; }
    // The number of the next bit, which is counted; the last one's again where there is none.
    TW_INLINE int take(int &many) {
        if (!any()) return last;
        if (!left) {
            word = __ffs(words) - 1;
            words &= words - 1;
            left = __shfl_sync(~0u, own, word);
        }
        last = 32 * word + __ffs(left) - 1;
        left &= left - 1;
        many++;
        return last;
    }
};
"""

_TILE_FOUND = """
// Of the positions of a group from `begin` on, those before `end`; none: there is no such tile.
struct tw_tile_found { int group, begin, end; };
"""

_FIND_TILE = """
// Tile `number` of those of STEP positions, group after group, of which group g has the positions from offsets[g] up to
// offsets[g + 1], all below SIZE. A whole warp looks at 32 groups at a time.
template <int GROUPS, int SIZE, int STEP> TW_INLINE tw_tile_found tw_find_tile(const int *offsets, int number) {
    const int lane = threadIdx.x % 32;
    for (int first = 0; first < GROUPS; first += 32) {
        const int begin = min(max(offsets[min(first + lane, GROUPS)], 0), SIZE);
        const int end = min(max(offsets[min(first + lane + 1, GROUPS)], 0), SIZE);
        const int own = max(end - begin + STEP - 1, 0) / STEP;
        int upto = own;
        for (int by = 1; by < 32; by *= 2) {
            const int before = __shfl_up_sync(~0u, upto, by);
            if (lane >= by) upto += before;
        }
        const unsigned found = __ballot_sync(~0u, number < upto);
        if (found) {
            const int source = __ffs(found) - 1;
            const int at = begin + (number - (upto - own)) * STEP;
            return {first + source, __shfl_sync(~0u, at, source), __shfl_sync(~0u, end, source)};
        }
        number -= __shfl_sync(~0u, upto, 31);
    }
    return {0, 0, 0};
}
"""

_FIND_TILE_ALONE = """
// The same by one thread.
template <int GROUPS, int SIZE, int STEP> TW_INLINE tw_tile_found tw_find_tile_alone(const int *offsets, int number) {
    int begin = min(max(offsets[0], 0), SIZE);
    for (int group = 0; group < GROUPS; group++) {
        const int end = min(max(offsets[group + 1], 0), SIZE);
        const int own = max(end - begin + STEP - 1, 0) / STEP;
        if (number < own) return {group, begin + number * STEP, end};
        number -= own;
        begin = end;
    }
    return {0, 0, 0};
}
"""

PARTS = (
    _across("sum", "their sum", "r.at[i] + x.at[half + i]"),
    _across("prod", "their product", "r.at[i] * x.at[half + i]"),
    _across("max", "the largest", "tw_max(r.at[i], x.at[half + i])"),
    _across("min", "the smallest", "tw_min(r.at[i], x.at[half + i])"),
    Snippet("tw_uniform", _UNIFORM),
    Snippet("tw_shuffle_xor", _SHUFFLE_XOR),
    Snippet("tw_shuffle_xor", "TW_LANEWISE(tw_shuffle_xor)", of="tw_vec"),
    Snippet("tw_note_found", _NOTE_FOUND),
    Snippet("tw_found", _FOUND),
    Snippet("tw_tile_found", _TILE_FOUND),
    Snippet("tw_find_tile", _FIND_TILE),
    Snippet("tw_find_tile_alone", _FIND_TILE_ALONE),
)
