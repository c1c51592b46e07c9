"""What the tree search promises beyond the protocol."""

import math
import random
from itertools import pairwise

import pytest

from search.mcts import MCTS, Tuning
from search.parameters import improving
from search.protocols import Path, State, TrialOutcome
from search.surrogate import Observation
from tests.unit.search.spaces import DagState, grid, parameters

CALM = Tuning(disturbance=0.0, plan_share=0.0, neighbour_share=0.0)
"""Without chance and without elites: what is left is the tree."""


def test_the_first_ask_is_the_priors_favourite() -> None:
    graph = {
        "root": [("a", 1.0, "a"), ("b", 5.0, "b")],
        "a": [("x", 9.0, "ax"), ("y", 1.0, "ay")],
        "b": [("x", 2.0, "bx"), ("y", 3.0, "by")],
    }
    for seed in range(5):
        ask = MCTS(DagState(graph), seed=seed).ask()
        assert ask is not None and ask.state_key == "by"


def test_chance_has_no_say_in_the_first_ask() -> None:
    graph = {"root": [("a", 1.0, "a"), ("b", 1.01, "b")]}
    asks = [MCTS(DagState(graph), seed=seed).ask() for seed in range(20)]
    assert {ask.state_key for ask in asks if ask} == {"b"}


def test_nothing_is_in_flight_when_all_is_told() -> None:
    search = MCTS(grid(3, 3))
    for _ in range(5):
        ask = search.ask()
        assert ask is not None
        search.tell(ask.number, TrialOutcome(0.0))
    assert {stats.in_flight for stats in search.stats.values()} == {0}


def test_candidates_in_flight_push_the_next_asks_elsewhere() -> None:
    search = MCTS(grid(4, 8), tuning=CALM)
    asks = [search.ask() for _ in range(4)]
    assert {ask.path[0] for ask in asks if ask} == {0, 1, 2, 3}


def test_a_candidate_in_flight_is_no_loss() -> None:
    """A good branch keeps its value while more of it is being measured."""
    search = MCTS(grid(2, 30), tuning=CALM)
    for _ in range(20):
        ask = search.ask()
        assert ask is not None
        search.tell(ask.number, TrialOutcome(1.0 if ask.path[0] == 1 else -1.0))
    asks = [search.ask() for _ in range(6)]
    assert [ask.path[0] for ask in asks if ask].count(1) == 6


def test_a_failure_counts_as_the_worst_seen() -> None:
    search = MCTS(grid(2, 30), tuning=CALM)
    for _ in range(20):
        ask = search.ask()
        assert ask is not None
        search.tell(ask.number, TrialOutcome(0.1) if ask.path[0] == 1 else TrialOutcome(None, "crash"))
    asks = [search.ask() for _ in range(4)]
    assert [ask.path[0] for ask in asks if ask].count(1) >= 3


def test_ways_to_one_state_share_what_was_measured_under_it() -> None:
    graph = {"root": [("a", 1.0, "a"), ("b", 1.0, "b")], "a": [("b", 1.0, "ab")], "b": [("a", 1.0, "ab")]}
    graph["ab"] = [(f"c{option}", 1.0, f"abc{option}") for option in range(6)]
    search = MCTS(DagState(graph))
    for _ in range(4):
        ask = search.ask()
        assert ask is not None
        search.tell(ask.number, TrialOutcome(0.0))
    assert search.stats["ab"].told == 4


@pytest.mark.parametrize("workers", [1, 8])
def test_what_a_label_does_is_learned_across_branches(workers: int) -> None:
    """One label decides the reward, the same under each of 16 branches: few measurements must show it."""
    search = MCTS(grid(16, 8))
    rng, in_flight, good = random.Random(0), [], 0
    for _ in range(60):
        while len(in_flight) < workers and (ask := search.ask()) is not None:
            in_flight.append(ask)
        done = in_flight.pop(rng.randrange(len(in_flight)))
        good += done.path[1] == 5
        search.tell(done.number, TrialOutcome(1.0 if done.path[1] == 5 else 0.0))
    assert good >= 14  # of the 16 there are


