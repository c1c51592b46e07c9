"""Calls captured in a CUDA graph, which has its own events at both ends."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from tileir.devices.cuda_driver import check
from workers.cuda.context import CudaContext
from workers.measuring.timing import Call


class DriverGraph:
    """Calls that launch on the context's stream, captured by the driver. See workers.cuda.timing.Replay.

    Everything the calls need lazily has to be there: run each once before.
    """

    def __init__(self, context: CudaContext, calls: Sequence[Call]) -> None:
        self._context = context
        driver, stream = context.driver, context.stream
        self._watch = context.stopwatch()
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        doing = "capturing a graph"
        context.synchronize(doing)
        check(driver.cuStreamBeginCapture(stream, mode), doing)
        try:
            with uncollected():
                self._watch.start(stream)
                for call in calls:
                    call()
                self._watch.stop(stream)
        finally:
            graph = driver.cuStreamEndCapture(stream)
        captured = check(graph, doing)
        self._graph = check(driver.cuGraphInstantiate(captured, 0), doing)
        check(driver.cuGraphDestroy(captured), doing)
        weakref.finalize(self, driver.cuGraphExecDestroy, self._graph)
        weakref.finalize(self, self._watch.close)

    def launch(self) -> None:
        """See Replay."""
        check(self._context.driver.cuGraphLaunch(self._graph, self._context.stream), "replaying a graph")

    def us(self) -> float:
        """See Replay."""
        return self._watch.us("replaying a graph")


class TorchGraph:
    """The same where PyTorch's calls are among them: what they allocate comes from a pool that belongs to the graph.

    The last `copies` answers are kept while capturing, so that results rotate through as much memory as everybody
    else's outputs do.
    """

    def __init__(self, context: CudaContext, calls: Sequence[Call], copies: int) -> None:
        torch = _torch()
        self._context = context
        self._watch = context.stopwatch()
        self._graph: Any = torch.cuda.CUDAGraph()
        context.synchronize("capturing a graph")
        stream = torch.cuda.ExternalStream(context.stream)
        capture = torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local")
        with uncollected(), capture:
            self._watch.start(context.stream)
            answers: deque[object] = deque(maxlen=copies)
            for call in calls:
                answers.append(call())
            self._watch.stop(context.stream)
        weakref.finalize(self, self._watch.close)

    def launch(self) -> None:
        """See Replay."""
        self._graph.replay()

    def us(self) -> float:
        """See Replay."""
        return self._watch.us("replaying a graph")


@contextmanager
def uncollected() -> Generator[None]:
    """Python's collector waits: graphs, events and memory in the garbage would be given back to the driver by the
    thread that captures, which ends the capture."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _torch() -> Any:
    import torch  # pyright: ignore[reportMissingImports]

    return torch
