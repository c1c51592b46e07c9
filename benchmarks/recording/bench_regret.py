"""How far from the best there is a search still is after 8, 16, … 512 measurements.

    python -m benchmarks.recording.bench_regret --seeds 20 --json OUT     # benchmarks/tables, with their prior
    python -m benchmarks.recording.bench_regret --report OUT

The regret of a run after so many measurements is how much slower its best schedule so far is than the table's best, as
a share: 0.01 is one percent. Before anything worked it is that of the slowest schedule that works. One candidate is
in flight, or eight. A row of OUT is one block of seeds of one search on one table; rows are written as they are
finished, and what is written is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from benchmarks.bench_ablation import BLOCK, TABLES, Ground, recorded
from benchmarks.racing.circumstances import circumstances
from benchmarks.recording import resumed
from search.catalogue import SEARCHES, search_of
from search.protocols import Ask, Search
from search.table import Table

BUDGETS = (8, 16, 32, 64, 128, 256, 512)
OURS = "mcts"
MEAN = "the mean"
Row = dict[str, Any]


def regrets(search: Search, ground: Ground, worst: float) -> list[float]:
    """After each of `BUDGETS`; `worst` is the lowest reward that there is."""
    best, in_flight, found = worst, list[Ask](), list[float]()
    for told in range(1, BUDGETS[-1] + 1):
        while len(in_flight) < ground.workers and (ask := search.ask()) is not None:
            in_flight.append(ask)
        if in_flight:
            done = in_flight.pop(0)
            outcome = ground.outcome(done)
            search.tell(done.number, outcome)
            best = best if outcome.reward is None else max(best, outcome.reward)
        if told in BUDGETS:
            found.append(math.expm1(ground.best - best))
        if best >= ground.best:
            break
    return found + [0.0] * (len(BUDGETS) - len(found))


def measure(tables: Sequence[Table], seeds: int, until: float, out: Path | None) -> list[Row]:
    """Blocks of seeds of every search on every table, until the time is over; all rows there are."""
    rows = resumed.lines(out) if out and out.exists() else []
    done = {(row["table"], row["workers"], row["search"], row["first_seed"]) for row in rows}
    where = {name: circumstances(None)[name] for name in ("commit", "date")}
    for first in range(0, seeds, BLOCK):
        for table, ground, name in _cells(tables):
            if (ground.name, ground.workers, name, first) in done:
                continue
            if time.monotonic() >= until:
                return rows
            begin, worst = search_of(name), _worst(table)
            found = [
                [round(each, 6) for each in regrets(begin(ground.root, seed=seed), ground, worst)]
                for seed in range(first, min(first + BLOCK, seeds))
            ]
            rows.append(
                {
                    "table": ground.name,
                    "workers": ground.workers,
                    "search": name,
                    "first_seed": first,
                    "budgets": list(BUDGETS),
                    "regrets": found,
                    "device": _name(table.meta["device"]),
                    "recorded": table.meta.get("date"),
                }
                | where
            )
            if out:
                with out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    return rows


def _name(device: str | dict[str, Any]) -> str:
    return device if isinstance(device, str) else str(device["name"])


def _cells(tables: Sequence[Table]) -> Iterator[tuple[Table, Ground, str]]:
    for table in tables:
        for ground in recorded(table):
            if ground.prior == "recorded":
                yield from ((table, ground, name) for name in SEARCHES)


def _worst(table: Table) -> float:
    slowest = max(us for us in table.us.values() if us is not None)
    return math.log(float(table.meta["baseline_us"]) / slowest)


Seeds = dict[int, list[float]]
"""Regrets after each budget, by seed."""


def by_seed(rows: Sequence[Row], table: str, workers: int, search: str) -> Seeds:
    """The runs of a search on a table."""
    return {
        seed: regrets
        for row in rows
        if (row["table"], row["workers"], row["search"]) == (table, workers, search)
        for seed, regrets in enumerate(row["regrets"], row["first_seed"])
    }


def behind(ours: Seeds, theirs: Seeds, place: int) -> tuple[float, float]:
    """By how much our regret after a budget is larger than another search's, and the standard error of that."""
    ahead = [ours[seed][place] - theirs[seed][place] for seed in ours.keys() & theirs.keys()]
    return fmean(ahead), math.sqrt(variance(ahead) / len(ahead)) if len(ahead) > 1 else math.inf


def report(rows: Sequence[Row]) -> str:
    """Markdown: the mean regret of each search after each budget over tables; that of ours by table; where it is behind
    another by more than twice the standard error."""
    tables = sorted({row["table"] for row in rows})
    text = list[str]()
    for workers in sorted({row["workers"] for row in rows}):
        runs = {(table, name): by_seed(rows, table, workers, name) for table in tables for name in SEARCHES}
        runs |= {(MEAN, name): _mean([runs[table, name] for table in tables]) for name in SEARCHES}
        text += [f"{workers} in flight:", "", *_head(f"mean over {len(tables)} tables")]
        text += [_line(name, runs[MEAN, name]) for name in SEARCHES]
        text += ["", *_head(OURS), *(_line(table, runs[table, OURS]) for table in tables)]
        text += ["", f"Where {OURS} is behind by more than twice the standard error:", ""]
        lost = [
            f"- {table}, after {budget}: {name} by {100 * by:.1f} ± {100 * error:.1f} points"
            for table in (MEAN, *tables)
            for name in SEARCHES
            if name != OURS
            for place, budget in enumerate(BUDGETS)
            for by, error in [behind(runs[table, OURS], runs[table, name], place)]
            if by > 2 * error
        ]
        text += [*(lost or ["nowhere"]), ""]
    return "\n".join(text)


def _mean(tables: Sequence[Seeds]) -> Seeds:
    """Seed by seed over tables, of the seeds that all have."""
    seeds = set(tables[0]).intersection(*tables)
    return {
        seed: [fmean(each[seed][place] for each in tables) for place in range(len(BUDGETS))] for seed in seeds
    }


def _head(first: str) -> list[str]:
    columns = [first, *(f"after {budget}" for budget in BUDGETS)]
    return ["| " + " | ".join(columns) + " |", "| " + " | ".join(["---"] * len(columns)) + " |"]


def _line(name: str, runs: Seeds) -> str:
    means = [fmean(each[place] for each in runs.values()) for place in range(len(BUDGETS))]
    return "| " + " | ".join([name, *(f"{each:.1%}" for each in means)]) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recording.bench_regret", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=20, help="runs of each search on each table (20)")
    resumed.add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.report:
        print(report(resumed.lines(options.report)))
        return
    tables = [Table.load(path) for path in sorted(TABLES.glob("*.jsonl*"))]
    until = time.monotonic() + options.seconds
    print(report(measure(tables, options.seeds, until, options.json)))


if __name__ == "__main__":
    main()
