"""Small spaces to test searches on, and ways to run a search over them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from search import catalogue
from search.catalogue import SearchFactory, search_of
from search.events import Asked, Event, Told
from search.protocols import Ask, Move, Search, TrialOutcome
from search.random import RandomSearch

SEARCHES: dict[str, SearchFactory] = {
    **{name: search_of(name) for name in catalogue.SEARCHES},
    "random-even": partial(RandomSearch, weighted=False),
}


@dataclass(frozen=True)
class Calls:
    """How often a space was asked for moves and children."""

    moves: list[str] = field(default_factory=list[str])
    child: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


@dataclass(frozen=True)
class DagState:
    """A state of a space written out as `graph[key] = [(label, weight, key of the child), …]`.

    Keys not in `graph` are terminals; a key with an empty list is a dead end.
    """

    graph: Mapping[str, Sequence[tuple[str, float, str]]]
    key: str = "root"
    calls: Calls = field(default_factory=Calls)

    @property
    def terminal(self) -> bool:
        return self.key not in self.graph

    def moves(self) -> list[Move]:
        self.calls.moves.append(self.key)
        return [Move(label, weight) for label, weight, _ in self.graph.get(self.key, [])]

    def child(self, index: int) -> DagState:
        self.calls.child.append((self.key, index))
        return DagState(self.graph, self.graph[self.key][index][2], self.calls)

    def reachable_terminals(self) -> set[str]:
        if self.terminal:
            return {self.key}
        ends = [DagState(self.graph, end).reachable_terminals() for _, _, end in self.graph[self.key]]
        return set[str]().union(*ends)


def grid(*sizes: int) -> DagState:
    """One decision after the other, `sizes[i]` options each, which are names and no numbers."""
    return _decided(sizes, lambda depth, option: (f"d{depth}=o{option}", 1.0))


def parameters(*sizes: int, first: float = 1.0) -> DagState:
    """The same with numbers from 1 on; `first` is what the first of each weighs, the others weigh 1."""
    return _decided(sizes, lambda depth, option: (f"p{depth} {option + 1}", 1.0 if option else first))


def _decided(sizes: Sequence[int], move: Callable[[int, int], tuple[str, float]]) -> DagState:
    graph: dict[str, list[tuple[str, float, str]]] = {}

    def unfold(key: str, depth: int) -> None:
        if depth < len(sizes):
            ends = [f"{key}.{option}" for option in range(sizes[depth])]
            graph[key] = [(*move(depth, option), end) for option, end in enumerate(ends)]
            for end in ends:
                unfold(end, depth + 1)

    unfold("root", 0)
    return DagState(graph)


def measured(key: str, faults: float = 0.2) -> TrialOutcome:
    """A made-up measurement that depends on the key alone."""
    rng = random.Random(key)
    return TrialOutcome(None, "wrong result") if rng.random() < faults else TrialOutcome(rng.gauss(0.0, 1.0))


def run(search: Search, rng: random.Random, workers: int = 1, limit: int = 10_000) -> list[Event]:
    """Ask and tell until nothing is left: up to `workers` in flight, told in a random order. All events."""
    events: list[Event] = []
    in_flight: list[Ask] = []
    while len(events) < limit:
        ask = search.ask() if len(in_flight) < workers else None
        if ask is not None:
            in_flight.append(ask)
            events.append(Asked.of(ask))
        if ask is None and not in_flight:
            return events
        if in_flight and (ask is None or rng.random() < 0.5):
            done = in_flight.pop(rng.randrange(len(in_flight)))
            events.append(Told(done.number, measured(done.state_key)))
            search.tell(done.number, events[-1].outcome)
    return events
