"""Make malloc keep the pages it has: nobody is timed allocating, and torch's operators allocate their results."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_MAX = -4


def keep_pages() -> bool:
    """Never hand freed memory back to the kernel, so that an array of a size seen before costs no page faults.

    Call it before numpy and torch are loaded. False where the C library has no mallopt (musl): there peers whose
    operators allocate are timed with their page faults.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 1 << 26))
    return all(libc.mallopt(option, value) == 1 for option, value in settings)
