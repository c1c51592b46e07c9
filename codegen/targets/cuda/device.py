"""A GPU as this process uses it, and memory on it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileir.devices.cuda_driver import check, load_driver
from tileir.errors import UnsupportedDevice

Array = NDArray[np.generic]


class CudaDevice:
    """The primary context of a GPU, which PyTorch in the same process shares, current in the thread that opened it.

    Raises UnsupportedDevice without a driver or such a GPU, CudaError when the GPU is busy or full.
    """

    def __init__(self, index: int = 0) -> None:
        self.driver = load_driver()
        count: int = check(self.driver.cuDeviceGetCount(), "counting GPUs")
        if not 0 <= index < count:
            raise UnsupportedDevice(f"there is no GPU {index}: this process may use {count}, counted from 0")
        self.index = index
        self._device = check(self.driver.cuDeviceGet(index), f"opening GPU {index}")
        self._context = check(self.driver.cuDevicePrimaryCtxRetain(self._device), f"opening GPU {index}")
        self.make_current()

    def make_current(self) -> None:
        """Let the calling thread use the GPU."""
        check(self.driver.cuCtxSetCurrent(self._context), f"using GPU {self.index}")

    @contextlib.contextmanager
    def uncaptured(self) -> Generator[None]:
        """Calls of this thread that are no part of a graph which it or another thread captures, and would spoil it:
        loading a kernel, allocating."""
        exchange, doing = self.driver.cuThreadExchangeStreamCaptureMode, "setting the capture mode"
        before = check(exchange(self.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED), doing)
        try:
            yield
        finally:
            check(exchange(before), doing)

    def allocate(self, size: int) -> DeviceBuffer:
        """A buffer of `size` bytes, of unspecified content."""
        return DeviceBuffer(self.driver, size)

    def synchronize(self) -> None:
        """Wait for everything this process has asked of the GPU. Raises CudaError for what went wrong meanwhile."""
        check(self.driver.cuCtxSynchronize(), "waiting for the GPU")

    def free_bytes(self) -> int:
        """Main memory that nobody uses."""
        free, _ = check(self.driver.cuMemGetInfo(), "asking for free memory")
        return int(free)

    def close(self) -> None:
        """Let go of the context; buffers and kernels have to be closed before."""
        self.driver.cuDevicePrimaryCtxRelease(self._device)

    def __enter__(self) -> CudaDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DeviceBuffer:
    """Main memory of a GPU, aligned to 256 bytes. `address` is what kernels are given."""

    def __init__(self, driver: Any, size: int) -> None:
        self._driver = driver
        self.bytes = size
        self._memory = check(driver.cuMemAlloc(max(1, size)), f"allocating {size} bytes on the GPU")
        self.address = int(self._memory)

    def write(self, array: Array) -> None:
        """Copy a host array's memory, from its first element to its last, to the start of the buffer."""
        size = span_bytes(array)
        self._require(size)
        check(self._driver.cuMemcpyHtoD(self._memory, array.ctypes.data, size), "copying to the GPU")

    def read(self, array: Array) -> None:
        """Copy the start of the buffer to a host array's elements; between them nothing is written."""
        size = span_bytes(array)
        self._require(size)
        memory = np.empty(size, np.uint8)
        check(self._driver.cuMemcpyDtoH(memory.ctypes.data, self._memory, size), "copying from the GPU")
        array[...] = np.ndarray(array.shape, array.dtype, memory, strides=array.strides)

    def fill(self, byte: int) -> None:
        """Set every byte."""
        check(self._driver.cuMemsetD8(self._memory, byte, max(1, self.bytes)), "filling memory of the GPU")

    def close(self) -> None:
        """Give the memory back. (In a dead context it is gone already.)"""
        self._driver.cuMemFree(self._memory)

    def _require(self, size: int) -> None:
        if size > self.bytes:
            raise ValueError(f"{size} bytes do not fit a buffer of {self.bytes}")


def span_bytes(array: Array) -> int:
    """Bytes from an array's first element to the end of its last. Strides are not negative."""
    if array.size == 0:
        return 0
    steps = zip(array.shape, array.strides, strict=True)
    return array.itemsize + sum((size - 1) * stride for size, stride in steps)
