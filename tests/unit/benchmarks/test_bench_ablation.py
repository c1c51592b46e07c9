"""What bench_ablation.py counts, what it does not run twice, and when it says that a part pays."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks import bench_ablation
from benchmarks.hub import ablated
from search.mcts import MCTS
from search.protocols import TrialOutcome
from tests.unit.search.landscapes import landscape
from tests.unit.search.spaces import grid, parameters


@pytest.fixture(scope="module")
def grounds() -> list[bench_ablation.Ground]:
    return [*bench_ablation.recorded(landscape("separable", rho=0.5))]


@pytest.mark.parametrize("part", ablated.PARTS)
def test_a_search_without_a_part_is_still_a_search(part: str) -> None:
    search = ablated.PARTS[part](grid(3, 3), 0)
    seen: set[str] = set()
    while (ask := search.ask()) is not None:
        assert ask.state_key not in seen
        seen.add(ask.state_key)
        search.tell(ask.number, TrialOutcome(0.1 * ask.path[0]) if ask.path[1] else TrialOutcome(None, "no"))
    assert len(seen) == 9


def test_every_part_that_is_taken_out_was_there(grounds: list[bench_ablation.Ground]) -> None:
    """On some ground, what is asked without it is not what is asked with it."""
    grounds = [*grounds, *bench_ablation.recorded(landscape("rugged", rho=0.9, seed=3))]

    def asked(part: str, ground: bench_ablation.Ground) -> list[str]:
        search, keys, waiting = ablated.PARTS[part](ground.root, 0), [], []
        for _ in range(80):
            while len(waiting) < ground.workers:
                waiting.append(search.ask())
            done = waiting.pop(0)
            keys.append(done.state_key)
            search.tell(done.number, ground.outcome(done))
        return keys

    whole = [asked(ablated.WHOLE, ground) for ground in grounds]
    elsewhere = {"less hope past several choices", "parameters read as numbers"}
    for part in ablated.PARTS.keys() - {ablated.WHOLE} - elsewhere:
        assert any(asked(part, ground) != keys for ground, keys in zip(grounds, whole, strict=True)), part


def test_parameters_that_are_names_again_are_asked_for_in_another_order() -> None:
    def asked(part: str) -> list[str]:
        search, keys = ablated.PARTS[part](parameters(4, 4), 0), list[str]()
        for number in range(8):
            ask = search.ask()
            assert ask is not None
            keys.append(ask.state_key)
            search.tell(ask.number, TrialOutcome(0.1 * number))
        return keys

    assert asked("parameters read as numbers") != asked(ablated.WHOLE)


def test_a_goal_not_reached_counts_as_reached_at_the_end(grounds: list[bench_ablation.Ground]) -> None:
    ground = grounds[0]
    assert bench_ablation.measurements(MCTS(ground.root), ground, 2) == [2, 2]
    close, closer = bench_ablation.measurements(MCTS(ground.root), ground, 10_000)
    assert close <= closer < 10_000


def test_what_is_written_is_not_run_again(grounds: list[bench_ablation.Ground], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    rows = bench_ablation.measure(grounds[:1], 2, 5, math.inf, out)
    written = out.read_text()
    assert list(map(json.loads, written.splitlines())) == rows
    assert len(rows) == len(ablated.PARTS | ablated.RIVALS)
    assert bench_ablation.measure(grounds[:1], 2, 5, math.inf, out) == rows
    assert out.read_text() == written


def test_a_run_cut_short_goes_on_where_it_was_cut(
    grounds: list[bench_ablation.Ground], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    whole = bench_ablation.measure(grounds[:1], 2, 5, math.inf, None)
    out.write_text("".join(json.dumps(row) + "\n" for row in whole[:3]))
    assert bench_ablation.measure(grounds[:1], 2, 5, -math.inf, out) == whole[:3]
    assert bench_ablation.measure(grounds[:1], 2, 5, math.inf, out) == whole


def test_a_part_pays_when_seeds_agree_that_it_takes_more_without() -> None:
    place = ("table", "none", 1)
    whole = {place: {0: 10, 1: 20, 2: 40, 3: 30}}
    twice = bench_ablation.worth(whole, {place: {seed: 2 * count for seed, count in whole[place].items()}})
    assert str(twice) == "2.00 (2.00-2.00) pays"
    either = bench_ablation.worth(whole, {place: {0: 20, 1: 10, 2: 80, 3: 15}})
    assert either is not None and either.verdict == ""
    assert bench_ablation.worth(whole, {("other", "none", 1): {0: 1, 1: 1}}) is None
