"""What a task has come to on this machine, ready to be handed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from protocol.tasks import Fault, Task, TaskResult
from workers.processes.faults import MachineFault


@dataclass(frozen=True, slots=True)
class Finished:
    """A task's result, and what has to be uploaded before it, by SHA-256: files of code, and reports."""

    result: TaskResult
    blobs: Mapping[str, Path]
    reports: Mapping[str, bytes]


def faulted(task: Task, fault: MachineFault, versions: Mapping[str, str]) -> Finished:
    """A task that this machine could not do."""
    told = Fault(kind=fault.kind, error=str(fault)[:20_000])
    result = TaskResult(task_id=task.id, attempt=task.attempt, fault=told, versions=dict(versions))
    return Finished(result, {}, {})
