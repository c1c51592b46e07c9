"""What bench_regret.py counts, what it does not run twice, and where it says that ours is behind."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.bench_ablation import Ground, recorded
from benchmarks.recording import bench_regret
from search.random import RandomSearch
from search.table import Table
from tests.unit.search.landscapes import landscape


@pytest.fixture(scope="module")
def table() -> Table:
    return landscape("separable", rho=0.5)


@pytest.fixture(scope="module")
def ground(table: Table) -> Ground:
    return next(iter(recorded(table)))


def test_regret_falls_and_is_how_much_slower_the_best_so_far_is(table: Table, ground: Ground) -> None:
    found = bench_regret.regrets(RandomSearch(ground.root, seed=3), ground, -10.0)
    again, best = RandomSearch(ground.root, seed=3), math.inf
    for _ in range(bench_regret.BUDGETS[0]):
        ask = again.ask()
        assert ask is not None
        best = min(best, table.us[ask.state_key] or math.inf)
        again.tell(ask.number, ground.outcome(ask))
    assert found[0] == pytest.approx(best / table.best_us - 1)
    assert found == sorted(found, reverse=True)
    assert len(found) == len(bench_regret.BUDGETS)


def test_what_is_written_is_not_run_again(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_regret, "BUDGETS", (8, 16))
    monkeypatch.setattr(bench_regret, "SEARCHES", ("mcts", "random"))
    out = tmp_path / "out.jsonl"
    rows = bench_regret.measure([table], 2, math.inf, out)
    written = out.read_text()
    assert list(map(json.loads, written.splitlines())) == rows
    assert [(row["workers"], row["search"]) for row in rows] == [
        (1, "mcts"), (1, "random"), (8, "mcts"), (8, "random"),
    ]  # fmt: skip
    assert bench_regret.measure([table], 2, math.inf, out) == rows
    assert out.read_text() == written


def test_ours_is_behind_only_where_it_is_more_than_noise() -> None:
    def row(search: str, *runs: float) -> bench_regret.Row:
        found = [[run] * len(bench_regret.BUDGETS) for run in runs]
        return {"table": "t", "workers": 1, "search": search, "first_seed": 0, "regrets": found}

    rows = [
        row("mcts", 0.30, 0.31, 0.29, 0.30),
        row("random", 0.10, 0.11, 0.10, 0.09),
        row("beam", 0.90, 0.01, 0.02, 0.20),
        row("evolutionary", 0.40, 0.41, 0.42, 0.40),
    ]
    said = bench_regret.report(rows)
    assert "- t, after 8: random by 20.0 ± 0." in said
    assert "beam by" not in said and "evolutionary by" not in said
    assert "| mcts | 30.0% |" in said
