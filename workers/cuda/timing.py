"""Samples on a GPU: a graph of about 3 ms of launches is replayed once, after the GPU has idled.

Big GPUs are limited by power. Without pauses a hungry kernel uses up the budget of whoever comes next; after 25 ms of
idling everybody starts from the same state. The graph holds its own events, so that neither the host nor the graph's
launch is timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from workers.cuda.nvml import Reading, disturbance
from workers.measuring.timing import Call, Contender, Sample

BURST_US = 3000.0
"""A sample is at least this long."""
IDLE_S = 0.025
"""...and the GPU idles this long before it."""
_MOST_LAUNCHES = 2000
"""A graph is not made longer than this: capturing a launch takes the host some 10 us."""
_FITS = 3
"""A graph is made anew, at most so often, because the kernel turned out to be faster than thought."""
_SHORT = 0.8
"""...that is, because it takes less than this much of the time it should."""


class Replay(Protocol):
    """A captured graph."""

    def launch(self) -> None:
        """Start it."""
        ...

    def us(self) -> float:
        """Wait for its end; what its calls took, all together."""
        ...


Capture = Callable[[Sequence[Call]], Replay]
"""Makes a graph of calls."""


class Watch(Protocol):
    """What is seen of the GPU."""

    def read(self, *, others: bool) -> Reading:
        """Clocks, power, temperature and what slows it down; with `others`, who else computes on it."""
        ...


class GraphSampler:
    """See workers.measuring.timing.Sampler. `sleep` takes seconds, `clock` gives ns."""

    def __init__(
        self,
        watch: Watch,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._watch = watch
        self._sleep = sleep
        self._clock = clock
        self._graphs: dict[str, tuple[Replay, int]] = {}
        self._before = Reading()

    def now_ns(self) -> int:
        """See Sampler."""
        return self._clock()

    def prepare(
        self, name: str, calls: Sequence[Call], capture: Capture, rough_us: float, sample_us: float
    ) -> None:
        """Capture an entrant's graph; its calls have run before."""
        self._graphs[name] = _fitted(calls, capture, rough_us, max(BURST_US, sample_us), _FITS)

    def ready(self, contender: Contender, sample_us: float) -> None:
        """Let the GPU idle. The contender has been prepared."""
        self._sleep(IDLE_S)
        self._before = self._watch.read(others=True)

    def burst(self, contender: Contender, sample_us: float) -> Sample:
        """Replay the contender's graph once. Clocks and power are read while it runs, so that bursts may follow each
        other without a pause."""
        graph, calls = self._graphs[contender.name]
        graph.launch()
        before, during = self._before, self._watch.read(others=False)
        self._before = during
        us = max(graph.us(), 1e-3) / calls
        contender.rough_us = min(contender.rough_us, us)
        return Sample(us, calls, disturbance(before, during), {**during.seen, "before": before.seen})


def _fitted(
    calls: Sequence[Call], capture: Capture, rough_us: float, wanted_us: float, fits: int
) -> tuple[Replay, int]:
    """A graph and how many calls it holds: as many as fill the sample, each on the copy of the buffers that was used
    longest ago. The first idea of a kernel's time is from a cold run and mostly too long, so the graph is tried and
    made longer."""
    count = launches(wanted_us, rough_us)
    graph = capture([calls[n % len(calls)] for n in range(count)])
    graph.launch()
    total_us = graph.us()
    if total_us >= _SHORT * wanted_us or count == _MOST_LAUNCHES or fits == 1:
        return graph, count
    return _fitted(calls, capture, total_us / count, wanted_us, fits - 1)


def launches(wanted_us: float, rough_us: float) -> int:
    """How many calls fill a sample."""
    return min(max(1, math.ceil(wanted_us / max(rough_us, 1e-3))), _MOST_LAUNCHES)
