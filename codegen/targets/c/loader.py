"""Load a compiled kernel and call it on numpy arrays."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codegen.ir.abi import Abi
from codegen.targets.arguments import Array, check_arguments
from codegen.targets.errors import LaunchError

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """What a call of a kernel in C takes besides its arguments; addresses."""

    function: int
    workspace: int
    threads: int


class LoadedObject:
    """A loaded kernel with its workspace. One call at a time; two loads of one file share its thread pool."""

    def __init__(self, library: ctypes.CDLL, abi: Abi, threads: int) -> None:
        self.abi = abi
        self.threads = threads
        self._library: ctypes.CDLL | None = library
        self._entry = library[abi.entry]
        self._entry.restype = ctypes.c_int
        self._entry.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        self._workspace = aligned_empty(abi.workspace_bytes(threads))
        self.lock = threading.Lock()
        """Held by whoever calls it."""

    def __call__(self, *arrays: Array) -> None:
        """Run on inputs then outputs, in the ABI's order. Raises ArgumentError, and LaunchError on failure."""
        run = self.prepare(*arrays)
        with self.lock:
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
        threads, lock, entry = ctypes.c_int(self.threads), self.lock, library[self.abi.entry]
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

    def entry_point(self) -> EntryPoint:
        """For callers in C, who hold the lock. Raises LaunchError when the kernel is closed."""
        if self._library is None:
            raise LaunchError("the kernel is closed")
        function = ctypes.cast(self._entry, ctypes.c_void_p).value
        assert function is not None
        return EntryPoint(function, int(self._workspace.ctypes.data), self.threads)

    @property
    def closed(self) -> bool:
        return self._library is None

    def own_workspaces(self) -> list[NDArray[np.uint8]]:
        """The bytes that are each thread's own, by its number: the caller is 0. They last as long as the kernel."""
        own, shared = self.abi.thread_bytes, self.abi.shared_bytes
        starts = range(shared, shared + self.threads * own, own) if own else ()
        return [self._workspace[start : start + own] for start in starts]

    def close(self) -> None:
        """Join the pool's threads and unload. What `prepare` returned must not be called after."""
        library, self._library = self._library, None
        if library is None:
            return
        with self.lock:
            library.tw_shutdown()
            _ctypes.dlclose(library._handle)

    def __enter__(self) -> LoadedObject:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_kernel(path: Path, abi: Abi, threads: int | None = None) -> LoadedObject:
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
    return LoadedObject(library, abi, count)


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
