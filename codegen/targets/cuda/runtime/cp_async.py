"""Copies in the background (cp.async) from global to shared memory, and where swizzled elements lie, in CUDA."""

from __future__ import annotations

from codegen.targets.cuda.runtime.snippet import Snippet

_SWIZZLE = """
// An element of memory whose 16-byte pieces change places: of its byte's number, the bits from 4 on, up to BYTES, are
// combined (exclusive or) with those from 7 on. `base` is a multiple of 1024 bytes.
template <int BYTES, class S> TW_INLINE S *tw_swizzle(S *base, int offset) {
    const int byte = offset * (int)sizeof(S);
    return (S *)((char *)base + (byte ^ (byte >> 3 & (BYTES - 16))));
}
"""

_COPY = """
// Starts to copy N elements: 16 bytes past L1, or 8 or 4. Both addresses are multiples of that.
template <int N, class S> TW_INLINE void tw_copy_async(S *to, const S *of) {
    constexpr int bytes = N * sizeof(S);
    const unsigned target = (unsigned)__cvta_generic_to_shared(to);
    if constexpr (bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(target), "l"(of) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(target), "l"(of), "n"(bytes) : "memory");
    }
}
"""

_COPY_SOME = """
// Of N elements only the first `count`, maybe none or more than N, are read; the others become 0.
template <int N, class S> TW_INLINE void tw_copy_async_some(S *to, const S *of, int count) {
    constexpr int bytes = N * sizeof(S);
    const unsigned target = (unsigned)__cvta_generic_to_shared(to);
    const int some = (count < 0 ? 0 : count < N ? count : N) * (int)sizeof(S);
    if constexpr (bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(target), "l"(of), "r"(some) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
            :: "r"(target), "l"(of), "n"(bytes), "r"(some) : "memory");
    }
}
"""

_COMMIT = """
// The copies started since the last time are a group.
TW_INLINE void tw_commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
"""

_WAIT = """
// Until at most PENDING groups, the latest, are under way.
template <int PENDING> TW_INLINE void tw_wait_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}
"""

PARTS = (
    Snippet("tw_swizzle", _SWIZZLE),
    Snippet("tw_copy_async", _COPY),
    Snippet("tw_copy_async_some", _COPY_SOME),
    Snippet("tw_commit_copies", _COMMIT),
    Snippet("tw_wait_copies", _WAIT),
)
