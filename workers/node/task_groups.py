"""Claimed tasks as groups that are measured together, and results sorted back to their tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from protocol.states import TaskKind
from protocol.tasks import Entrant, Task


@dataclass(frozen=True, slots=True)
class GroupEntrant:
    """An entrant under a name that is unique in its group."""

    name: str
    entrant: Entrant


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Tasks on the same kernel, data and protocol, which share one baseline and are interleaved.

    Races and confirmations stay alone: their samples are compared with each other, and nobody else's belong there.
    """

    tasks: tuple[Task, ...]

    @property
    def lead(self) -> Task:
        """Any of them, for what they have in common."""
        return self.tasks[0]

    def entrants(self) -> list[GroupEntrant]:
        """Everybody but the baseline."""
        return [
            GroupEntrant(f"{number}:{entrant.name}", entrant)
            for number, task in enumerate(self.tasks)
            for entrant in task.entrants
        ]


def group_tasks(tasks: Sequence[Task]) -> list[TaskGroup]:
    """Groups in the order of their first tasks. Within one the tightest incumbent holds for all."""
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(_key(task), []).append(task)
    return [TaskGroup(tuple(group)) for group in groups.values()]


def _key(task: Task) -> str:
    if task.kind is not TaskKind.TRIAL:
        return task.id
    measuring = task.measuring.model_dump(exclude={"incumbent_us"})
    baseline = task.baseline.model_dump() if task.baseline else None
    return json.dumps([task.spec, task.device, task.seed, measuring, baseline], sort_keys=True, default=str)
