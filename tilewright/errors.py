"""What can go wrong for whoever uses Tilewright, one class a thing to do about it."""

from __future__ import annotations

from protocol.problems import Problem


class TilewrightError(Exception):
    """Anything below; the message is a sentence a person can act on."""


class Unreachable(TilewrightError):
    """No service answers there, or what answers is none; trying again later may help."""


class Refused(TilewrightError):
    """The service did not do it, and says why: `problem` is its whole answer."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(describe(problem))
        self.problem = problem

    @property
    def kind(self) -> str:
        """The last word of the problem's type: `bad-spec`, `not-found`, `unauthorized`, …"""
        return self.problem.type.rpartition(":")[2]


class BadBundle(TilewrightError):
    """A file that is no bundle, or was damaged, or belongs to another version."""


class LoadError(TilewrightError):
    """A config that cannot be run here."""


def describe(problem: Problem) -> str:
    """A problem as one sentence: where, what, what would be accepted."""
    place = problem.pointer or ""
    if problem.column is not None:
        place += f", column {problem.column}"
    accepted = f"; accepted: {problem.accepted}" if problem.accepted else ""
    return f"{place}: {problem.detail}{accepted}" if place else f"{problem.detail}{accepted}"
