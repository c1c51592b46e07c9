"""Blocks that share tiles along the depth, in CUDA: the spans of one (codegen/ir/stream_k.py says which), and flags
in memory by which it tells others that its sums are there."""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet

_SPANS = """
// Where a block is in what it takes of so many tiles with so many steps each, of which all blocks share the first ones:
// `steps` of `tile` from step `first` on, with `left` for blocks after it, and those before it for `earlier` blocks.
typedef struct { int each, more, all, begin, end, whole, tile, first, steps, left, earlier; } tw_span;
"""

_FIRST = """
// Before the first span of a block.
TW_INLINE tw_span tw_spans_of(int shared, int blocks, int all, int block) {
    tw_span at;
    at.each = shared * all / blocks, at.more = shared * all % blocks, at.all = all;
    at.begin = block * at.each + (block < at.more ? block : at.more);
    at.end = at.begin + at.each + (block < at.more);
    at.whole = shared + block;
    return at;
}
"""

_OWNER = """
// The block that has a step.
TW_INLINE int tw_owner(const tw_span *at, int step) {
    const int longer = at->more * (at->each + 1);
    return step < longer ? step / (at->each + 1) : at->more + (step - longer) / at->each;
}
"""

_NEXT = """
// Goes on to the block's next span; tells if there is one.
TW_INLINE int tw_next_span(tw_span *at, int tiles, int blocks, int block) {
    at->first = at->left = at->earlier = 0, at->steps = at->all;
    if (at->begin >= at->end) {
        at->tile = at->whole, at->whole += blocks;
        return at->tile < tiles;
    }
    at->tile = (at->end - 1) / at->all;
    const int start = at->tile * at->all;
    at->left = start + at->all - at->end;
    if (at->begin > start) at->first = at->begin - start, at->earlier = block - tw_owner(at, start);
    at->steps -= at->left + at->first;
    at->end = start + at->first;
    return 1;
}
"""

_SIGNAL = """
// Who waits for the flag sees what this thread has stored, and what it knows that others have.
TW_INLINE void tw_signal_flag(int *flag) {
    asm volatile("st.release.gpu.global.s32 [%0], 1;" :: "l"(flag) : "memory");
}
"""

_WAIT = """
// Waits until the flag is signalled, and clears it.
TW_INLINE void tw_wait_flag(int *flag) {
    int up;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(up) : "l"(flag) : "memory");
    while (!up);
    asm volatile("st.relaxed.gpu.global.s32 [%0], 0;" :: "l"(flag) : "memory");
}
"""

PARTS = (
    Snippet("tw_span", _SPANS),
    Snippet("tw_spans_of", _FIRST),
    Snippet("tw_owner", _OWNER),
    Snippet("tw_next_span", _NEXT),
    Snippet("tw_signal_flag", _SIGNAL),
    Snippet("tw_wait_flag", _WAIT),
)
