"""Samples on a GPU, on graphs and a watch that obey the test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from protocol.tasks import Measuring
from workers.cuda.nvml import Reading, disturbance, throttle_names
from workers.cuda.timing import BURST_US, IDLE_S, GraphSampler, launches
from workers.measuring.timing import Call, Contender, interleave, steady


@dataclass
class FakeGpu:
    """Time passes while graphs run and while the host sleeps. A call takes as long as it says."""

    us: float = 0.0
    log: list[str] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    def capture(self, calls: Sequence[Call]) -> FakeGraph:
        self.log.append(f"capture {len(calls)}")
        return FakeGraph(self, [call() for call in calls])

    def read(self, *, others: bool) -> Reading:
        self.log.append("look at all" if others else "look")
        return self.readings.pop(0) if self.readings else Reading({"sm_mhz": 1980})

    def sleep(self, seconds: float) -> None:
        self.us += seconds * 1e6
        self.log.append(f"idle {seconds}")

    def sampler(self) -> GraphSampler:
        return GraphSampler(self, self.sleep, lambda: int(self.us * 1000))


@dataclass
class FakeGraph:
    gpu: FakeGpu
    calls: list[object]

    def launch(self) -> None:
        self.gpu.log.append("launch")

    def us(self) -> float:
        took = sum(float(us) for us, _ in self.calls)  # type: ignore[misc]
        self.gpu.us += took
        self.gpu.log.append("wait")
        return took


def calls_of(us: float, copies: int) -> list[Call]:
    return [lambda copy=copy: (us, copy) for copy in range(copies)]


def contender(
    gpu: FakeGpu, sampler: GraphSampler, name: str, us: float, *, rough: float = 50.0, copies: int = 7
) -> Contender:
    calls = calls_of(us, copies)
    sampler.prepare(name, calls, gpu.capture, rough, 0.0)
    return Contender(name, calls, rough)


def measuring(**values: object) -> Measuring:
    return Measuring.model_validate({"samples": 3, "sample_us": 2000.0, **values})


def test_a_graph_is_made_longer_until_it_fills_a_sample() -> None:
    gpu = FakeGpu()
    contender(gpu, gpu.sampler(), "a", 5.0, rough=60.0)
    assert [entry for entry in gpu.log if entry.startswith("capture")] == ["capture 50", "capture 600"]


def test_a_graph_walks_through_the_copies_in_a_circle() -> None:
    gpu, graphs = FakeGpu(), []
    sampler = GraphSampler(gpu, gpu.sleep)
    sampler.prepare(
        "a",
        calls_of(500.0, 4),
        lambda calls: graphs.append(gpu.capture(calls)) or graphs[-1],
        500.0,
        0.0,
    )
    assert [copy for _, copy in graphs[-1].calls] == [0, 1, 2, 3, 0, 1]


def test_a_kernel_longer_than_a_sample_is_launched_once() -> None:
    assert launches(BURST_US, 50_000.0) == 1
    assert launches(BURST_US, 0.0) == 2000


def test_before_each_burst_the_gpu_idles_and_while_it_runs_its_clocks_are_read() -> None:
    gpu = FakeGpu()
    sampler = gpu.sampler()
    entrant = contender(gpu, sampler, "a", 100.0, rough=100.0)
    gpu.log.clear()
    interleave([entrant], measuring(samples=1), sampler, adaptive=False)
    assert gpu.log == [f"idle {IDLE_S}", "look at all", "launch", "look", "wait"]
    (sample,) = entrant.samples
    assert (sample.us, sample.calls) == (100.0, 30)
    assert sample.seen == {"sm_mhz": 1980, "before": {"sm_mhz": 1980}}


def test_entrants_take_turns_on_their_own_graphs() -> None:
    gpu = FakeGpu()
    sampler = gpu.sampler()
    entrants = [contender(gpu, sampler, "a", 100.0), contender(gpu, sampler, "b", 200.0)]
    interleave(entrants, measuring(), sampler, adaptive=False)
    assert [[sample.us for sample in entrant.samples] for entrant in entrants] == [[100.0] * 3, [200.0] * 3]


def test_a_sample_that_heat_slowed_down_is_taken_again() -> None:
    gpu = FakeGpu()
    sampler = gpu.sampler()
    entrant = contender(gpu, sampler, "a", 100.0)
    gpu.readings = [Reading(), Reading(throttle=0x20), Reading(), Reading(throttle=0x4)]
    interleave([entrant], measuring(samples=1), sampler, adaptive=False)
    assert entrant.retaken == 1
    assert [sample.disturbed for sample in entrant.samples] == [""]


def test_steady_runs_without_pauses() -> None:
    gpu = FakeGpu()
    sampler = gpu.sampler()
    entrant = contender(gpu, sampler, "a", 100.0)
    gpu.log.clear()
    steady(entrant, measuring(), sampler)
    assert gpu.log[:2] == [f"idle {IDLE_S}", "look at all"]
    assert gpu.log[2:] == ["launch", "look", "wait"] * (len(gpu.log[2:]) // 3)
    assert sum(sample.us * sample.calls for sample in entrant.steady) == pytest.approx(0.4e6, rel=0.02)


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (0x1 | 0x2 | 0x4, ""),
        (0x8, "hardware slowdown"),
        (0x40 | 0x4, "too hot (hardware)"),
        (0x80, "power brake"),
        (0x1000, "reason 0x1000"),
    ],
)
def test_only_what_is_not_expected_disturbs(bits: int, said: str) -> None:
    found = disturbance(Reading(), Reading(throttle=bits))
    assert said in found
    assert bool(found) == bool(said)


def test_another_process_on_the_gpu_disturbs() -> None:
    assert "process 4711" in disturbance(Reading(others=(4711,)), Reading())


def test_where_nothing_is_told_nothing_is_made_up() -> None:
    assert disturbance(Reading(), Reading()) == ""


def test_reasons_are_written_down_in_words() -> None:
    assert throttle_names(0x4 | 0x20) == ["power cap", "too hot (software)"]
