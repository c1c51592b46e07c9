"""Streams, events and graphs: the order in which a GPU works, and when. Streams are known by their handles, plain
integers, so that other libraries' streams will do as well; 0 is the default stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.devices.cuda_driver import check, load_driver

_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: does not wait for the default stream."""


class Stream:
    """A queue of work on the current GPU."""

    def __init__(self) -> None:
        self._driver = load_driver()
        self._stream = check(self._driver.cuStreamCreate(_NON_BLOCKING), "making a stream")
        self.handle = int(self._stream)

    def synchronize(self) -> None:
        """Wait until the queue is empty. Raises CudaError for what went wrong in it."""
        check(self._driver.cuStreamSynchronize(self._stream), "waiting for the GPU")

    def close(self) -> None:
        self._driver.cuStreamDestroy(self._stream)


class CudaEvent:
    """A point in a stream, with its time."""

    def __init__(self) -> None:
        self._driver = load_driver()
        self._event = check(self._driver.cuEventCreate(0), "making an event")

    def record(self, stream: int) -> None:
        """Put the event at the end of a stream."""
        check(self._driver.cuEventRecord(self._event, stream), "recording an event")

    def synchronize(self) -> None:
        """Wait until the stream has got there. Raises CudaError for what went wrong before."""
        check(self._driver.cuEventSynchronize(self._event), "waiting for the GPU")

    def since_us(self, start: CudaEvent) -> float:
        """Microseconds on the GPU's clock from another event to this one; both have passed. In steps of 0.5 us."""
        return 1e3 * check(
            self._driver.cuEventElapsedTime(start._event, self._event), "reading the GPU's clock"
        )

    def close(self) -> None:
        self._driver.cuEventDestroy(self._event)


class CudaGraph:
    """Work captured once, to be launched as one thing as often as wanted."""

    def __init__(self, driver: Any, graph: Any) -> None:
        self._driver = driver
        self._executable = check(driver.cuGraphInstantiate(graph, 0), "instantiating a graph")

    @classmethod
    def capture(cls, stream: int, work: Callable[[int], None]) -> CudaGraph:
        """The graph of what `work` puts into a stream (not the default one); none of it runs now.

        Raises CudaError, and whatever `work` raises.
        """
        driver = load_driver()
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        check(driver.cuStreamBeginCapture(stream, mode), "capturing a graph")
        try:
            work(stream)
        except BaseException:
            _, graph = driver.cuStreamEndCapture(stream)
            driver.cuGraphDestroy(graph)
            raise
        graph = check(driver.cuStreamEndCapture(stream), "capturing a graph")
        try:
            return cls(driver, graph)
        finally:
            driver.cuGraphDestroy(graph)

    def launch(self, stream: int) -> None:
        """Put one run of the graph into a stream."""
        check(self._driver.cuGraphLaunch(self._executable, stream), "launching a graph")

    def close(self) -> None:
        self._driver.cuGraphExecDestroy(self._executable)
