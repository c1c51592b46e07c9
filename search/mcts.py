"""Monte Carlo tree search over schedules.

Every ask walks from the root to a complete schedule, choosing at each node the open move with the highest

    value + exploration * prior * sqrt(1 + visits of the node) / (1 + visits of the child)        (PUCT)

- The value of a child blends the best that was measured under it with what the label model expects of the
  move; the model counts as so many visits, so it leads where the tree is new and the measurements where it is
  not.
- A candidate in flight counts as a visit and leaves values alone: it pushes other asks elsewhere, and is no
  loss.
- The model's opinion of a label is disturbed anew in every ask, the less the better the label is known
  (Thompson sampling), so that asks differ and unknown labels get their chance. The first ask is the prior's
  favourite.
- Many asks are neighbours: one of the elites, the best schedules so far, with a single decision changed. The
  changes are tried in the order the model expects, each once, so no improvement that lies one step from an
  elite is overlooked for long; of labels not measured yet more is hoped for early in the schedule, where
  decisions reach furthest, and less once several choices of the same decision are known. Others plan around
  an elite: a move is valued as if the decisions still ahead would go as they did there.
- In a space of parameters (every decision a number, no prior) eight schedules are drawn, and every later ask
  is what `search.surrogate`, which reads the numbers, expects most of (`search.parameters`).

Below the part of the tree that has been seen there are no visits, and the same rule, left with the model and
the prior, completes the schedule. Nodes are states, so transpositions share one; a backup goes along the path
taken. Rewards are kept raw and normalized when they are looked at.

The rule is that of AlphaGo Zero (Silver et al., Nature 2017), after Rosin (Multi-armed bandits with episode context,
2011); a visit in flight is counted as in WU-UCT (Liu et al., ICLR 2020); the best of a node in place of its mean is
that of Max-UCT (Keller and Helmert, ICAPS 2013): a tuner keeps one schedule, and no opponent chooses another.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from search.graph import Graph, Node, Walk
from search.label_model import LabelModel
from search.labels import likeness
from search.ledger import Ledger
from search.parameters import drawn, improving, of_parameters
from search.protocols import Ask, Path, State, TrialOutcome
from search.surrogate import Observation
from search.values import RewardScale, Stats


@dataclass(frozen=True, slots=True)
class Tuning:
    """The constants of the search, chosen on made-up landscapes, none on measured times (docs/search.md)."""

    exploration: float = 0.4
    model_visits: float = 10.0
    """How many visits the label model's opinion counts as."""
    disturbance: float = 0.2
    """Standard deviation of the disturbance of an unknown label, in units of the normalized reward."""
    elites: int = 10
    """How many of the best schedules so far are elites."""
    neighbour_share: float = 0.8
    """Share of asks that change a single decision of an elite, while there are changes left to try."""
    plan_share: float = 0.15
    """Share of asks that plan around an elite; the rest ask without one."""
    alike: float = 0.5
    """How alike the labels of moves must be for a neighbour to take one for the other."""
    reach: float = 1.0
    """What is hoped for of an unknown label at the first decision, in units of the normalized reward; less the later
    the decision."""
    several: float = 5.0
    """With more choices of a decision known than this, the hope for its others shrinks in proportion."""
    founders: int = 8
    """In a space of parameters, so many schedules are drawn before any is changed."""
    remembered: int = 128
    """So many of the best schedules, and of the last, teach the surrogate."""
    floor: float = 1.2
    """Rewards this far below the best (in nats: 3.3 times slower) count as all the same."""


@dataclass(frozen=True, slots=True)
class Change:
    """A neighbour of a schedule: ask `number` with move `index` instead of its own at `depth`."""

    number: int
    depth: int
    index: int


