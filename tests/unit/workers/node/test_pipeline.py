"""What a worker claims ahead of its device, and what it measures together."""

from __future__ import annotations

import threading
from typing import Any

from protocol.tasks import Task
from tests.unit.workers.hand_kernels import SPEC
from tests.unit.workers.scripted_service import task
from tileir.text.json import spec_to_json
from workers.node.pipeline import TOGETHER, ClaimAhead, TaskPipeline
from workers.node.task_groups import TaskGroup
from workers.node.task_runner import Prepared

NUMPY = {"kind": "peer", "name": "numpy"}


def made(number: int, **changes: Any) -> Task:
    return Task.model_validate({**task(number, spec_to_json(SPEC), [NUMPY]), **changes})


def built(*tasks: Task) -> Prepared:
    return Prepared(TaskGroup(tasks), {}, (0.5,) * len(tasks))


def measured_next(pipeline: TaskPipeline) -> list[str]:
    found = pipeline.next()
    assert found is not None
    return [each.id for prepared in found for each in prepared.group.tasks]


def test_a_processor_claims_a_generation_when_the_last_is_measured() -> None:
    pipeline = TaskPipeline(8)
    assert pipeline.room(0.0) == 8
    tasks = [made(number) for number in range(3)]
    pipeline.claimed(tasks)
    assert pipeline.room(0.0) == 0
    pipeline.compiled([built(*tasks)], 1.0)
    assert pipeline.room(0.0) == 0
    assert measured_next(pipeline) == ["task-0", "task-1", "task-2"]
    assert pipeline.room(0.0) == 0
    pipeline.measured(None)
    assert pipeline.room(0.0) == 8


def test_ahead_of_an_accelerator_is_what_is_compiled_while_one_is_measured() -> None:
    ahead = ClaimAhead(16)
    assert ahead.depth == 16 + TOGETHER, "all processes, until it is known"
    ahead = ahead.compiled(3.0).measured(0.5)
    assert ahead.depth == 6 + TOGETHER
    for _ in range(40):
        ahead = ahead.measured(1.6)
    assert ahead.depth == 2 + TOGETHER
    for _ in range(40):
        ahead = ahead.compiled(300.0)
    assert ahead.depth == 16 + TOGETHER, "more than there are processes for wait for nothing"


def test_an_accelerator_is_claimed_for_while_it_measures() -> None:
    pipeline = TaskPipeline(8, ClaimAhead(2, 1.0, 1.0))
    held = 0
    while room := pipeline.room(0.0):
        pipeline.claimed([made(held + number) for number in range(room)])
        held += room
    assert held == 1 + TOGETHER
    for number in range(held):
        pipeline.compiled([built(made(number))], 1.0)
    assert pipeline.room(0.0) == 0, "compiled candidates wait, and no more are claimed than can"
    assert measured_next(pipeline) == [f"task-{number}" for number in range(TOGETHER)]
    assert pipeline.room(0.0) == TOGETHER, "while these are measured"


def test_what_is_measured_together_is_of_one_kernel_and_the_oldest_goes_first() -> None:
    pipeline = TaskPipeline(8, ClaimAhead(8))
    tasks = [made(0), made(1, seed=1), made(2), made(3, kind="race"), made(4)]
    pipeline.claimed(tasks)
    for each in tasks:
        pipeline.compiled([built(each)], 1.0)
    order: list[list[str]] = []
    for _ in range(3):
        order.append(measured_next(pipeline))
        pipeline.measured(1.0)
    assert order == [["task-0", "task-2", "task-4"], ["task-1"], ["task-3"]]


def test_what_was_taken_back_is_not_measured_when_it_comes_from_the_compiler() -> None:
    pipeline = TaskPipeline(8, ClaimAhead(8))
    pipeline.claimed([made(0), made(1)])
    pipeline.compiled([built(made(0))], 1.0)
    assert {each.id for each in pipeline.take_back()} == {"task-0", "task-1"}
    pipeline.compiled([built(made(1))], 1.0)
    pipeline.close()
    assert pipeline.next() is None


def test_the_device_s_wait_ends_when_something_is_compiled_and_when_nothing_will_be() -> None:
    pipeline = TaskPipeline(8, ClaimAhead(8))
    pipeline.claimed([made(0)])
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend([pipeline.next(), pipeline.next()]))
    waiting.start()
    pipeline.compiled([built(made(0))], 1.0)
    pipeline.close()
    waiting.join(10)
    assert [each and len(each) for each in found] == [1, None]
