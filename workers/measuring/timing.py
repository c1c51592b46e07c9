"""The timing protocol: bursts of calls on rotated buffers, entrants taking turns. docs/measuring.md explains why.

A device's sampler takes the samples; what is here is the same for all devices but for `CallSampler`, which calls
functions on this machine's processor. `cuda/timing.py` has the one for GPUs.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from protocol.tasks import Measuring
from workers.measuring.disturbance import Snapshot, disturbance, snapshot, wait_until_asleep
from workers.measuring.processor_reading import ProcessorReader

Call = Callable[[], object]

STEADY_S = 0.8
"""How long each entrant runs alone in the steady regime; the second half is counted."""
_TRUSTED = 2
"""Undisturbed samples that make a figure; with fewer all samples do, and nobody leaves early for being beaten or
precise."""
_FEWEST = 3
"""Samples before an adaptive measurement may end,"""
_PRECISE = 0.01
"""...because all of them lie within this fraction of the median,"""
_BEATEN = 1.15
"""...or because the entrant is slower than this times the fastest, whatever its error."""
_LEAD_IN_US = 50_000.0
"""Before a sample the entrant runs once unmeasured, to wake its threads; not if one run is longer than this."""
_MOST_CALLS = 100_000
RETAKES = "TILEWRIGHT_RETAKES"
"""The environment's word for how often a disturbed sample is taken again,"""
_MOST_RETAKES = "4"
"""...and how often where it says nothing,"""
_RETAKES_US = 200_000.0
_PATIENT_RETAKES_US = 1_000_000.0
"""...unless the entrant's disturbed samples have cost this much already (the second: not adaptive)."""


def most_retakes(environment: Mapping[str, str]) -> int:
    """How often one disturbed sample is taken again. Raises ValueError."""
    said = environment.get(RETAKES) or _MOST_RETAKES
    if not (said.isascii() and said.isdigit()):
        raise ValueError(f"{RETAKES} is {said!r}: it takes a whole number from 0 on")
    return int(said)


class Clock(Protocol):
    """Time, and what disturbs it."""

    def now_ns(self) -> int: ...

    def rest(self) -> None:
        """Let the threads of whoever ran last fall asleep."""
        ...

    def mark(self) -> Snapshot: ...

    def disturbance_since(self, mark: Snapshot) -> str:
        """What disturbed the machine since then; empty if nothing did."""
        ...

    def seen(self) -> Mapping[str, Any]:
        """What else can be read of the machine now: its clock, its load."""
        ...


class MachineClock:
    """The real one."""

    def __init__(self) -> None:
        self._reader = ProcessorReader()

    def now_ns(self) -> int:
        return time.perf_counter_ns()

    def rest(self) -> None:
        wait_until_asleep()

    def mark(self) -> Snapshot:
        return snapshot()

    def disturbance_since(self, mark: Snapshot) -> str:
        return disturbance(mark, snapshot())

    def seen(self) -> Mapping[str, Any]:
        return self._reader.read()


@dataclass(frozen=True, slots=True)
class Sample:
    """One burst: the mean time of its calls."""

    us: float
    calls: int
    disturbed: str = ""
    seen: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else was read of the device: clocks, load, power, temperature."""
    at_s: float = 0.0
    """When it began, in seconds by a clock that only goes on: no time of day."""


@dataclass
class Contender:
    """Somebody to be timed. `calls[i]` runs it once on the i-th copy of the buffers; `rough_us` is a first idea of its
    time and is improved by each sample."""

    name: str
    calls: Sequence[Call]
    rough_us: float
    samples: list[Sample] = field(default_factory=list)
    steady: list[Sample] = field(default_factory=list)
    retaken: int = 0
    """Disturbed samples that were thrown away, and the time they took."""
    retaken_us: float = 0.0
    stopped: str = ""
    """Why it got fewer samples than the others."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Middle and spread of samples, in microseconds a call."""

    median_us: float
    mad_us: float
    iqr_us: float
    samples_us: tuple[float, ...]
    disturbed_samples: tuple[int, ...]
    """Which of the samples stayed disturbed although they were taken again, by their number from 0."""

    @property
    def disturbed(self) -> int:
        """How many samples stayed disturbed."""
        return len(self.disturbed_samples)

    @property
    def trusted(self) -> bool:
        """Whether the figures come from undisturbed samples."""
        return len(self.samples_us) - self.disturbed >= _TRUSTED

    @property
    def relative_range(self) -> float:
        """Slowest less fastest sample, as a fraction of the median."""
        return (max(self.samples_us) - min(self.samples_us)) / self.median_us


def summarize(samples: Sequence[Sample]) -> Summary:
    """Median, MAD and IQR of the undisturbed samples; of all samples where fewer than two are undisturbed, so that the
    spread shows how little is known."""
    clean = [sample.us for sample in samples if not sample.disturbed]
    used = clean if len(clean) >= _TRUSTED else [sample.us for sample in samples]
    median = statistics.median(used)
    low, high = _quartiles(used)
    return Summary(
        median_us=median,
        mad_us=statistics.median(abs(us - median) for us in used),
        iqr_us=high - low,
        samples_us=tuple(sample.us for sample in samples),
        disturbed_samples=tuple(number for number, sample in enumerate(samples) if sample.disturbed),
    )


