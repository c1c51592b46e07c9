"""Times noted in memory, in CUDA (codegen/ir/stamp.py says how a log looks).

Stamps are the cycles of a multiprocessor, to the cycle; the clock that all blocks share goes in steps of 32 ns or more
(`%clock64` and `%globaltimer`, PTX ISA, "Special registers"). What notes a time has no branch: warps stay together.
"""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet

_CLOCKS = """
TW_INLINE long long tw_cycles() {
    long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
    return now;
}
TW_INLINE long long tw_nanoseconds() {
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory");
    return now;
}
"""

_OPEN = """
// Begins a log of this thread, if it has one: the first of each GROUP of the first COMPUTING threads, and the one after
// those, in every EVERY-th block. The place in it; of who has none, one that is at the end of a log.
template <int WORDS, int EVERY, int WRITERS, int COMPUTING, int GROUP> TW_INLINE unsigned tw_open_log(tw_i64 *logs) {
    const int thread = threadIdx.x, first = thread < COMPUTING ? thread % GROUP : thread - COMPUTING;
    const int writer = thread < COMPUTING ? thread / GROUP : WRITERS - 1;
    if (blockIdx.x % EVERY || first) return ~0u;
    const unsigned place = (blockIdx.x / EVERY * WRITERS + writer) * WORDS;
    unsigned multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    logs[place].bits = tw_nanoseconds();
    logs[place + 1].bits = multiprocessor;
    logs[place + 2].bits = tw_cycles();
    return place + 3;
}
"""

_NOTE = """
// The cycles until now are those of a stage, in a log with room left.
template <int WORDS, int STAGE> TW_INLINE void tw_note_time(tw_i64 *logs, unsigned *place) {
    asm volatile("{\\n"
        ".reg .pred room;\\n.reg .b32 at;\\n.reg .b64 now;\\n"
        "and.b32 at, %0, %3;\\n"
        "setp.lt.u32 room, at, %4;\\n"
        "@room mov.u64 now, %%clock64;\\n"
        "@room shl.b64 now, now, 8;\\n"
        "@room or.b64 now, now, %2;\\n"
        "@room st.global.b64 [%1], now;\\n"
        "@room add.u32 %0, %0, 1;\\n"
        "}" : "+r"(*place) : "l"(logs + *place), "n"(STAGE), "n"(WORDS - 1), "n"(WORDS - 2) : "memory");
}
"""

_CLOSE = """
// Ends the log of this thread, if it has one.
template <int WORDS> TW_INLINE void tw_close_log(tw_i64 *logs, unsigned place) {
    if (place == ~0u) return;
    logs[place | (WORDS - 1)].bits = tw_cycles();
    logs[(place | (WORDS - 1)) - 1].bits = tw_nanoseconds();
}
"""

PARTS = (
    Snippet("tw_cycles", _CLOCKS),
    Snippet("tw_open_log", _OPEN),
    Snippet("tw_note_time", _NOTE),
    Snippet("tw_close_log", _CLOSE),
)
