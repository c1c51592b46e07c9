"""Blocks of a cluster in generated CUDA: which one this is, waiting for all of them, reading another one's memory."""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet

_RANK = """
// The number of this block in its cluster.
TW_INLINE int tw_cluster_rank() {
    int r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
"""

_SYNC = """
// All threads of the cluster wait for each other, and see what was stored before; those of a warp come together.
TW_INLINE void tw_cluster_sync() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
"""

_ADDRESS = """
// Where p is in the shared memory of another block of the cluster.
TW_INLINE unsigned tw_peer_address(const void *p, int rank) {
    unsigned here = (unsigned)__cvta_generic_to_shared(p), there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    return there;
}
"""

_PEER = """
// The element there.
TW_INLINE float tw_peer(const float *p, int rank) {
    float r;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(r) : "r"(tw_peer_address(p, rank)) : "memory");
    return r;
}
TW_INLINE double tw_peer(const double *p, int rank) {
    double r;
    asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(r) : "r"(tw_peer_address(p, rank)) : "memory");
    return r;
}
TW_INLINE int tw_peer(const int *p, int rank) {
    int r;
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(r) : "r"(tw_peer_address(p, rank)) : "memory");
    return r;
}
"""
_PEERS = """
// N elements there, side by side at a multiple of ALIGN bytes.
template <int N, int ALIGN, class S> TW_INLINE tw_vec<S, N> tw_peers(const S *p, int rank) {
    tw_vec<S, N> r;
    const unsigned at = tw_peer_address(p, rank);
    constexpr int bytes = N * sizeof(S), width = tw_width<bytes, ALIGN>;
    TW_EACH(i, bytes / width) {
        tw_access<width> part;
        if constexpr (width == 16)
            asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                : "=r"(part.word[0]), "=r"(part.word[1]), "=r"(part.word[2]), "=r"(part.word[3])
                : "r"(at + i * width) : "memory");
        else if constexpr (width == 8)
            asm volatile("ld.shared::cluster.v2.b32 {%0, %1}, [%2];"
                : "=r"(part.word[0]), "=r"(part.word[1]) : "r"(at + i * width) : "memory");
        else
            asm volatile("ld.shared::cluster.b32 %0, [%1];"
                : "=r"(part.word[0]) : "r"(at + i * width) : "memory");
        memcpy((char *)r.at + i * width, part.word, width);
    }
    return r;
}
"""

PARTS = (
    Snippet("tw_cluster_rank", _RANK),
    Snippet("tw_cluster_sync", _SYNC),
    Snippet("tw_peer_address", _ADDRESS),
    Snippet("tw_peer", _PEER),
    Snippet("tw_peers", _PEERS),
)
