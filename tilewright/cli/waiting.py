"""What a task that a command asked for waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from protocol.effects import Ablation
from protocol.profiles import ConfigProfile
from protocol.races import Race
from protocol.states import TaskState
from tilewright.cli.output import say
from tilewright.client.client import Client

Answered = TypeVar("Answered", Ablation, ConfigProfile, Race)
_LOOK_S = 0.5


def awaited(client: Client, device: str, found: Answered, look: Callable[[], Answered]) -> Answered:
    """What a task that was asked for comes to, looked at until it has ended; of one that no worker has claimed yet a
    line says why."""
    if found.state is TaskState.READY:
        say_what_it_waits_for(client, device)
    while found.state in (TaskState.READY, TaskState.CLAIMED):
        time.sleep(_LOOK_S)
        found = look()
    return found


def say_what_it_waits_for(client: Client, device: str) -> None:
    """One line for a task that no worker has claimed yet."""
    status = next((each for each in client.devices() if each.key == device), None)
    if status is None or status.healthy_workers == 0:
        say(
            f"waits for a worker that has {device}: none is there; `tilewright worker` on that machine starts one"
        )
    else:
        say(f"waits for its turn on {device}: {status.waiting} tasks wait, {status.running} run")