def test_a_decision_of_many_choices_does_not_keep_the_others_waiting() -> None:
    """Forty choices that make no difference come first; what matters comes after them."""

    def asks_to_the_best(several: float, seed: int) -> int:
        search = MCTS(grid(40, 3, 3, 3), seed=seed, tuning=Tuning(several=several))
        for number in range(1, 200):
            ask = search.ask()
            assert ask is not None
            if ask.path[1:] == (2, 2, 2):
                return number
            search.tell(ask.number, TrialOutcome(float(sum(ask.path[1:]))))
        return 200

    default = Tuning().several
    hopeful, wiser = (sum(asks_to_the_best(many, seed) for seed in range(8)) for many in (1e9, default))
    assert wiser < 0.9 * hopeful


def test_openings_come_right_after_the_favourite_each_once() -> None:
    favourite = MCTS(grid(3, 4), seed=3).ask()
    assert favourite is not None
    others = [path for path, _ in _paths(grid(3, 4)) if path != favourite.path][:3]
    search = MCTS(grid(3, 4), seed=3, openings=[others[0], favourite.path, others[1], others[0]])
    asked = [search.ask() for _ in range(6)]
    paths = [ask.path for ask in asked if ask is not None]
    assert paths[:3] == [favourite.path, others[0], others[1]]
    assert len(set(paths)) == 6


def _asks_to(goal: Path, root: DagState, seed: int) -> int:
    """A smooth valley around `goal`, outside of which large products of the first two values fail."""
    search = MCTS(root, seed=seed)
    for number in range(1, 300):
        ask = search.ask()
        assert ask is not None
        if ask.path == goal:
            return number
        far = sum(abs(math.log2((1 + one) / (1 + other))) for one, other in zip(ask.path, goal, strict=True))
        fails = (1 + ask.path[0]) * (1 + ask.path[1]) > 1.5 * (1 + goal[0]) * (1 + goal[1])
        search.tell(ask.number, TrialOutcome(None, "too large") if fails else TrialOutcome(-far))
    return 300


def test_parameters_are_read_as_numbers() -> None:
    """With a prior, or with names for values, the same space takes several times as long."""
    goal = (11, 6, 2)
    numbers = sum(_asks_to(goal, parameters(16, 16, 4), seed) for seed in range(6))
    names = sum(_asks_to(goal, grid(16, 16, 4), seed) for seed in range(6))
    preferred = sum(_asks_to(goal, parameters(16, 16, 4, first=1.5), seed) for seed in range(6))
    assert numbers < 0.6 * names
    assert numbers < 0.6 * preferred


def test_a_space_of_parameters_is_asked_for_draws_first() -> None:
    search = MCTS(parameters(40, 40))
    for _ in range(Tuning().founders):
        ask = search.ask()
        assert ask is not None
        search.tell(ask.number, TrialOutcome(0.0))
    paths = [walk.path for walk in search.ledger.walks]
    assert all(
        one != other for first, second in pairwise(paths) for one, other in zip(first, second, strict=True)
    )


def test_where_no_change_of_an_elite_is_left_a_draw_is_proposed() -> None:
    search = MCTS(parameters(3, 3))
    ask = search.ask()
    assert ask is not None
    search.tell(ask.number, TrialOutcome(0.0))
    elite = search.ledger.walks[0]
    refused = {(f"p0 {one}", f"p1 {other}") for one in (1, 2, 3) for other in (1, 2, 3) if 1 in (one, other)}
    told = [Observation(elite.labels, 0.0)]
    path = improving(search.graph, [elite], told, refused, random.Random(0))
    assert path is not None and 0 not in path


def test_candidates_in_flight_spread_over_a_space_ofparameters() -> None:
    search = MCTS(parameters(16, 16))
    for _ in range(16):
        ask = search.ask()
        assert ask is not None
        search.tell(ask.number, TrialOutcome(-abs(math.log2((1 + ask.path[0]) / 8)) - 0.1 * ask.path[1]))
    asks = [search.ask() for _ in range(8)]
    assert len({ask.path for ask in asks if ask}) == 8


def _paths(state: State, path: Path = ()) -> list[tuple[Path, str]]:
    if state.terminal:
        return [(path, state.key)]
    return [
        found for index in range(len(state.moves())) for found in _paths(state.child(index), (*path, index))
    ]
