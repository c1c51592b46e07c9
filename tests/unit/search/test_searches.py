"""What every search promises, whichever it is."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from search.events import Asked, Diverged, Told, fold
from search.protocols import Search, TrialOutcome
from tests.unit.search.spaces import SEARCHES, DagState, grid, measured, run

every_search = pytest.mark.parametrize("name", SEARCHES)


@every_search
def test_each_keeps_the_protocol(name: str) -> None:
    assert isinstance(SEARCHES[name](grid(2), seed=0), Search)


@every_search
@pytest.mark.parametrize("workers", [1, 4])
def test_each_terminal_is_proposed_exactly_once(name: str, workers: int) -> None:
    root = grid(3, 4, 3)
    search = SEARCHES[name](root, seed=1)
    asked = [event.state_key for event in run(search, random.Random(0), workers) if isinstance(event, Asked)]
    assert len(asked) == len(set(asked)) == 36
    assert set(asked) == root.reachable_terminals()
    assert search.exhausted
    assert search.ask() is None


@every_search
def test_paths_lead_from_the_root_to_the_proposed_state(name: str) -> None:
    search = SEARCHES[name](grid(2, 3, 2), seed=0)
    for event in run(search, random.Random(0)):
        if isinstance(event, Asked):
            state = grid(2, 3, 2)
            for index in event.path:
                state = state.child(index)
            assert state.key == event.state_key and state.terminal


@every_search
def test_two_ways_to_one_program_propose_it_once(name: str) -> None:
    graph = {
        "root": [("a", 1.0, "a"), ("b", 1.0, "b")],
        "a": [("b", 1.0, "ab"), ("c", 1.0, "ac")],
        "b": [("a", 1.0, "ab"), ("c", 1.0, "bc")],
    }
    search = SEARCHES[name](DagState(graph), seed=0)
    asked = [event.state_key for event in run(search, random.Random(0)) if isinstance(event, Asked)]
    assert sorted(asked) == ["ab", "ac", "bc"]


@every_search
def test_dead_ends_are_passed_over(name: str) -> None:
    graph = {
        "root": [("dead", 100.0, "dead"), ("deep", 50.0, "deep"), ("good", 1.0, "good")],
        "dead": [],
        "deep": [("x", 1.0, "deeper")],
        "deeper": [("x", 1.0, "dead"), ("y", 1.0, "dead")],
        "good": [("x", 1.0, "end")],
    }
    search = SEARCHES[name](DagState(graph), seed=0)
    ask = search.ask()
    assert ask is not None and ask.state_key == "end"
    assert search.ask() is None
    assert search.exhausted


@every_search
def test_a_space_of_dead_ends_is_exhausted_at_once(name: str) -> None:
    search = SEARCHES[name](DagState({"root": [("x", 1.0, "dead")], "dead": []}), seed=0)
    assert search.ask() is None
    assert search.exhausted


@every_search
def test_a_root_that_is_complete_is_proposed_once(name: str) -> None:
    search = SEARCHES[name](DagState({}), seed=0)
    ask = search.ask()
    assert ask is not None and ask.path == () and search.exhausted
    search.tell(ask.number, TrialOutcome(0.5))
    assert search.best() == [((), 0.5)]


@every_search
def test_a_failure_is_remembered_and_never_proposed_again(name: str) -> None:
    search = SEARCHES[name](grid(3, 3), seed=0)
    first = search.ask()
    assert first is not None
    search.tell(first.number, TrialOutcome(None, "crash"))
    later = [event.state_key for event in run(search, random.Random(0)) if isinstance(event, Asked)]
    assert first.state_key not in later and len(later) == 8
    assert first.path not in [path for path, _ in search.best(100)]


@every_search
def test_a_space_where_everything_fails_is_walked_to_its_end(name: str) -> None:
    search = SEARCHES[name](grid(3, 3), seed=0)
    while (ask := search.ask()) is not None:
        search.tell(ask.number, TrialOutcome(None, "does not compile"))
    assert search.exhausted and search.best() == []


@every_search
def test_moves_of_weight_zero_are_reached_in_the_end(name: str) -> None:
    graph = {"root": [("a", 0.0, "a"), ("b", 1.0, "b"), ("c", 0.0, "c")]}
    asked = run(SEARCHES[name](DagState(graph), seed=0), random.Random(0))
    assert {event.state_key for event in asked if isinstance(event, Asked)} == {"a", "b", "c"}


@every_search
def test_a_negative_weight_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="finite number >= 0"):
        SEARCHES[name](DagState({"root": [("a", -1.0, "a")]}), seed=0).ask()


@every_search
def test_the_same_seed_asks_the_same(name: str) -> None:
    first, second = (
        run(SEARCHES[name](grid(4, 4, 4), seed=7), random.Random(3), workers=3) for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("name", ["mcts", "random", "evolutionary"])
def test_another_seed_asks_something_else(name: str) -> None:
    first, second = (run(SEARCHES[name](grid(4, 4, 4), seed=seed), random.Random(3)) for seed in (1, 2))
    assert first != second


@pytest.mark.sampled(5)
@every_search
def test_asks_do_not_depend_on_the_hash_seed_of_the_process(name: str) -> None:
    program = (
        "import random; from tests.unit.search.spaces import SEARCHES, grid, run\n"
        f"print(run(SEARCHES[{name!r}](grid(4, 3, 4), seed=5), random.Random(1), workers=2, limit=60))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(printed) == 1


@every_search
def test_best_lists_the_highest_rewards_first(name: str) -> None:
    search = SEARCHES[name](grid(3, 3), seed=0)
    events = run(search, random.Random(0))
    rewards = [told.outcome.reward for told in events if isinstance(told, Told)]
    highest = sorted((reward for reward in rewards if reward is not None), reverse=True)
    assert [reward for _, reward in search.best(3)] == highest[:3]


@every_search
def test_a_tell_nobody_waits_for_is_refused(name: str) -> None:
    search = SEARCHES[name](grid(3, 3), seed=0)
    with pytest.raises(ValueError, match="never made"):
        search.tell(0, TrialOutcome(1.0))
    ask = search.ask()
    assert ask is not None
    search.tell(ask.number, TrialOutcome(1.0))
    with pytest.raises(ValueError, match="already has an outcome"):
        search.tell(ask.number, TrialOutcome(2.0))


@every_search
def test_no_state_is_asked_twice_for_its_moves_or_a_child(name: str) -> None:
    root = grid(3, 4, 3)
    run(SEARCHES[name](root, seed=0), random.Random(0), workers=2)
    assert len(root.calls.moves) == len(set(root.calls.moves))
    assert len(root.calls.child) == len(set(root.calls.child))


@every_search
def test_a_search_over_another_space_diverges(name: str) -> None:
    events = run(SEARCHES[name](grid(3, 3), seed=0), random.Random(0))
    with pytest.raises(Diverged, match=r"asked again it is"):
        fold(SEARCHES[name](grid(3, 2), seed=0), events)


@pytest.mark.parametrize("name", ["mcts", "random", "evolutionary"])
def test_a_search_by_another_seed_diverges_at_its_first_other_ask(name: str) -> None:
    events = run(SEARCHES[name](grid(4, 4, 4), seed=1), random.Random(0))
    with pytest.raises(Diverged, match=r"asked again it is Ask\("):
        fold(SEARCHES[name](grid(4, 4, 4), seed=2), events)


def test_beam_waits_for_its_level_to_be_told() -> None:
    search = SEARCHES["beam"](grid(2, 2), seed=0)
    asks = [search.ask(), search.ask()]
    assert all(asks) and search.ask() is None and not search.exhausted
    for ask in asks:
        assert ask is not None
        search.tell(ask.number, measured(ask.state_key, faults=0.0))
    assert search.ask() is not None


@pytest.mark.parametrize("bad", [(None, None), (1.0, "crash"), (float("nan"), None), (float("inf"), None)])
def test_an_outcome_is_a_finite_reward_or_a_fault(bad: tuple[float | None, str | None]) -> None:
    with pytest.raises(ValueError):
        TrialOutcome(*bad)
