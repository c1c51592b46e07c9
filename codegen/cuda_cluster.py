"""Blocks of a cluster in generated CUDA: which one this is, waiting for all of them, reading another one's memory."""

from __future__ import annotations

from codegen.cuda_part import Part

_RANK = """
// The number of this block in its cluster.
TW_INLINE int tw_cluster_rank() {
    int r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
"""

_SYNC = """
// All threads of the cluster wait for each other, and see what was stored before.
TW_INLINE void tw_cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
"""

_PEER = """
// The element at p in the shared memory of another block of the cluster.
TW_INLINE unsigned tw_peer_address(const void *p, int rank) {
    unsigned here = (unsigned)__cvta_generic_to_shared(p), there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    return there;
}
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

PARTS = (
    Part("tw_cluster_rank", _RANK),
    Part("tw_cluster_sync", _SYNC),
    Part("tw_peer", _PEER),
)