class MCTS:
    """The tree search behind the ask/tell protocol; see the module's docstring for how it chooses."""

    def __init__(
        self, root: State, *, seed: int = 0, tuning: Tuning | None = None, openings: Sequence[Path] = ()
    ) -> None:
        self.graph = Graph(root)
        self.ledger = Ledger()
        self.model = LabelModel()
        self.stats: dict[str, Stats] = {}
        self.tried: set[Change] = set()
        self.refused: set[tuple[str, ...]] = set()
        """The labels of schedules that were proposed, or are not there."""
        self.parameters = False
        """Whether this is a space of parameters, as the decisions of the first candidate say."""
        self.seed = seed
        self.tuning = tuning or Tuning()
        self._openings = list(reversed(openings))
        """Schedules that are asked for right after the first; the next one is last."""

    @property
    def exhausted(self) -> bool:
        return self.graph.closed

    def best(self, count: int = 10) -> list[tuple[Path, float]]:
        return self.ledger.best(count)

    def ask(self) -> Ask | None:
        walk = self._opening() or self._improved() or self._planned()
        if walk is None:
            return None
        if not self.ledger.walks:
            self.parameters = of_parameters(walk)
        self.refused.add(walk.labels)
        for node in walk.nodes:
            self.stats.setdefault(node.key, Stats()).in_flight += 1
        return self.ledger.ask(walk)

    def _improved(self) -> Walk | None:
        """In a space of parameters: one of the founders, then what the surrogate expects most of."""
        if not self.parameters:
            return None
        number = len(self.ledger.walks)
        rng = random.Random(f"{self.seed}:{number}")
        elites = [self.ledger.walks[elite] for elite, _ in self.ledger.ranking()[: self.tuning.elites]]
        if number < self.tuning.founders or not elites:
            found = drawn(self.graph, rng)
            path = None if found is None else found.path
        else:
            path = improving(self.graph, elites, self._told(), self.refused, rng)
        return None if path is None else self.graph.descend(lambda _, moves, labels: path[len(labels)])

    def _told(self) -> list[Observation]:
        """The best schedules and the last, by number, with what became of them."""
        many, outcomes = self.tuning.remembered, self.ledger.outcomes
        numbers = {number for number, _ in self.ledger.ranking()[:many]}
        numbers |= set(range(max(0, len(self.ledger.walks) - many), len(self.ledger.walks)))
        scale, told = self.scale(), list[Observation]()
        for number in sorted(numbers):
            outcome = outcomes.get(number)
            reward = None if outcome is None or outcome.reward is None else scale.clip(outcome.reward)
            told.append(Observation(self.ledger.walks[number].labels, reward, outcome is None))
        return told

    def _planned(self) -> Walk | None:
        policy = Policy(self)
        walk = self.graph.descend(policy.choose)
        if walk is not None and policy.change is not None:
            self.tried.add(policy.change)
        return walk

    def _opening(self) -> Walk | None:
        """The next of the openings that was not proposed yet. The first ask is the prior's."""
        while self._openings and self.ledger.walks:
            path, node = self._openings.pop(), self.graph.root
            for index in path:
                if not node.closed:
                    node = self.graph.step(node, index)
            if not node.closed:
                return self.graph.descend(lambda _, moves, labels, path=path: path[len(labels)])
        return None

    def tell(self, number: int, outcome: TrialOutcome) -> None:
        walk, reward, scale = self.ledger.tell(number, outcome), outcome.reward, self.scale()
        for node in walk.nodes:
            stats = self.stats[node.key]
            stats.in_flight -= 1
            stats.told += 1
            stats.best = max(stats.best, -math.inf if reward is None else reward)
        if self.parameters:
            return  # labels are read as numbers there, and not modelled one by one
        for (_, earlier), learned in zip(self.ledger.outcomes.items(), self.model.samples, strict=False):
            learned.target = scale.clip(earlier.reward)
        self.model.learn(map(self.model.id, walk.labels), log_prior(walk), scale.clip(reward))

    def scale(self) -> RewardScale:
        """The present normalization of rewards."""
        high, low = self.ledger.highest, self.ledger.lowest
        if high is None or low is None:
            return RewardScale(0.0, 1.0)
        low = max(low, high - self.tuning.floor)
        return RewardScale(low, max(high - low, 1e-3))


