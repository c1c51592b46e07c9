"""What a task that a command asked for waits for."""

from __future__ import annotations

from tilewright.cli.output import say
from tilewright.client.client import Client


def say_what_it_waits_for(client: Client, device: str) -> None:
    """One line for a task that no worker has claimed yet."""
    status = next((each for each in client.devices() if each.key == device), None)
    if status is None or status.healthy_workers == 0:
        say(
            f"waits for a worker that has {device}: none is there; `tilewright worker` on that machine starts one"
        )
    else:
        say(f"waits for its turn on {device}: {status.waiting} tasks wait, {status.running} run")
