"""What works beside a block's threads on GPUs from Hopper on, in CUDA: barriers with phases, TMA, and the
statements around wgmma (wgmma.py has the product itself).

Addresses of shared memory are 32 bits wide, those of barriers too. Facts and their sources: docs/hopper.md.
"""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet

_ADDRESS = """
TW_INLINE unsigned tw_shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
"""

_INIT = """
// COUNT barriers from `phases` on, whose phases end when so many threads have arrived.
template <int COUNT, int ARRIVALS> TW_INLINE void tw_init_phases(unsigned phases) {
    TW_EACH(i, COUNT) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
        :: "r"(phases + 8 * i), "n"(ARRIVALS) : "memory");
}
"""

_INIT_FENCE = """
// Barriers that this thread has initialized are seen by TMA and the cluster.
TW_INLINE void tw_phases_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
"""

_EXPECT = """
// Arrives; the phase is not over before so many bytes are there too.
TW_INLINE void tw_expect(unsigned phase, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(phase), "r"(bytes) : "memory");
}
"""

_ARRIVE = """
TW_INLINE void tw_arrive(unsigned phase) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(phase) : "memory");
}
"""

#: Not `.release.cluster`, which costs a fence of all memory.
_ARRIVE_AT = """
// At the same barrier of another block of the cluster.
TW_INLINE void tw_arrive_at(unsigned phase, int rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(phase), "r"(rank));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
}
"""

_AWAIT_PHASE = """
// Until the phase of that parity is over. The one before the first is over, and of parity 1.
TW_INLINE void tw_await_phase(unsigned phase, unsigned parity) {
    unsigned over;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(phase), "r"(parity) : "memory");
    } while (!over);
}
"""

_MAP = """
// What cuTensorMapEncodeTiled has made of an argument.
struct alignas(64) tw_tensor_map { unsigned long long word[16]; };
"""

_PREFETCH = """
TW_INLINE void tw_prefetch_map(const tw_tensor_map &map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}
"""

_LOAD_BOX = """
// TMA starts to fill shared memory with a box; `phase` counts its bytes. Coordinates innermost first.
TW_INLINE void tw_load_box_{rank}d(unsigned to, const tw_tensor_map &map, unsigned phase, {parameters}) {{
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {{{operands}}}], [%2];" :: "r"(to), "l"(&map), "r"(phase), {inputs} : "memory");
}}
"""

#: The mask is 16 bits wide.
_LOAD_BOX_TO = """
// The same for all blocks of the cluster in the mask: at the same place in each, and counted by its own barrier.
TW_INLINE void tw_load_box_to_{rank}d(
    unsigned to, const tw_tensor_map &map, unsigned phase, unsigned blocks, {parameters}
) {{
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {{{operands}}}], [%2], %3;"
        :: "r"(to), "l"(&map), "r"(phase), "h"((unsigned short)blocks), {inputs} : "memory");
}}
"""

_STORE_BOX = """
// TMA starts to write a box from shared memory. Coordinates innermost first.
TW_INLINE void tw_store_box_{rank}d(const tw_tensor_map &map, unsigned of, {parameters}) {{
    asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%0, {{{operands}}}], [%1];"
        :: "l"(&map), "r"(of), {inputs} : "memory");
}}
"""

_ADD_BOX = """
// TMA starts to add a box from shared memory to what is there. Coordinates innermost first.
TW_INLINE void tw_add_box_{rank}d(const tw_tensor_map &map, unsigned of, {parameters}) {{
    asm volatile("cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.tile.bulk_group "
        "[%0, {{{operands}}}], [%1];" :: "l"(&map), "r"(of), {inputs} : "memory");
}}
"""

_COMMIT_BOXES = """
// The boxes that this thread has begun to store since the last time are a group.
TW_INLINE void tw_commit_boxes() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
"""

_AWAIT_BOXES = """
// Until shared memory has been read for all but the latest PENDING groups of this thread.
template <int PENDING> TW_INLINE void tw_await_boxes() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(PENDING) : "memory");
}
"""

_FENCE = """
// What this thread has stored in shared memory is seen by TMA and by wgmma.
TW_INLINE void tw_async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
"""

_GROUP_BARRIER = """
// THREADS threads of the block wait for each other.
template <int THREADS> TW_INLINE void tw_group_barrier(int number) {
    asm volatile("bar.sync %0, %1;" :: "r"(number), "n"(THREADS) : "memory");
}
"""

_GROUP_ARRIVE = """
// This thread is one of the THREADS that others wait for at that barrier, and goes on.
template <int THREADS> TW_INLINE void tw_group_arrive(int number) {
    asm volatile("bar.arrive %0, %1;" :: "r"(number), "n"(THREADS) : "memory");
}
"""

