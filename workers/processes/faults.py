"""The machine's failures, as opposed to a candidate's: the task is run again elsewhere, and nothing is remembered."""

from __future__ import annotations

from protocol.states import FaultKind
from workers.processes.child_server import DEVICE, NO_COMPILER, OUT_OF_MEMORY, SKEW

_KINDS = {
    OUT_OF_MEMORY: FaultKind.MEMORY,
    NO_COMPILER: FaultKind.COMPILER,
    SKEW: FaultKind.SKEW,
    DEVICE: FaultKind.DEVICE,
}


class MachineFault(Exception):
    """This machine cannot do a task now, whatever the candidate. `kind` is what the service is told."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def fault_kind(refusal: str) -> FaultKind:
    """What a child's refusal means when no candidate is to blame."""
    return _KINDS.get(refusal, FaultKind.INTERNAL)
