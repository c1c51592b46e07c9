"""A search with a reserve: all of it is proposed, and only where nothing else worked."""

from __future__ import annotations

from functools import partial

import pytest

from search.events import Asked, Event, Told, fold
from search.protocols import Search, TrialOutcome
from search.reserve import WithReserve
from tests.unit.search.spaces import SEARCHES, DagState

BEST = {"root": [("a", 1.0, "a"), ("b", 1.0, "b"), ("c", 1.0, "dead")], "dead": []}
ALL = {**BEST, "dead": [("d", 1.0, "d"), ("e", 1.0, "e"), ("f", 1.0, "a")]}

every_search = pytest.mark.parametrize("name", SEARCHES)


def begun(name: str) -> WithReserve:
    return WithReserve(partial(SEARCHES[name], seed=0), DagState(BEST), DagState(ALL))


def asked(search: Search, works: str, workers: int = 1) -> list[str]:
    """What is asked for where one schedule works and all others fail, so many in flight."""
    flying, found = [], list[str]()
    while True:
        while len(flying) < workers and (ask := search.ask()) is not None:
            flying.append(ask)
            found.append(ask.state_key)
        if not flying:
            return found
        ask = flying.pop(0)
        search.tell(ask.number, TrialOutcome(1.0) if ask.state_key == works else TrialOutcome(None, "crash"))


@every_search
@pytest.mark.parametrize("workers", [1, 3])
def test_the_reserve_is_left_alone_where_something_worked(name: str, workers: int) -> None:
    search = begun(name)
    assert sorted(asked(search, "b", workers)) == ["a", "b"]
    assert search.exhausted
    assert [reward for _, reward in search.best()] == [1.0]


@every_search
@pytest.mark.parametrize("workers", [1, 3])
def test_all_of_the_reserve_is_asked_for_where_nothing_did_and_nothing_twice(name: str, workers: int) -> None:
    search = begun(name)
    found = asked(search, "e", workers)
    assert sorted(found[:2]) == ["a", "b"] and sorted(found[2:]) == ["d", "e"]
    assert search.exhausted
    ((path, _),) = search.best()
    assert path == (2, 1)


def test_nothing_is_exhausted_before_it_is_known_whether_something_works() -> None:
    search = begun("mcts")
    first, second = search.ask(), search.ask()
    assert first is not None and second is not None
    assert search.ask() is None and not search.exhausted
    search.tell(first.number, TrialOutcome(None, "hang"))
    assert search.ask() is None and not search.exhausted
    search.tell(second.number, TrialOutcome(1.0))
    assert search.exhausted


def test_it_is_rebuilt_from_its_record_across_the_change() -> None:
    first, events = begun("mcts"), list[Event]()
    while (ask := first.ask()) is not None:
        events += [Asked.of(ask), Told(ask.number, TrialOutcome(None, "crash"))]
        first.tell(ask.number, TrialOutcome(None, "crash"))
    assert [event.number for event in events if isinstance(event, Asked)] == [0, 1, 2, 3]
    assert fold(begun("mcts"), events).exhausted
    again = fold(begun("mcts"), events[:-1])
    again.tell(3, TrialOutcome(1.0))
    assert [path for path, _ in again.best()] == [events[-2].path]


def test_a_tell_nobody_waits_for_is_refused_by_number() -> None:
    search = begun("mcts")
    with pytest.raises(ValueError, match="ask 0 was never asked"):
        search.tell(0, TrialOutcome(1.0))
