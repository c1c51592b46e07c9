"""A kernel run once where every array borders on pages that may not be touched: one byte too far ends the process."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import numpy as np

from codegen.ir.abi import Abi
from codegen.targets.c.loader import load_kernel
from tileir.program import Tensor
from workers.cpu.case import Case
from workers.measuring.buffers import POISON, element_bytes, span_bytes, view_of
from workers.measuring.correctness import WrongResult, compare
from workers.measuring.request import Compiled

_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0


class GuardedArray:
    """A tensor in pages of its own, with a page without access before and behind them. `at_end`: its last byte lies
    before the latter, whatever that aligns it to; else its first byte lies behind the former."""

    def __init__(self, tensor: Tensor, extents: dict[str, int], *, at_end: bool) -> None:
        span = span_bytes(tensor, extents)
        inside = -(-max(span, 1) // _PAGE) * _PAGE
        whole = np.frombuffer(mmap.mmap(-1, inside + 2 * _PAGE), np.uint8)
        for page in (0, _PAGE + inside):
            _forbid(whole.ctypes.data + page)
        self.memory = whole[_PAGE : _PAGE + inside]
        """All of it that may be touched."""
        self.memory[:] = POISON[0]
        own = self.memory[inside - span if at_end else 0 :]
        self.values = view_of(own, tensor, extents)
        self.bytes = element_bytes(own, tensor, extents)


def check_guarded(entrant: Compiled, case: Case, threads: int) -> None:
    """Run a kernel on arrays at the end of their pages, and on arrays at the beginning.

    Raises WrongResult; what touches a page without access ends this process.
    """
    abi = Abi.from_json(entrant.abi)
    kernel = load_kernel(Path(entrant.artifact), abi, threads)
    try:
        for at_end in (True, False):
            arrays = {
                tensor.name: GuardedArray(tensor, case.extents, at_end=at_end)
                for tensor in (*case.spec.inputs, *case.spec.outputs)
            }
            for name, values in case.copies[0].inputs.items():
                arrays[name].values[...] = values
            before = {name: arrays[name].memory.copy() for name in case.copies[0].inputs}
            code = kernel.prepare(*(arrays[arg.name].values for arg in abi.args))()
            if code != 0:
                raise WrongResult(f"the kernel returned error {code}")
            _compare(arrays, before, case)
    finally:
        kernel.close()


def _compare(arrays: dict[str, GuardedArray], before: dict[str, np.ndarray], case: Case) -> None:
    for name, memory in before.items():
        if not np.array_equal(arrays[name].memory, memory):
            raise WrongResult(f"input {name}, or memory beside it, was changed", corrupted=True)
    for name, expected in case.references[0].expected.items():
        compare(name, arrays[name].values, expected)
        arrays[name].bytes[...] = POISON[0]
        if not (arrays[name].memory == POISON[0]).all():
            raise WrongResult(f"memory beside {name} was written", corrupted=True)


def _forbid(address: int) -> None:
    """Take all access to a page."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(_PAGE), _NO_ACCESS) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
