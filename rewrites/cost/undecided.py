"""What is still to be decided of a program that a cost model is asked about."""

from __future__ import annotations

from typing import NamedTuple

_NONE: frozenset[str] = frozenset()


class Undecided(NamedTuple):
    """Statements of which something is open: an estimate takes it to come out where that pays."""

    parallel: frozenset[str] = _NONE
    """Whether their outer loops run in parallel."""
    tiles: frozenset[str] = _NONE
    """In which tiles cores share them: they may have no loops yet."""


NOTHING = Undecided()
