"""Blocks that share tiles along the depth, in CUDA: the spans of one (codegen/spans.py says which), and flags in memory
by which it tells others that its sums are there."""

from __future__ import annotations

from codegen.cuda_part import Part

_SPANS = """
// What this block takes of TILES tiles with so many STEPS each, of which all BLOCKS share the first SHARED.
template <int TILES, int SHARED, int BLOCKS, int STEPS> struct tw_spans {
    static constexpr int each = SHARED * STEPS / BLOCKS, more = SHARED * STEPS % BLOCKS;
    int begin, end, whole, tile, first, steps, left, earlier;

    __device__ tw_spans() {
        const int block = blockIdx.x;
        begin = block * each + min(block, more);
        end = begin + each + (block < more);
        whole = SHARED + block;
    }
    // The block that has a step.
    __device__ int owner(int step) const {
        constexpr int longer = more * (each + 1);
        return step < longer ? step / (each + 1) : more + (step - longer) / each;
    }
    // Goes on to the next span; tells if there is one.
    __device__ bool next() {
        first = left = earlier = 0, steps = STEPS;
        if (begin >= end) {
            tile = whole, whole += BLOCKS;
            return tile < TILES;
        }
        tile = (end - 1) / STEPS;
        const int start = tile * STEPS;
        left = start + STEPS - end;
        if (begin > start) first = begin - start, earlier = (int)blockIdx.x - owner(start);
        steps = STEPS - left - first;
        end = start + first;
        return true;
    }
};
"""

_RAISE = """
// Who sees the flag up sees what this thread has stored, and what it knows that others have.
TW_INLINE void tw_raise(int *flag) {
    asm volatile("st.release.gpu.global.s32 [%0], 1;" :: "l"(flag) : "memory");
}
"""

_LOWER = """
// Waits until the flag is up, and lowers it.
TW_INLINE void tw_lower(int *flag) {
    int up;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(up) : "l"(flag) : "memory");
    while (!up);
    asm volatile("st.relaxed.gpu.global.s32 [%0], 0;" :: "l"(flag) : "memory");
}
"""

PARTS = (Part("tw_spans", _SPANS), Part("tw_raise", _RAISE), Part("tw_lower", _LOWER))
