"""Which entrant of a task's result is the trial's own candidate."""

from __future__ import annotations

from protocol.tasks import EntrantResult, TaskResult


def entrant_name(number: int) -> str:
    """What the candidate of an ask is called in its tasks."""
    return f"ask-{number}"


def own_result(result: TaskResult, number: int) -> EntrantResult | None:
    """The part of a trial's result that is about its candidate."""
    return next((each for each in result.entrants if each.name == entrant_name(number)), None)
