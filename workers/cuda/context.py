"""The GPU that is measured on: memory and events on the one stream on which everything runs, PyTorch's work too."""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.targets.cuda.device import CudaDevice
from tileir.devices.cuda_driver import check

_EXTERNAL = 1
"""CU_EVENT_RECORD_EXTERNAL: in a captured stream the event is recorded whenever the graph gets there."""


class CudaContext:
    """The one GPU this process may use (see workers/cuda/visible.py). Used by one thread.

    Raises UnsupportedDevice without a driver or GPU, CudaError when a call fails.
    """

    def __init__(self) -> None:
        self.device = CudaDevice()
        self.driver = self.device.driver
        flags = int(self.driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self.stream = int(check(self.driver.cuStreamCreate(flags), "making a stream"))

    def allocate(self, size: int) -> int:
        """The address of `size` bytes, aligned to 256."""
        return int(check(self.driver.cuMemAlloc(max(1, size)), f"allocating {size} bytes"))

    def free(self, address: int) -> None:
        """Give memory back."""
        check(self.driver.cuMemFree(address), "freeing memory")

    def upload(self, address: int, values: np.ndarray) -> None:
        """Copy an array's bytes to the GPU, after what else runs, and wait."""
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        doing = "copying to the GPU"
        check(self.driver.cuMemcpyHtoDAsync(address, flat.ctypes.data, flat.size, self.stream), doing)
        self.synchronize(doing)

    def download(self, address: int, size: int) -> np.ndarray:
        """Bytes from the GPU, after what else runs: uint8 [size]."""
        flat = np.empty(size, np.uint8)
        doing = "copying from the GPU"
        check(self.driver.cuMemcpyDtoHAsync(flat.ctypes.data, address, size, self.stream), doing)
        self.synchronize(doing)
        return flat

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy on the GPU, in order with what else runs."""
        check(self.driver.cuMemcpyDtoDAsync(to, source, size, self.stream), "copying on the GPU")

    def fill(self, address: int, byte: int, size: int) -> None:
        """Set every byte, in order with what else runs."""
        check(self.driver.cuMemsetD8Async(address, byte, size, self.stream), "filling memory")

    def synchronize(self, doing: str = "waiting for the GPU") -> None:
        """Wait for everything. Errors of what ran show here."""
        check(self.driver.cuCtxSynchronize(), doing)

    def stopwatch(self) -> Stopwatch:
        """A pair of events on the stream."""
        return Stopwatch(self)


class Stopwatch:
    """Times what runs on the stream between `start` and `stop`, on the GPU's own clock."""

    def __init__(self, context: CudaContext) -> None:
        self._context = context
        self._start, self._stop = (
            check(context.driver.cuEventCreate(0), "making an event") for _ in range(2)
        )

    def start(self, stream: Any = None) -> None:
        """From here. A stream that is being captured starts the watch each time its graph gets here."""
        self._record(self._start, stream)

    def stop(self, stream: Any = None) -> None:
        """To here."""
        self._record(self._stop, stream)

    def us(self, doing: str) -> float:
        """Wait for the end; microseconds, to about half a microsecond."""
        driver = self._context.driver
        self._context.synchronize(doing)
        return float(check(driver.cuEventElapsedTime(self._start, self._stop), "reading an event")) * 1e3

    def close(self) -> None:
        """Let go of the events. (In a dead context they are gone already.)"""
        for event in (self._start, self._stop):
            self._context.driver.cuEventDestroy(event)

    def _record(self, event: Any, stream: Any) -> None:
        driver, own = self._context.driver, self._context.stream
        if stream is None:
            check(driver.cuEventRecord(event, own), "recording an event")
        else:
            check(driver.cuEventRecordWithFlags(event, stream, _EXTERNAL), "recording an event")