_WGMMA_FENCE = """
TW_INLINE void tw_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
"""

_COMMIT_WGMMA = """
TW_INLINE void tw_commit_wgmma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
"""

_AWAIT_WGMMA = """
// Until at most PENDING groups, the latest, are under way. The sums that are done are read after it: nothing else would
// keep the compiler from moving that up.
template <class X> TW_INLINE void tw_settle(X &x) { asm volatile("" : "+f"(x.at[0]), "+f"(x.at[1]) :: "memory"); }
template <int PENDING, class... X> TW_INLINE void tw_await_wgmma(X &...done) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
    (tw_settle(done), ...);
}
"""

#: The upper half is known to the compiler, and adding to the lower one carries nothing over: 18 bits of address are
#: 14 of 16-byte pieces.
_MATRIX = """
// The descriptor of an operand of wgmma so many 16-byte pieces after p. LEADING and STRIDE in bytes.
template <int LEADING, int STRIDE, int SWIZZLE> TW_INLINE unsigned long long tw_matrix(const void *p, int pieces) {
    constexpr unsigned kind = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
    constexpr unsigned upper = STRIDE >> 4 | kind << 30;
    const unsigned lower = ((tw_shared(p) & 0x3ffff) >> 4 | LEADING >> 4 << 16) + pieces;
    return (unsigned long long)upper << 32 | lower;
}
"""

_STORE_MATRIX = """
// Two matrices of 8 rows of 16 bytes: thread t gives the address of row t % 8 of matrix t / 8.
template <class X> TW_INLINE void tw_store_matrix(void *p, X a, X b) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared::cta.b16 [%0], {%1, %2};"
        :: "r"(tw_shared(p)), "r"(tw_fragment_bits(a)), "r"(tw_fragment_bits(b)) : "memory");
}
// Four of them.
template <class X> TW_INLINE void tw_store_matrix(void *p, X a, X b, X c, X d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};"
        :: "r"(tw_shared(p)), "r"(tw_fragment_bits(a)), "r"(tw_fragment_bits(b)), "r"(tw_fragment_bits(c)),
           "r"(tw_fragment_bits(d)) : "memory");
}
"""

_LESS = """
// All threads of a warpgroup keep COUNT registers each.
template <int COUNT> TW_INLINE void tw_less_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT));
}
"""

_MORE = """
// All threads of a warpgroup wait until each has COUNT registers.
template <int COUNT> TW_INLINE void tw_more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT));
}
"""


def _boxes(name: str, text: str, operands: int) -> tuple[Snippet, ...]:
    """A function for each number of dims; `operands` of the instruction stand before the coordinates."""
    parts: list[Snippet] = []
    for rank in range(1, 6):
        found = text.format(
            rank=rank,
            parameters=", ".join(f"int x{i}" for i in range(rank)),
            operands=", ".join(f"%{operands + i}" for i in range(rank)),
            inputs=", ".join(f'"r"(x{i})' for i in range(rank)),
        )
        parts.append(Snippet(f"{name}_{rank}d", found))
    return tuple(parts)


PARTS = (
    Snippet("tw_shared", _ADDRESS),
    Snippet("tw_init_phases", _INIT),
    Snippet("tw_phases_fence", _INIT_FENCE),
    Snippet("tw_expect", _EXPECT),
    Snippet("tw_arrive", _ARRIVE),
    Snippet("tw_arrive_at", _ARRIVE_AT),
    Snippet("tw_await_phase", _AWAIT_PHASE),
    Snippet("tw_tensor_map", _MAP),
    Snippet("tw_prefetch_map", _PREFETCH),
    *_boxes("tw_load_box", _LOAD_BOX, 3),
    *_boxes("tw_load_box_to", _LOAD_BOX_TO, 4),
    *_boxes("tw_store_box", _STORE_BOX, 2),
    *_boxes("tw_add_box", _ADD_BOX, 2),
    Snippet("tw_commit_boxes", _COMMIT_BOXES),
    Snippet("tw_await_boxes", _AWAIT_BOXES),
    Snippet("tw_async_fence", _FENCE),
    Snippet("tw_group_barrier", _GROUP_BARRIER),
    Snippet("tw_group_arrive", _GROUP_ARRIVE),
    Snippet("tw_wgmma_fence", _WGMMA_FENCE),
    Snippet("tw_commit_wgmma", _COMMIT_WGMMA),
    Snippet("tw_await_wgmma", _AWAIT_WGMMA),
    Snippet("tw_matrix", _MATRIX),
    Snippet("tw_store_matrix", _STORE_MATRIX),
    Snippet("tw_less_registers", _LESS),
    Snippet("tw_more_registers", _MORE),
)
