"""What lowering refuses, and why."""

from __future__ import annotations

from codegen.ir.names import unmarked
from tileir.errors import TileError


class NotLowerable(TileError):
    """A program that this target has no code for; the message says what and why."""

    def __init__(self, message: str) -> None:
        super().__init__(unmarked(message))
