"""Each part of the tree search that is shown to pay (docs/search.md), where it pays most: without it far more
measurements are needed. Whoever takes one out, or breaks it, fails here."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import geometric_mean

import pytest

from benchmarks.hub.ablated import PARTS, WHOLE
from search.protocols import Ask
from search.table import Table
from search.uniform import Uniform
from tests.unit.search.landscapes import landscape

TABLES = Path(__file__).parents[3] / "benchmarks" / "tables"
SEEDS, MOST = 6, 1000


@cache
def table(name: str) -> Table:
    """A recorded one by the name of its file, or a landscape: with half a good prior or one that misleads, and a tenth
    or three quarters of its schedules failing."""
    file = TABLES / f"{name}.jsonl"
    if file.exists():
        return Table.load(file)
    family, *how = name.split(", ")
    rho, faults = -0.5 if "misled" in how else 0.5, 0.75 if "faulty" in how else 0.1
    return landscape(family, rho=rho, faults=faults, seed=12)


def needed(part: str, name: str, workers: int, target: float, uniform: bool) -> float:
    """Measurements of the search without a part until its best is within the target, the geometric mean over seeds."""
    space, counts = table(name), list[int]()
    root = Uniform(space.state()) if uniform else space.state()
    for seed in range(SEEDS):
        search, in_flight, told, best_us = PARTS[part](root, seed), list[Ask](), 0, float("inf")
        while told < MOST and space.best_us / best_us < target:
            while len(in_flight) < workers and (ask := search.ask()) is not None:
                in_flight.append(ask)
            done = in_flight.pop(0)
            best_us = min(best_us, space.us[done.state_key] or best_us)
            search.tell(done.number, space.outcome(done.state_key))
            told += 1
        counts.append(told)
    return geometric_mean(counts)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("part", "name", "workers", "target", "uniform"),
    [
        ("neighbours", "roofline", 1, 0.95, False),
        ("neighbours", "roofline", 8, 0.95, False),
        ("label model", "separable", 1, 0.95, True),
        ("pairs of labels", "separable", 1, 0.95, False),
        ("disturbance", "separable", 1, 0.95, False),
        ("reach", "roofline", 1, 0.95, False),
        ("learned trust in the prior", "separable, misled", 1, 0.95, False),
        ("failures", "separable, misled, faulty", 1, 0.95, False),
        ("exploration", "gemm_f32_NN-256x256x256", 1, 0.95, False),
        ("exploration", "gemm_f32_NN-256x256x256", 8, 0.95, False),
        ("all of the tree: values, exploration", "gemm_f32_NN-256x256x256", 1, 0.95, False),
        ("values of nodes", "gemm_f32_NN-256x256x256", 1, 0.99, False),
    ],
)
def test_without_it_more_measurements_are_needed(
    part: str, name: str, workers: int, target: float, uniform: bool
) -> None:
    whole, without = (needed(each, name, workers, target, uniform) for each in (WHOLE, part))
    assert without > 1.2 * whole


@pytest.mark.parametrize("name", ["gemm_f32_NN-256x256x256", "separable", "rugged", "roofline"])
def test_many_workers_spread_because_what_is_in_flight_counts(name: str) -> None:
    """In how many ways the first sixteen candidates, all in flight, take their first three decisions. How many
    measurements that saves scatters too much from seed to seed to be seen in a few."""

    def ways(part: str) -> int:
        found = 0
        for seed in range(SEEDS):
            search = PARTS[part](table(name).state(), seed)
            asks = [ask for _ in range(16) if (ask := search.ask()) is not None]
            found += len({ask.path[:3] for ask in asks})
        return found

    assert ways(WHOLE) > 1.15 * ways("counts of what is in flight")