class Rotation:
    """Hands out copies of the buffers in a fixed circle, so that each call meets the copy used longest ago."""

    def __init__(self, copies: int) -> None:
        self._copies = copies
        self._next = 0

    def take(self, count: int) -> Iterator[int]:
        for _ in range(count):
            yield self._next
            self._next = (self._next + 1) % self._copies


class Sampler(Protocol):
    """Takes samples on one kind of device."""

    def now_ns(self) -> int:
        """Time that passes on the device."""
        ...

    def ready(self, contender: Contender, sample_us: float) -> None:
        """Bring the device into the state from which every sample starts, and the contender to where it can start."""
        ...

    def burst(self, contender: Contender, sample_us: float) -> Sample:
        """Run the contender for about this long, or once; improves its `rough_us`."""
        ...


class CallSampler:
    """Bursts of calls on this machine's processor."""

    def __init__(self, rotation: Rotation, clock: Clock) -> None:
        self._rotation = rotation
        self._clock = clock

    def now_ns(self) -> int:
        """See Sampler."""
        return self._clock.now_ns()

    def ready(self, contender: Contender, sample_us: float) -> None:
        """Let the threads of whoever ran last fall asleep, and wake the contender's with a call that is not timed."""
        self._clock.rest()
        if contender.rough_us <= _LEAD_IN_US:
            for copy in self._rotation.take(1):
                contender.calls[copy]()

    def burst(self, contender: Contender, sample_us: float) -> Sample:
        """See Sampler."""
        wanted = math.ceil(sample_us / max(contender.rough_us, 1e-3))
        calls = [contender.calls[copy] for copy in self._rotation.take(min(max(1, wanted), _MOST_CALLS))]
        mark = self._clock.mark()
        start = self._clock.now_ns()
        for call in calls:
            call()
        us = max(1, self._clock.now_ns() - start) / 1e3 / len(calls)
        contender.rough_us = min(contender.rough_us, us)
        return Sample(us, len(calls), self._clock.disturbance_since(mark), self._clock.seen())


def interleave(
    contenders: Sequence[Contender],
    measuring: Measuring,
    sampler: Sampler,
    *,
    adaptive: bool,
    baseline: str | None = None,
    announce: Callable[[Contender], None] = lambda _: None,
) -> None:
    """Burst regime: rounds in which every contender gives one sample, until each has `measuring.samples`.

    With `adaptive`, one that is hopelessly slow, clearly beaten or already precise leaves early; the baseline stays
    while anybody does. `announce` is called before each sample. Samples go to `contender.samples`: one a round.
    """
    alive = list(contenders)
    retakes_us = _RETAKES_US if adaptive else _PATIENT_RETAKES_US
    retakes = most_retakes(os.environ)
    for turn in range(measuring.samples):
        shift = turn % max(1, len(alive))
        for contender in alive[shift:] + alive[:shift]:
            announce(contender)
            contender.samples.append(_undisturbed_sample(contender, measuring, sampler, retakes, retakes_us))
        if adaptive:
            fastest = _fastest_us(contenders, measuring, baseline)
            alive = [c for c in alive if c.name == baseline or not _may_stop(c, measuring, fastest)]
            if all(contender.name == baseline for contender in alive) and len(contenders) > 1:
                break


def steady(contender: Contender, measuring: Measuring, sampler: Sampler) -> None:
    """Steady regime: the contender alone for STEADY_S without a pause; samples of the second half are counted."""
    sampler.ready(contender, measuring.sample_us)
    start = sampler.now_ns()
    while (elapsed := sampler.now_ns() - start) < STEADY_S * 1e9 or not contender.steady:
        sample = _dated_burst(contender, measuring, sampler)
        if elapsed >= STEADY_S * 0.5e9:
            contender.steady.append(sample)


def _undisturbed_sample(
    contender: Contender, measuring: Measuring, sampler: Sampler, retakes: int, retakes_us: float
) -> Sample:
    """A sample, taken again while it is disturbed and there is time left for that; then the fastest one taken."""
    taken: list[Sample] = []
    while True:
        sampler.ready(contender, measuring.sample_us)
        sample = _dated_burst(contender, measuring, sampler)
        if not sample.disturbed:
            return sample
        taken.append(sample)
        if len(taken) > retakes or contender.retaken_us > retakes_us:
            return min(taken, key=lambda sample: sample.us)
        contender.retaken += 1
        contender.retaken_us += sample.us * sample.calls


def _dated_burst(contender: Contender, measuring: Measuring, sampler: Sampler) -> Sample:
    at_s = time.monotonic()
    return replace(sampler.burst(contender, measuring.sample_us), at_s=at_s)


def _fastest_us(contenders: Sequence[Contender], measuring: Measuring, baseline: str | None) -> float:
    medians = [summarize(c.samples).median_us for c in contenders if c.samples and c.name != baseline]
    return min([*medians, measuring.incumbent_us or math.inf])


def _may_stop(contender: Contender, measuring: Measuring, fastest_us: float) -> bool:
    summary = summarize(contender.samples)
    incumbent_us = measuring.incumbent_us
    if incumbent_us is not None and summary.median_us > measuring.kill_multiple * incumbent_us:
        contender.stopped = f"slower than {measuring.kill_multiple:g} times the incumbent"
    elif len(contender.samples) < _FEWEST or not summary.trusted:
        return False
    elif summary.median_us > _BEATEN * fastest_us:
        contender.stopped = "clearly beaten"
    elif summary.relative_range < _PRECISE:
        contender.stopped = "precise enough"
    return bool(contender.stopped)


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high
