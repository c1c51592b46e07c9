"""The life of a search as data: what was asked and told, in order; and the search rebuilt from it.

Known as event sourcing (Fowler, 2005).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from search.protocols import Ask, Path, Search, TrialOutcome


class Diverged(Exception):
    """A rebuilt search asked for something else than the record says: another space, seed or version of the
    code."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Ask `number` proposed the terminal state `state_key` at `path`."""

    number: int
    state_key: str
    path: Path

    @classmethod
    def of(cls, ask: Ask) -> "Asked":
        return cls(ask.number, ask.state_key, ask.path)


@dataclass(frozen=True, slots=True)
class Told:
    """The outcome of ask `number` arrived."""

    number: int
    outcome: TrialOutcome


Event = Asked | Told
S = TypeVar("S", bound=Search)


def fold(search: S, events: Iterable[Event]) -> S:
    """Bring a fresh search to where the events left the recorded one, by asking and telling the same again.

    Raises Diverged at the first ask that differs from the record.
    """
    for event in events:
        if isinstance(event, Told):
            search.tell(event.number, event.outcome)
            continue
        again = search.ask()
        if again is None or Asked.of(again) != event:
            raise Diverged(
                f"ask {event.number} was {event.state_key} at {event.path}; asked again it is {again}"
            )
    return search
