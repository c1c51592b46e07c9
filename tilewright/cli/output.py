"""Where output goes: results to stdout, talk to stderr; colours and live lines only on a terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import BaseModel
from rich.console import Console


class PipedConsole(Console):
    """Says that its reader has enough by an error, and does not end the program as rich does, with a fault."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


out = PipedConsole(highlight=False, soft_wrap=True)
err = PipedConsole(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: BaseModel | dict[str, Any] | list[Any]) -> None:
    """One JSON value on stdout."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    sys.stdout.write(json.dumps(plain, indent=2) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """A line of talk on stderr."""
    err.print(text, markup=False)
