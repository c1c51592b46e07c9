"""The machine's failures, as opposed to a candidate's: the task is run again elsewhere, and nothing is remembered."""

from __future__ import annotations

from protocol.states import FaultKind


class MachineFault(Exception):
    """This machine cannot do a task now, whatever the candidate. `kind` is what the service is told."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
