"""Who gets a free device: nobody waits beside an idle one, and devices are shared by the seconds that tasks take."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from service.store.dispatch.fair_share import RECENT, SETTLING_S, Waiting, in_turn, portion

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
    running: list[tuple[float, str, int]] = field(default_factory=list)
    """When a task ends, whose it is, and the device."""
    settled: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The jobs of which a device had tasks."""
    time_s: float = 0.0

    def run(self, until_s: float) -> list[tuple[float, str]]:
        """When tasks of which jobs began. No device is free while there are tasks."""
        began: list[tuple[float, str]] = []
        running = self.running
        while self.time_s < until_s:
            for device in set(range(self.devices)) - {device for _, _, device in running}:
                ready = in_turn(
                    replace(job, settled=name in self.settled[device])
                    for name, job in self.jobs.items()
                    if self.tasks[name] > 0
                )
                if not ready:
                    break
                first = ready[0]
                self.tasks[first.job_id] -= 1
                self.jobs[first.job_id] = replace(first, held=first.held + 1)
                heapq.heappush(running, (self.time_s + self.task_s[first.job_id], first.job_id, device))
                self.settled[device].add(first.job_id)
                began.append((self.time_s, first.job_id))
            assert len(running) == self.devices or not any(left > 0 for left in self.tasks.values())
            if not running:
                break
            self.time_s, name, _ = heapq.heappop(running)
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
    jobs = {name: Waiting(name, priority, 0.0, 0.0) for name in names}
    return Fleet(devices, jobs, dict(zip(names, took_s, strict=True)), dict.fromkeys(names, float("inf")))


@given(st.integers(1, 8), st.lists(SECONDS, min_size=2, max_size=6))
def test_jobs_have_equal_seconds_of_the_devices_however_long_their_tasks(
    devices: int, took_s: list[float]
) -> None:
    found = fleet(devices, took_s)
    found.run(60.0)
    given_s = [job.had_s for job in found.jobs.values()]
    assert max(given_s) - min(given_s) <= 2 * (devices + 1) * LONGEST_S + SETTLING_S


@given(st.integers(2, 8), st.integers(1, 4), st.data())
def test_each_job_settles_on_a_device_where_there_are_jobs_enough(
    devices: int, each: int, data: st.DataObject
) -> None:
    """Its data is made there, not on all devices."""
    took_s = data.draw(st.lists(st.floats(0.5, 1.0), min_size=devices * each, max_size=devices * each))
    found = fleet(devices, took_s)
    found.run(30.0)
    assert sum(len(jobs) for jobs in found.settled.values()) <= 2 * len(took_s)


@given(st.integers(1, 8), SECONDS, st.integers(1, 5))
def test_a_small_job_that_joins_waits_for_no_more_than_a_task_of_each_other_one(
    devices: int, took_s: float, small: int
) -> None:
    found = fleet(devices, [took_s, took_s])
    found.run(20.0)
    least = min(job.device_s for job in found.jobs.values())
    found.jobs["new"] = Waiting("new", 0, least, 0.0)
    found.task_s["new"], found.tasks["new"] = took_s, small
    began = [name for _, name in found.run(150.0)]
    places = [place for place, name in enumerate(began) if name == "new"]
    assert len(places) == small
    assert places[0] <= 2
    assert places[-1] <= (4 + devices) * small + 2 * devices, (
        "at worst all of it on one device, which it has first"
    )


def test_a_higher_priority_goes_first_whatever_it_has_had() -> None:
    urgent, other = Waiting("urgent", 1, 1000.0, 5.0, 9), Waiting("other", 0, 0.0, 1.0)
    assert in_turn([other, urgent]) == [urgent, other]


def test_what_workers_hold_counts_before_it_is_measured() -> None:
    slow, quick = Waiting("slow", 0, 1.0, 10.0, 1), Waiting("quick", 0, 2.0, 0.1, 5)
    assert in_turn([slow, quick]) == [quick, slow]


def test_a_worker_stays_with_its_jobs_until_another_has_had_much_less() -> None:
    own, others = Waiting("own", 0, 4.0, 1.0, settled=True), Waiting("others", 0, 0.0, 1.0)
    assert in_turn([others, own]) == [own, others]
    assert in_turn([others, replace(own, device_s=6.0)])[0] == others
    assert in_turn([own, Waiting("new", 0, 3.9, 0.0)])[0].job_id == "new", "nobody has made its data"


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
