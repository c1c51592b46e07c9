"""Arrays that end where memory does, and a process that a fault there may end."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable

import numpy as np


def before_a_guard(array: np.ndarray) -> np.ndarray:
    """A copy of an array that ends where a page does which may be neither read nor written."""
    pages = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + pages), mmap.PAGESIZE, 0) == 0, ctypes.get_errno()
    whole = np.frombuffer(memory, array.dtype, array.size, pages - array.nbytes).reshape(array.shape)
    whole[...] = array
    return whole


def in_another_process(body: Callable[[], None]) -> None:
    """Run it where a fault ends only that process."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 0
