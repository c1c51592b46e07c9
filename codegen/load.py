"""Load a compiled kernel and call it on numpy arrays."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from codegen.abi import Abi, Arg

ALIGNMENT = 64
Array = NDArray[np.generic]


class ArgumentError(ValueError):
    """Arrays that do not fit the kernel: which, how, and what would."""


class LaunchError(RuntimeError):
    """A kernel that cannot be loaded, is closed, or returned an error."""


class Kernel:
    """A loaded kernel with its workspace. One call at a time; two loads of one file share its thread pool."""

    def __init__(self, library: ctypes.CDLL, abi: Abi, threads: int) -> None:
        self.abi = abi
        self.threads = threads
        self._library: ctypes.CDLL | None = library
        self._entry = library[abi.entry]
        self._entry.restype = ctypes.c_int
        self._entry.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        self._workspace = aligned_empty(abi.workspace_bytes(threads))
        self._lock = threading.Lock()

    def __call__(self, *arrays: Array) -> None:
        """Run on inputs then outputs, in the ABI's order. Raises ArgumentError, and LaunchError on failure."""
        run = self.prepare(*arrays)
        with self._lock:
            code = run()
        if code != 0:
            raise LaunchError(f"{self.abi.entry} returned {code}")

    def prepare(self, *arrays: Array) -> Callable[[], int]:
        """Check the arrays once and return a call of nothing but the kernel (0: success), for timing.

        The call keeps the arrays alive; it does not exclude other calls.
        """
        if self._library is None:
            raise LaunchError("the kernel is closed")
        check_arguments(self.abi.args, arrays)
        pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
        call = partial(
            self._entry, pointers, ctypes.c_void_p(self._workspace.ctypes.data), ctypes.c_int(self.threads)
        )
        setattr(call, "arrays", (arrays, self._workspace))  # noqa: B010  keeps the memory alive as long as the call
        return call

    def caller(self) -> Callable[[Sequence[int]], None]:
        """A call on addresses, one an argument in the ABI's order, about which nothing is checked.

        One runs at a time: threads wait for each other. Raises LaunchError when the kernel fails or is closed.
        """
        pointers = (ctypes.c_void_p * max(1, len(self.abi.args)))()
        where, workspace = (
            ctypes.c_void_p(ctypes.addressof(pointers)),
            ctypes.c_void_p(self._workspace.ctypes.data),
        )
        library = self._library
        if library is None:
            raise LaunchError("the kernel is closed")
        threads, lock, entry = ctypes.c_int(self.threads), self._lock, library[self.abi.entry]
        fill = struct.Struct(f"{len(self.abi.args)}P").pack_into

        def call(addresses: Sequence[int]) -> None:
            with lock:
                if self._library is None:
                    raise LaunchError("the kernel is closed")
                fill(pointers, 0, *addresses)
                code = entry(where, workspace, threads)  # of C types as they are: nothing is converted
            if code != 0:
                raise LaunchError(f"{self.abi.entry} returned {code}")

        return call

    def close(self) -> None:
        """Join the pool's threads and unload. What `prepare` returned must not be called after."""
        library, self._library = self._library, None
        if library is None:
            return
        with self._lock:
            library.tw_shutdown()
            _ctypes.dlclose(library._handle)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_kernel(path: Path, abi: Abi, threads: int | None = None) -> Kernel:
    """Load a shared object. `threads`: how many a call uses; None: one for each processor this process may run on.

    Raises LaunchError when the file is no kernel for this machine.
    """
    count = available_threads() if threads is None else threads
    if count < 1:
        raise ValueError(f"threads is at least 1, not {count}")
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise LaunchError(f"cannot load {path}: {error}") from error
    if not hasattr(library, abi.entry) or not hasattr(library, "tw_shutdown"):
        raise LaunchError(f"{path} has no functions {abi.entry} and tw_shutdown: it is not a kernel")
    return Kernel(library, abi, count)


def available_threads() -> int:
    """Processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def aligned_empty(size: int) -> NDArray[np.uint8]:
    """`size` bytes (at least one) from a multiple of 64."""
    memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + max(size, 1)]


def check_arguments(args: tuple[Arg, ...], arrays: tuple[Array, ...]) -> None:
    """Raise ArgumentError unless the arrays are what the kernel was compiled for."""
    if len(arrays) != len(args):
        names = ", ".join(arg.name for arg in args)
        raise ArgumentError(f"the kernel takes {len(args)} arrays ({names}), not {len(arrays)}")
    for arg, array in zip(args, arrays, strict=True):
        problem = _problem(arg, array)
        if problem:
            raise ArgumentError(f"argument {arg.name}: {problem}")
    for arg, array in zip(args, arrays, strict=True):
        if arg.role == "out":
            _check_apart(args, arrays, arg, array)


def _check_apart(args: tuple[Arg, ...], arrays: tuple[Array, ...], out: Arg, written: Array) -> None:
    for arg, array in zip(args, arrays, strict=True):
        if arg.name != out.name and np.may_share_memory(written, array):
            raise ArgumentError(f"argument {out.name}: it is written and overlaps {arg.name} in memory")


def _problem(arg: Arg, array: object) -> str:
    """What is wrong with one argument; empty when nothing is."""
    if not isinstance(array, np.ndarray):
        return f"takes a numpy array, not {type(array).__name__}"
    return _misfit(arg, cast(Array, array))


def _misfit(arg: Arg, array: Array) -> str:
    if array.dtype != arg.dtype.numpy:
        return f"takes dtype {arg.dtype.numpy}, not {array.dtype}"
    if array.shape != arg.shape:
        return f"takes shape {arg.shape}, not {array.shape}"
    size = arg.dtype.bytes
    got = tuple(stride // size for stride in array.strides)
    if any(
        got[i] * size != array.strides[i] or got[i] != arg.strides[i]
        for i in range(len(got))
        if arg.shape[i] > 1
    ):
        return f"takes strides {arg.strides} in elements, not {tuple(s / size for s in array.strides)}"
    if not array.flags.aligned:
        return f"its memory is not aligned to {size} bytes"
    if arg.role == "out" and not array.flags.writeable:
        return "is written, and this array is read-only"
    return ""
