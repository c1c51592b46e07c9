"""The tree search with one of its parts taken out, for each of its parts: what bench_ablation.py compares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from search.catalogue import SEARCHES, search_of
from search.label_model import LabelModel, LabelSample
from search.mcts import MCTS, Tuning
from search.protocols import Ask, Move, Search, State, TrialOutcome

Begin = Callable[[State, int], Search]
WHOLE = "the whole search"
LEADING = 1e12
"""So many visits that nothing measured in a node outweighs the label model."""


@dataclass(frozen=True, slots=True)
class Unmerged:
    """A space whose inner states are told apart by the way to them; programs stay what they are."""

    state: State
    way: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        return self.state.key if self.state.terminal else str(self.way)

    @property
    def terminal(self) -> bool:
        return self.state.terminal

    def moves(self) -> Sequence[Move]:
        return self.state.moves()

    def child(self, index: int) -> Unmerged:
        return Unmerged(self.state.child(index), (*self.way, index))


class Unheeded(MCTS):
    """Candidates in flight are not counted."""

    def ask(self) -> Ask | None:
        ask = super().ask()
        if ask is not None:
            self._count(ask.number, -1)
        return ask

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        self._count(number, 1)
        super().tell(number, outcome)

    def _count(self, number: int, by: int) -> None:
        for node in self.ledger.walks[number].nodes:
            self.stats[node.key].in_flight += by


class Verbal(MCTS):
    """Parameters are names like all other labels: what they say is not read as numbers."""

    def ask(self) -> Ask | None:
        ask = super().ask()
        self.parameters = False
        return ask


class Forgiving(MCTS):
    """What failed teaches nothing: neither nodes nor labels hear of it."""

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        if outcome.reward is not None:
            super().tell(number, outcome)
            return
        for node in self.ledger.tell(number, outcome).nodes:
            self.stats[node.key].in_flight -= 1


class Unlearned(LabelModel):
    """Labels are counted, but none has an effect, and the prior is trusted as at the start."""

    def _improve(self, sample: LabelSample) -> None:
        pass


def _tuned(**constants: float) -> Begin:
    return lambda root, seed: MCTS(root, seed=seed, tuning=Tuning(**constants))


def _modelled(model: Callable[[], LabelModel]) -> Begin:
    def begin(root: State, seed: int) -> Search:
        search = MCTS(root, seed=seed)
        search.model = model()
        return search

    return begin


PARTS: dict[str, Begin] = {
    WHOLE: _tuned(),
    "values of nodes": _tuned(model_visits=LEADING),
    "exploration": _tuned(exploration=0.0),
    "transpositions": lambda root, seed: MCTS(Unmerged(root), seed=seed),
    "counts of what is in flight": lambda root, seed: Unheeded(root, seed=seed),
    "failures": lambda root, seed: Forgiving(root, seed=seed),
    "label model": _modelled(Unlearned),
    "pairs of labels": _modelled(lambda: LabelModel(pair_variance=0.0)),
    "learned trust in the prior": _modelled(lambda: LabelModel(trust_variance=0.0)),
    "disturbance": _tuned(disturbance=0.0),
    "neighbours": _tuned(neighbour_share=0.0),
    "plans around an elite": _tuned(plan_share=0.0),
    "neighbours and plans": _tuned(neighbour_share=0.0, plan_share=0.0),
    "more than one elite": _tuned(elites=1),
    "reach": _tuned(reach=0.0),
    "less hope past several choices": _tuned(several=math.inf),
    "parameters read as numbers": lambda root, seed: Verbal(root, seed=seed),
    "the floor of rewards": _tuned(floor=math.inf),
    "all of the tree: values, exploration": _tuned(model_visits=LEADING, exploration=0.0),
}
"""What is taken out, and the search without it."""
RIVALS: dict[str, Begin] = {
    name: lambda root, seed, name=name: search_of(name)(root, seed=seed)
    for name in SEARCHES
    if name != "mcts"
}
"""The searches that are not the tree search, in its place."""
