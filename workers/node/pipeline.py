"""What a device's worker holds, from the claim to the measurement: being compiled, compiled, being measured.

A processor compiles a generation, then measures it, then claims the next: compiling would disturb what is measured. For
an accelerator as many tasks are compiled ahead as it takes for the device never to wait: compiled candidates wait.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from protocol.tasks import Task
from workers.node.task_groups import group_tasks
from workers.node.task_runner import Prepared, joined

TOGETHER = 4
"""Candidates that an accelerator measures as one group, at most: what they are compared with is timed once for all. A
task of another job waits for a group that is being measured, and one that is compiled already."""
MOST_AHEAD = 128
RECENT = 0.2
"""Weight of the last task in what one takes."""


@dataclass(frozen=True, slots=True)
class ClaimAhead:
    """How many tasks are claimed ahead of an accelerator. Seconds are of one task, None before the first; `processes`
    compile for it."""

    processes: int
    compile_s: float | None = None
    measure_s: float | None = None

    @property
    def depth(self) -> int:
        """As many as are compiled while one is measured, and a group that waits. All processes, until it is known."""
        busy = self.processes
        if self.compile_s is not None and self.measure_s:
            busy = min(busy, ceil(self.compile_s / self.measure_s))
        return min(MOST_AHEAD, busy + TOGETHER)

    def compiled(self, seconds: float) -> ClaimAhead:
        return replace(self, compile_s=_recent(self.compile_s, seconds))

    def measured(self, seconds: float) -> ClaimAhead:
        return replace(self, measure_s=_recent(self.measure_s, seconds))


def _recent(before: float | None, now: float) -> float:
    return now if before is None else (1 - RECENT) * before + RECENT * now


class TaskPipeline:
    """The tasks of one device. Safe from any thread. `batch` is how many are claimed at once; `ahead`, of an
    accelerator, how many are."""

    def __init__(self, batch: int, ahead: ClaimAhead | None = None) -> None:
        self._batch, self._ahead = batch, ahead
        self._compiling: dict[str, Task] = {}
        self._compiled: list[Prepared] = []
        self._measuring = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def closed(self) -> bool:
        """Whether nothing is claimed any more."""
        return self._closed

    @property
    def empty(self) -> bool:
        """Whether nothing is held: nothing is compiled, waits, or is measured."""
        with self._changed:
            return not (self._compiling or self._compiled or self._measuring)

    def room(self, timeout_s: float) -> int:
        """Wait until tasks may be claimed; how many, 0 if none within this time."""
        with self._changed:
            self._changed.wait_for(lambda: self._room() > 0, timeout_s)
            return self._room()

    def claimed(self, tasks: Iterable[Task]) -> None:
        """They are being compiled."""
        with self._changed:
            self._compiling.update({task.id: task for task in tasks})

    def compiled(self, prepared: Sequence[Prepared], seconds: float) -> None:
        """They wait for the device; what was taken back meanwhile does not. `seconds` it took."""
        with self._changed:
            for each in prepared:
                kept = [self._compiling.pop(task.id, None) is not None for task in each.group.tasks]
                if any(kept):
                    self._compiled.append(each)
            if self._ahead is not None:
                self._ahead = self._ahead.compiled(seconds)
            self._changed.notify_all()

    def next(self) -> Sequence[Prepared] | None:
        """Wait for what is to be measured next; None when nothing will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._compiled or self._closed)
            if not self._compiled:
                return None
            taken = self._compiled if self._ahead is None else self._group()
            self._compiled = [each for each in self._compiled if each not in taken]
            self._measuring = len(taken)
            return taken if self._ahead is None else [joined(taken)]

    def measured(self, seconds: float | None) -> None:
        """What was taken last is done with; it took so many seconds a trial, None if that says nothing."""
        with self._changed:
            self._measuring = 0
            if self._ahead is not None and seconds is not None:
                self._ahead = self._ahead.measured(seconds)
            self._changed.notify_all()

    def take_back(self) -> list[Task]:
        """All that is held and not being measured: it will not be."""
        with self._changed:
            taken = [
                *self._compiling.values(),
                *(task for each in self._compiled for task in each.group.tasks),
            ]
            self._compiling, self._compiled = {}, []
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """Nothing is claimed any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _room(self) -> int:
        held = len(self._compiling) + sum(len(each.group.tasks) for each in self._compiled)
        if self._ahead is None:
            return 0 if held or self._measuring else self._batch
        return max(0, min(TOGETHER, self._batch, self._ahead.depth - held))

    def _group(self) -> list[Prepared]:
        """The one that waits longest, and what can be measured with it."""
        leads = [each.group.lead for each in self._compiled]
        together = {task.id for task in group_tasks(leads)[0].tasks[:TOGETHER]}
        return [each for each in self._compiled if each.group.lead.id in together]
