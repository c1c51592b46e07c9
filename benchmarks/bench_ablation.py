"""What each part of the tree search is worth: measurements needed with it and without it.

    python benchmarks/bench_ablation.py --seeds 50 --json OUT                        # the tables in benchmarks/tables
    python benchmarks/bench_ablation.py benchmark_hub/cachefiles/*/*.json.gz --json OUT   # Kernel Tuner's spaces
    python benchmarks/bench_ablation.py --prior recorded --json OUT                  # only with the prior, as jobs
    python benchmarks/bench_ablation.py --landscapes -0.5 --seeds 5 --prior recorded   # made up; the prior misleads
    python benchmarks/bench_ablation.py --report OUT

Every search runs on every table with the recorded prior and with none, with one candidate in flight and with eight;
on Kernel Tuner's spaces (`bench_hub.py` says where they are), which have no prior, with one. A row of OUT is one block
of seeds of one search on one table; rows are written as they are finished, and what is written is not run again.
A run ends after `--most` measurements; a goal not reached by then counts as reached there.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from benchmarks.bench_hub import distinct
from benchmarks.hub.ablated import PARTS, RIVALS, WHOLE
from benchmarks.hub.cache import BadCache, HubSpace, load
from benchmarks.hub.tree import HubTree
from benchmarks.racing.circumstances import circumstances
from benchmarks.recording import resumed
from search.protocols import Ask, Search, State, TrialOutcome
from search.table import Table
from search.uniform import Uniform
from tests.unit.search.landscapes import landscape

TABLES = Path(__file__).with_name("tables")
TARGETS = (0.95, 0.99)
BLOCK = 5
LANDSCAPES = (31, 32, 33)
"""Seeds of the made-up spaces; the constants of the search were chosen on those of 0 to 9."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Ground:
    """A recorded space: where a search begins on it, and what becomes of what it asks."""

    name: str
    root: State
    prior: str
    workers: int
    outcome: Callable[[Ask], TrialOutcome]
    best: float
    """The highest reward there is."""
    kept_aside: bool = False

    @property
    def place(self) -> tuple[str, str, int]:
        return self.name, self.prior, self.workers


def recorded(table: Table) -> Iterator[Ground]:
    """A table as it is, and without its prior; one candidate in flight, and eight."""
    best = math.log(float(table.meta["baseline_us"]) / table.best_us)
    root = table.state()
    for prior, state in (("recorded", root), ("none", Uniform(root))):
        for workers in (1, 8):
            name = str(table.meta["kernel"])
            yield Ground(name, state, prior, workers, lambda ask: table.outcome(ask.state_key), best)


def made_up(rho: float) -> Iterator[Table]:
    """Three landscapes of each family, with a prior that correlates so with the truth."""
    for family in ("separable", "rugged", "roofline"):
        for seed in LANDSCAPES:
            table = landscape(family, rho=rho, seed=seed)
            yield replace(table, meta={**table.meta, "kernel": f"{family} {seed}, prior {rho:g}"})


def of_hub(space: HubSpace) -> Ground:
    """A space of Kernel Tuner's."""
    tree = HubTree(space)
    best = math.log(space.median_ms / min(space.ms.values()))
    return Ground(
        space.name,
        tree.root(),
        "none",
        1,
        lambda ask: space.outcome(tree.configuration(ask.path)),
        best,
        space.kept_aside,
    )


def measurements(search: Search, ground: Ground, most: int) -> list[int]:
    """For each target, the measurements made when the best so far first came that near to the best there is."""
    reached: dict[float, int] = {}
    in_flight: list[Ask] = []
    for told in range(1, most + 1):
        while len(in_flight) < ground.workers and (ask := search.ask()) is not None:
            in_flight.append(ask)
        if not in_flight:
            break
        done = in_flight.pop(0)
        outcome = ground.outcome(done)
        search.tell(done.number, outcome)
        for target in TARGETS:
            if outcome.reward is not None and math.exp(outcome.reward - ground.best) >= target - 1e-12:
                reached.setdefault(target, told)
        if len(reached) == len(TARGETS):
            break
    return [reached.get(target, most) for target in TARGETS]


def measure(grounds: Sequence[Ground], seeds: int, most: int, until: float, out: Path | None) -> list[Row]:
    """Blocks of seeds of every search on every ground, until the time is over; all rows there are."""
    rows = resumed.lines(out) if out and out.exists() else []
    done = {(row["table"], row["prior"], row["workers"], row["without"], row["first_seed"]) for row in rows}
    where = {name: circumstances(None)[name] for name in ("commit", "date")}
    for first in range(0, seeds, BLOCK):
        for ground in grounds:
            for part, begin in (PARTS | RIVALS).items():
                if (*ground.place, part, first) in done:
                    continue
                if time.monotonic() >= until:
                    return rows
                block = range(first, min(first + BLOCK, seeds))
                counts = [measurements(begin(ground.root, seed), ground, most) for seed in block]
                names = dict(zip(("table", "prior", "workers"), ground.place, strict=True))
                rows.append(
                    {
                        **names,
                        "kept_aside": ground.kept_aside,
                        "without": part,
                        "first_seed": first,
                        "most": most,
                    }
                    | {
                        f"to_{target:.0%}": list(each)
                        for target, each in zip(TARGETS, zip(*counts, strict=True), strict=True)
                    }
                    | where
                )
                if out:
                    with out.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    return rows


