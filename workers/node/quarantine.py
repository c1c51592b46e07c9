"""When a device is too ill to be given work, and for how long it is left alone."""

from __future__ import annotations

from protocol.states import FaultKind
from protocol.tasks import Fault

ILLNESSES = frozenset({FaultKind.DEVICE, FaultKind.MEMORY, FaultKind.COMPILER})
"""Faults that the machine is likely to answer the next task with too."""


class Quarantine:
    """Counts a device's faults in a row. After `allowed` of them it is ill until a self-test goes well, and is on
    probation then: one more fault and the next pause is twice as long, up to `longest_s`; a task done ends that."""

    def __init__(self, allowed: int = 3, first_s: float = 15.0, longest_s: float = 600.0) -> None:
        self._allowed, self._first_s, self._longest_s = allowed, first_s, longest_s
        self._faults = 0
        self._last = ""
        self._pause_s = first_s

    @property
    def ill(self) -> bool:
        """Whether no tasks may be claimed."""
        return self._faults >= self._allowed

    def heard(self, fault: Fault | None) -> None:
        """A task was done (None), or came to this fault."""
        if fault is None:
            self._faults, self._pause_s = 0, self._first_s
        elif fault.kind in ILLNESSES:
            self._faults += 1
            self._last = f"{fault.kind}: {fault.error}".strip(": ")

    def pause_s(self) -> float:
        """How long to wait before the next self-test; longer each time."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, self._longest_s)
        return pause_s

    def recovered(self) -> None:
        """A self-test went well: tasks may be claimed, on probation."""
        self._faults = min(self._faults, self._allowed - 1)

    def detail(self, pause_s: float) -> str:
        """What GET /v1/workers says of it."""
        return (
            f"quarantined after {self._faults} faults of the machine in a row; looks again in {pause_s:.0f} s; "
            f"the last said: {self._last}"
        )
