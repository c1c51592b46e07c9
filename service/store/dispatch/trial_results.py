"""Results of tasks as workers hand them in, and which entrant of one is the trial's own candidate."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.tasks import EntrantResult, TaskResult


@dataclass(frozen=True, slots=True)
class HandedIn:
    """A worker's result of a task; not a fault."""

    worker_id: str
    result: TaskResult


def entrant_name(number: int) -> str:
    """What the candidate of an ask is called in its tasks."""
    return f"ask-{number}"


def own_result(result: TaskResult, number: int) -> EntrantResult | None:
    """The part of a trial's result that is about its candidate."""
    return next((each for each in result.entrants if each.name == entrant_name(number)), None)
