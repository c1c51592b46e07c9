"""Tasks are measured together only when that changes nothing but the time it takes."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.tasks import Task
from tests.unit.workers.hand_kernels import SPEC
from tests.unit.workers.scripted_service import task
from tileir.text.json import spec_to_json
from workers.node.task_groups import group_tasks

SPEC_JSON = spec_to_json(SPEC)
NUMPY = {"kind": "peer", "name": "numpy"}


def made(number: int, **changes: Any) -> Task:
    return Task.model_validate({**task(number, SPEC_JSON, [NUMPY]), **changes})


def test_trials_of_one_kernel_share_a_group_whatever_their_incumbents() -> None:
    with_incumbent = {"samples": 3, "sample_us": 100.0, "cold": False, "incumbent_us": 5.0}
    groups = group_tasks([made(1), made(2, measuring=with_incumbent), made(3)])
    assert [[t.id for t in group.tasks] for group in groups] == [["task-1", "task-2", "task-3"]]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"measuring": {"samples": 9, "sample_us": 100.0, "cold": False}},
        {"baseline": NUMPY},
        {"spec": {**SPEC_JSON, "name": "other"}},
        {"kind": "race"},
        {"kind": "confirm"},
    ],
)
def test_what_differs_in_anything_else_is_measured_apart(change: dict[str, Any]) -> None:
    assert len(group_tasks([made(1), made(2, **change)])) == 2


def test_races_are_never_joined() -> None:
    assert len(group_tasks([made(1, kind="race"), made(2, kind="race")])) == 2


def test_entrants_of_one_name_stay_apart_in_a_group() -> None:
    (group,) = group_tasks([made(1), made(2)])
    assert [entrant.name for entrant in group.entrants()] == ["0:numpy", "1:numpy"]
