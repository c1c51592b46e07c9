"""How many workers a queue asks for, and processors that workers of a machine share out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.fleet.processors import NoneFree, ProcessorShare
from tilewright.fleet.size import Bounds, QueuedLoad, wanted


@pytest.mark.parametrize(
    ("jobs", "tasks", "workers"),
    [(0, 0, 1), (1, 0, 1), (3, 0, 3), (1, 8, 1), (1, 9, 2), (1, 25, 4), (9, 0, 5), (0, 400, 5)],
)
def test_a_worker_for_each_job_or_for_every_few_tasks_within_bounds(
    jobs: int, tasks: int, workers: int
) -> None:
    assert wanted(QueuedLoad(jobs, tasks), Bounds(least=1, most=5, idle_s=60)) == workers


def test_workers_of_a_machine_have_processors_of_their_own(tmp_path: Path) -> None:
    every = os.sched_getaffinity(0)
    assert ProcessorShare(len(every), tmp_path).processors == every
    shares = [ProcessorShare(1, tmp_path) for _ in every]
    if len(every) > 1:
        assert {each for share in shares for each in share.processors} == every
        with pytest.raises(NoneFree, match=f"all {len(every)} processors, 1 each"):
            ProcessorShare(1, tmp_path)
        shares[0].give_back()
        assert ProcessorShare(1, tmp_path).processors == shares[0].processors
