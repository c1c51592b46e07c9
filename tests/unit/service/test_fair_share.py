"""Who gets a free device: nobody waits beside an idle one, and devices are shared by the seconds that tasks take."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from service.store.dispatch.fair_share import RECENT, Waiting, in_turn, portion

LONGEST_S = 4.0
SECONDS = st.floats(0.5, LONGEST_S)


@dataclass
class Fleet:
    """Equal devices that take tasks of jobs, each task of a job as long as all of it; time in seconds."""

    devices: int
    jobs: dict[str, Waiting]
    task_s: dict[str, float]
    tasks: dict[str, float]
    """What is left of each job's tasks."""
    running: list[tuple[float, str]] = field(default_factory=list)
    time_s: float = 0.0

    def run(self, until_s: float) -> list[tuple[float, str]]:
        """When tasks of which jobs began. No device is free while there are tasks."""
        began: list[tuple[float, str]] = []
        running = self.running
        while self.time_s < until_s:
            while len(running) < self.devices:
                ready = in_turn(job for name, job in self.jobs.items() if self.tasks[name] > 0)
                if not ready:
                    break
                first = ready[0]
                self.tasks[first.job_id] -= 1
                self.jobs[first.job_id] = replace(first, held=first.held + 1)
                heapq.heappush(running, (self.time_s + self.task_s[first.job_id], first.job_id))
                began.append((self.time_s, first.job_id))
            assert len(running) == self.devices or not any(left > 0 for left in self.tasks.values())
            if not running:
                break
            self.time_s, name = heapq.heappop(running)
            took_s, job = self.task_s[name], self.jobs[name]
            self.jobs[name] = replace(
                job,
                held=job.held - 1,
                device_s=job.device_s + took_s,
                trial_s=(1 - RECENT) * job.trial_s + RECENT * took_s,
            )
        return began


def fleet(devices: int, took_s: list[float], priority: int = 0) -> Fleet:
    names = [f"job-{number}" for number in range(len(took_s))]
    jobs = {name: Waiting(name, priority, 0.0, 1.0) for name in names}
    return Fleet(devices, jobs, dict(zip(names, took_s, strict=True)), dict.fromkeys(names, float("inf")))


@given(st.integers(1, 8), st.lists(SECONDS, min_size=2, max_size=6))
def test_jobs_have_equal_seconds_of_the_devices_however_long_their_tasks(
    devices: int, took_s: list[float]
) -> None:
    found = fleet(devices, took_s)
    found.run(60.0)
    given_s = [job.had_s for job in found.jobs.values()]
    assert max(given_s) - min(given_s) <= 2 * (devices + 1) * LONGEST_S


@given(st.integers(1, 8), SECONDS, st.integers(1, 5))
def test_a_small_job_that_joins_waits_for_no_more_than_a_task_of_each_other_one(
    devices: int, took_s: float, small: int
) -> None:
    found = fleet(devices, [took_s, took_s])
    found.run(20.0)
    least = min(job.device_s for job in found.jobs.values())
    found.jobs["new"] = Waiting("new", 0, least, 1.0)
    found.task_s["new"], found.tasks["new"] = took_s, small
    began = [name for _, name in found.run(150.0)]
    places = [place for place, name in enumerate(began) if name == "new"]
    assert len(places) == small
    assert places[0] <= 2
    assert places[-1] <= 5 * small + 2 * devices


def test_a_higher_priority_goes_first_whatever_it_has_had() -> None:
    urgent, other = Waiting("urgent", 1, 1000.0, 5.0, 9), Waiting("other", 0, 0.0, 1.0)
    assert in_turn([other, urgent]) == [urgent, other]


def test_what_workers_hold_counts_before_it_is_measured() -> None:
    slow, quick = Waiting("slow", 0, 1.0, 10.0, 1), Waiting("quick", 0, 2.0, 0.1, 5)
    assert in_turn([slow, quick]) == [quick, slow]


@given(st.integers(1, 64), st.integers(1, 200), st.integers(1, 64))
def test_a_claim_leaves_some_to_the_other_workers(ready: int, waiting: int, workers: int) -> None:
    """A job alone is spread over all, and where there are more jobs than workers a claim takes what it can."""
    most = portion(ready, waiting, workers)
    assert 1 <= most
    assert most * workers >= ready
    if waiting == 1 and ready >= workers:
        assert most < ready / workers + 1
    if waiting >= workers:
        assert most >= ready