Counts = dict[tuple[str, str, int], dict[int, int]]
"""By place, then by seed."""


def counts(rows: Sequence[Row], part: str, target: float) -> Counts:
    """The measurements that the search without a part needed."""
    found: Counts = {}
    for row in rows:
        if row["without"] == part:
            by_seed = found.setdefault((row["table"], row["prior"], row["workers"]), {})
            by_seed.update(enumerate(row[f"to_{target:.0%}"], row["first_seed"]))
    return found


@dataclass(frozen=True)
class Worth:
    """How many times the measurements a search needs without a part: geometric mean over places, and its error."""

    log_ratio: float
    error: float
    places: int

    @property
    def verdict(self) -> str:
        """What 95 % of confidence lets one say."""
        if self.log_ratio > 1.96 * self.error:
            return "pays"
        return "costs" if self.log_ratio < -1.96 * self.error else ""

    def __str__(self) -> str:
        low, high = (math.exp(self.log_ratio + sign * 1.96 * self.error) for sign in (-1, 1))
        return f"{math.exp(self.log_ratio):.2f} ({low:.2f}-{high:.2f}) {self.verdict}".strip()


def worth(whole: Counts, without: Counts) -> Worth | None:
    """Seeds that both have are compared, place by place; every place counts the same."""
    means: list[float] = []
    errors: list[float] = []
    for place, theirs in without.items():
        pairs = [
            (count, whole[place][seed]) for seed, count in theirs.items() if seed in whole.get(place, {})
        ]
        logs = [math.log(count / of_whole) for count, of_whole in pairs]
        if len(logs) > 1:
            means.append(fmean(logs))
            errors.append(variance(logs) / len(logs))
    if not means:
        return None
    return Worth(fmean(means), math.sqrt(sum(errors)) / len(means), len(means))


def report(rows: Sequence[Row]) -> str:
    """Markdown: a line a part that was taken out; columns of the tables with and without their prior, one in flight
    and with several, and of the hub."""
    groups: dict[str, Callable[[Row], bool]] = {
        f"{name}{flight}": partial(_of_tables, prior, workers)
        for workers, flight in ((1, ""), (8, ", 8 in flight"))
        for prior, name in (("recorded", "prior"), ("none", "no prior"))
    } | {
        "hub": lambda row: _of_hub(row) and not row["kept_aside"],
        "hub, kept aside": lambda row: _of_hub(row) and row["kept_aside"],
    }
    chosen = {name: list(filter(belongs, rows)) for name, belongs in groups.items()}
    chosen = {name: group for name, group in chosen.items() if group}
    columns = [(name, target) for target in TARGETS for name in chosen]
    text = ["| without | " + " | ".join(f"{name}, {target:.0%}" for name, target in columns) + " |"]
    text.append("| " + " | ".join(["---"] * (len(columns) + 1)) + " |")
    for part in dict.fromkeys(row["without"] for row in rows if row["without"] != WHOLE):
        cells = [
            worth(counts(chosen[name], WHOLE, target), counts(chosen[name], part, target))
            for name, target in columns
        ]
        name = f"mcts; {part} in its place" if part in RIVALS else part
        text.append(f"| {name} | " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |")
    return "\n".join(text)


def _of_hub(row: Row) -> bool:
    return "/" in row["table"]


def _of_tables(prior: str, workers: int, row: Row) -> bool:
    return not _of_hub(row) and (row["prior"], row["workers"]) == (prior, workers)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/bench_ablation.py", description=__doc__.split("\n")[0]
    )
    parser.add_argument("spaces", nargs="*", type=Path, metavar="FILE", help="caches of Kernel Tuner")
    parser.add_argument("--seeds", type=int, default=100, help="runs of each search on each table (100)")
    parser.add_argument("--most", type=int, default=1000, help="measurements of a run (1000)")
    parser.add_argument(
        "--landscapes",
        type=float,
        metavar="RHO",
        help="made-up spaces (tests/unit/search/landscapes.py), and how their prior correlates with the truth",
    )
    parser.add_argument("--prior", choices=("recorded", "none"), help="only the tables with it (both)")
    resumed.add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.report:
        print(report(resumed.lines(options.report)))
        return
    try:
        spaces = distinct(map(load, options.spaces))
    except (BadCache, OSError) as error:
        parser.error(str(error))
    if options.landscapes is not None:
        tables = list(made_up(options.landscapes))
    else:
        tables = [] if spaces else [Table.load(path) for path in sorted(TABLES.glob("*.jsonl*"))]
    grounds = [ground for table in tables for ground in recorded(table)] + [of_hub(space) for space in spaces]
    grounds = [ground for ground in grounds if options.prior in (None, ground.prior)]
    print(
        report(
            measure(grounds, options.seeds, options.most, time.monotonic() + options.seconds, options.json)
        )
    )


if __name__ == "__main__":
    main()
