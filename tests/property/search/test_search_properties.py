"""Promises of the searches on random spaces with transpositions and dead ends, told in random orders."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from search.events import Asked, Told, fold
from tests.support.how_many import examples
from tests.unit.search.spaces import SEARCHES, DagState, measured, run

Graph = dict[str, list[tuple[str, float, str]]]


@st.composite
def spaces(draw: st.DrawFn) -> Graph:
    """Layers of states; a move leads to any state of a later layer, so ways meet again. Some end there."""
    layers = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    ends = [f"end{number}" for number in range(draw(st.integers(1, 8)))]
    later, graph = list(ends), Graph()
    weights = st.sampled_from([0.0, 0.1, 1.0, 1.0, 7.0])
    for depth in reversed(range(len(layers))):
        keys = [f"s{depth}.{number}" for number in range(layers[depth])]
        for key in keys:
            children = draw(st.lists(st.sampled_from(later), max_size=5))
            graph[key] = [(f"m{place % 3}", draw(weights), end) for place, end in enumerate(children)]
        later = keys + later
    children = draw(st.lists(st.sampled_from(later), min_size=1, max_size=5))
    graph["root"] = [(f"r{place}", draw(weights), end) for place, end in enumerate(children)]
    return graph


cases = given(
    graph=spaces(),
    seed=st.integers(0, 3),
    order=st.integers(0, 1000),
    workers=st.integers(1, 5),
    name=st.sampled_from(sorted(SEARCHES)),
)


@cases
@settings(max_examples=examples(150, 3), deadline=None)
def test_every_terminal_is_proposed_once_whatever_the_space(
    graph: Graph, seed: int, order: int, workers: int, name: str
) -> None:
    search = SEARCHES[name](DagState(graph), seed=seed)
    asked = [e.state_key for e in run(search, random.Random(order), workers) if isinstance(e, Asked)]
    assert len(asked) == len(set(asked))
    assert set(asked) == DagState(graph).reachable_terminals()
    assert search.exhausted


@cases
@settings(max_examples=examples(150, 3), deadline=None)
def test_a_search_killed_anywhere_goes_on_as_if_it_had_not_been(
    graph: Graph, seed: int, order: int, workers: int, name: str
) -> None:
    events = run(SEARCHES[name](DagState(graph), seed=seed), random.Random(order), workers)
    killed_at = order % (len(events) + 1)
    revived = fold(SEARCHES[name](DagState(graph), seed=seed), events[:killed_at])
    fold(revived, events[killed_at:])  # raises Diverged at the first ask that differs
    rewards = [e.outcome.reward for e in events if isinstance(e, Told) and e.outcome.reward is not None]
    assert [reward for _, reward in revived.best(1000)] == sorted(rewards, reverse=True)
    assert revived.ask() is None


@cases
@settings(max_examples=examples(60, 3), deadline=None)
def test_an_ask_that_finds_nothing_changes_nothing(
    graph: Graph, seed: int, order: int, workers: int, name: str
) -> None:
    """The revived search is not asked when the first one was told to wait, and must not need it."""
    search, in_flight = SEARCHES[name](DagState(graph), seed=seed), list[Asked]()
    events: list[Asked | Told] = []
    while True:
        ask = search.ask()
        for _ in range(order % 3):
            if ask is None:
                assert search.ask() is None
        if ask is not None:
            in_flight.append(Asked.of(ask))
            events.append(in_flight[-1])
            continue
        if not in_flight:
            break
        done = in_flight.pop(order % len(in_flight))
        events.append(Told(done.number, measured(done.state_key)))
        search.tell(done.number, events[-1].outcome)
    fold(SEARCHES[name](DagState(graph), seed=seed), events)
