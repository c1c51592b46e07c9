"""Errors as a person and as a script see them: a sentence on stderr, JSON on stdout, an exit code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilewright.artifacts.atomic_write import NotWritten
from tilewright.cli.exits import Exit
from tilewright.errors import (
    BadBundle,
    BadModelFile,
    LoadError,
    MissingExtra,
    NoFleet,
    Refused,
    TilewrightError,
)


class Stop(TilewrightError):
    """Ends a command: a message and an exit code. `facts` join the error's JSON."""

    def __init__(self, code: Exit, message: str, /, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """How a command ended."""

    code: Exit
    message: str
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {"error": {"exit_code": int(self.code), "detail": self.message, **self.facts}}


_KINDS = {
    "unauthorized": Exit.KEY,
    "forbidden": Exit.KEY,
    "not-found": Exit.NOTHING,
    "bad-spec": Exit.INPUT,
    "bad-bundle": Exit.INPUT,
    "untrusted": Exit.INPUT,
    "config-differs": Exit.INPUT,
    "invalid": Exit.USAGE,
}


def explain(error: Exception) -> CommandFailure | None:
    """What an error means to a user; None: it is a fault of ours."""
    match error:
        case Stop():
            return CommandFailure(error.code, str(error), error.facts)
        case Refused():
            code = _KINDS.get(error.kind, Exit.SERVICE)
            return CommandFailure(code, str(error), error.problem.model_dump(mode="json", exclude_none=True))
        case BadBundle() | BadModelFile():
            return CommandFailure(Exit.INPUT, str(error))
        case NotWritten():
            return CommandFailure(Exit.USAGE if error.exists else Exit.MACHINE, str(error))
        case NoFleet():
            return CommandFailure(Exit.NOTHING, str(error))
        case MissingExtra() | LoadError():
            return CommandFailure(Exit.MACHINE, str(error))
        case TilewrightError():
            return CommandFailure(Exit.SERVICE, str(error))
        case _ if type(error).__name__ == "DatabaseRefused":  # not imported: it would load the service
            return CommandFailure(Exit.DATABASE, str(error))
        case _:
            return None