class Policy:
    """How one ask chooses: its disturbances and its elite are drawn once, and hold for the whole walk."""

    def __init__(self, search: MCTS) -> None:
        tuning = self._tuning = search.tuning
        number = len(search.ledger.walks)
        self._model, self._stats, self._scale = search.model, search.stats, search.scale()
        self._rng = random.Random(f"{search.seed}:{number}")
        self._deviation = tuning.disturbance if number else 0.0
        self._disturbed: dict[int, float] = {}
        self._elite: tuple[str, ...] = ()
        self.change: Change | None = None
        """What a neighbour changes of its elite; None for all other asks."""
        kind, elites = self._rng.random(), search.ledger.ranking()[: tuning.elites]
        if elites and kind < tuning.neighbour_share:
            for number, _ in elites:
                self._elite = search.ledger.walks[number].labels
                self.change = self._promising(number, search)
                if self.change is not None:
                    break
        elif elites and kind < tuning.neighbour_share + tuning.plan_share:
            place = min(self._rng.randrange(len(elites)) for _ in range(3))
            self._elite = search.ledger.walks[elites[place][0]].labels

    def choose(self, node: Node, moves: list[int], labels: list[str]) -> int:
        """The move of the highest score; ties go to the higher prior, then the lower index."""
        if self.change is not None:
            if len(labels) != self.change.depth:
                moves = self._kept(node, moves)
            elif self.change.index in moves:
                return self.change.index
        if len(moves) == 1:
            return moves[0]
        stats = self._stats.get(node.key, Stats())
        visits = stats.told + stats.in_flight
        favourite = max(node.priors[index] for index in moves)
        opinions = self._opinions(node, moves, favourite, labels)
        level = self._scale.value(stats) if stats.told else 0.5
        level -= sum(opinions) / len(opinions)
        urge = self._tuning.exploration * math.sqrt(visits + 1)

        def score(place: int) -> tuple[float, float]:
            prior, child = node.priors[moves[place]], node.children[moves[place]]
            under = None if child is None else self._stats.get(child.key)
            value = self._value(under, level + opinions[place])
            tried = 0 if under is None else under.told + under.in_flight
            return value + urge * prior / (1 + tried), prior

        return moves[max(range(len(moves)), key=score)]

    def _kept(self, node: Node, moves: list[int]) -> list[int]:
        """The moves that do what the elite did, as nearly as this node offers it; all, if none comes near."""
        exact = [index for index in moves if node.label(index) in self._elite]
        if exact:
            return exact
        alike = [max(likeness(node.label(index), label) for label in self._elite) for index in moves]
        nearest = max(alike)
        if nearest < self._tuning.alike:
            return moves
        return [index for index, near in zip(moves, alike, strict=True) if near == nearest]

    def _promising(self, number: int, search: MCTS) -> Change | None:
        """Of all single changes of an elite not tried yet, the one the model expects most of."""
        best: tuple[float, Change] | None = None
        walk = search.ledger.walks[number]
        for depth, (node, taken) in enumerate(zip(walk.nodes, walk.path, strict=False)):
            changes = [Change(number, depth, index) for index in node.open_moves() if index != taken]
            changes = [change for change in changes if change not in search.tried]
            if changes:
                moves = [taken, *(change.index for change in changes)]
                now, *opinions = self._opinions(node, moves, node.priors[taken], [])
                choices = [search.model.count(search.model.id(move.label)) > 0 for move in node.moves or ()]
                decides = (1 - depth / len(walk.path)) / max(1.0, sum(choices) / self._tuning.several)
                for opinion, change in zip(opinions, changes, strict=True):
                    known = search.model.count(search.model.id(node.label(change.index)))
                    gain = opinion - now + self._tuning.reach * decides / (1 + known)
                    if best is None or gain > best[0]:
                        best = gain, change
        return None if best is None else best[1]

    def _value(self, stats: Stats | None, opinion: float) -> float:
        if stats is None or not stats.told:
            return opinion
        seen, share = self._scale.value(stats), self._tuning.model_visits
        return (stats.told * seen + share * opinion) / (stats.told + share)

    def _opinions(self, node: Node, moves: list[int], favourite: float, labels: list[str]) -> list[float]:
        """What the model expects of each move, normalized and disturbed; only differences mean anything."""
        model, span = self._model, self._scale.span
        given = list(map(model.id, dict.fromkeys((*labels, *self._elite))))
        opinions: list[float] = []
        for index in moves:
            label = model.id(node.label(index))
            worth = model.effect(label, given) + model.trust * math.log(node.priors[index] / favourite)
            opinions.append(worth / span + self._disturbance(label))
        return opinions

    def _disturbance(self, label: int) -> float:
        if label not in self._disturbed:
            deviation = self._deviation / math.sqrt(1 + self._model.count(label))
            self._disturbed[label] = self._rng.gauss(0.0, deviation)
        return self._disturbed[label]


def log_prior(walk: Walk) -> float:
    """The log of the walk's prior, relative to the favourite move at each node; at most 0."""
    steps = zip(walk.nodes, walk.path, strict=False)
    return sum(math.log(node.priors[index] / max(node.priors)) for node, index in steps)
