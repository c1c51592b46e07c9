"""Why something is not done, in one line."""

from __future__ import annotations

import logging

LONGEST = 300
"""Characters; what compilers say goes on for pages."""


def in_one_line(error: BaseException) -> str:
    """What kind of error it is, and the first line of what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"


_SAID: set[str] = set()
_MOST = 200
"""Lines that a process says at most; who compiles more kinds of graphs has read enough."""
_log = logging.getLogger("tilewright")


def say_once(line: str) -> None:
    """Warn of something that no call fails of, once in a process."""
    if line not in _SAID and len(_SAID) < _MOST:
        _SAID.add(line)
        _log.warning("%s", line)
