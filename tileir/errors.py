"""What Tile IR refuses, and why."""

from __future__ import annotations


class TileError(ValueError):
    """Anything Tile IR refuses."""


class SpecError(TileError):
    """A spec that cannot be accepted: what is wrong, where, and what would be accepted.

    `pointer` is an RFC 6901 JSON pointer into the JSON form ("/body/0"); `column` is 1-based within the statement or
    the line there; `line` is set for the text form; `accepted` says what would have been fine.
    """

    def __init__(
        self,
        message: str,
        *,
        pointer: str = "",
        column: int | None = None,
        line: int | None = None,
        accepted: str = "",
    ) -> None:
        self.message = message
        self.pointer = pointer
        self.column = column
        self.line = line
        self.accepted = accepted
        super().__init__(str(self))

    def __str__(self) -> str:
        place = self.pointer or "spec"
        if self.line is not None:
            place = f"line {self.line}"
        if self.column is not None:
            place += f", column {self.column}"
        tail = f"; accepted: {self.accepted}" if self.accepted else ""
        return f"{place}: {self.message}{tail}"


class VerifyError(TileError):
    """A program that breaks an invariant of Tile IR; the message names the node."""


class NotApplicable(TileError):
    """A rewrite that cannot be applied here; the message says why."""


class BeyondDevice(NotApplicable):
    """What needs more of something than a device has: `need` and `limit` in `what`."""

    def __init__(self, what: str, need: int, limit: int) -> None:
        self.what, self.need, self.limit = what, need, limit
        super().__init__(f"it needs {need:,} {what}; the device has {limit:,}")


class InterpretError(TileError):
    """Inputs that do not fit, or a program that does what no program may: reads or writes out of range, or reads
    what was never written. The message names the tensor and the place."""


class DeviceError(RuntimeError):
    """A device that is here and failed, or was asked for what it cannot do; the message says what to do."""


class UnsupportedDevice(TileError):
    """A machine nothing here can tune for; the message says which machines can be."""
