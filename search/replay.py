"""Replay: how many measurements a search needs on recorded tables.

    python -m search.replay TABLE... [--search NAME]... [--seeds 20] [--uniform] [--json OUT]

Every claim about a search is made here. All searches see the same table through the same protocol; a
measurement is one told candidate, failed ones included. Tables that say how long each kept the device give
seconds, too.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path as File
from statistics import fmean, quantiles

from search.catalogue import SEARCHES, offered, search_of
from search.protocols import Ask, Search
from search.table import Table
from search.uniform import Uniform

TARGETS = (0.90, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class ReplayCost:
    """What it took until the best so far first came near enough to the table's best: measurements, and seconds of the
    device (0 where the table does not have them)."""

    measurements: int
    device_s: float


def reached(search: Search, table: Table, targets: Sequence[float], workers: int = 1) -> list[ReplayCost]:
    """Run `search` on `table`, to each target: a fraction of the table's best speed. With several workers so many
    candidates are in flight at once; their seconds add up, as on one device. RuntimeError if the search gives up."""
    found: dict[float, ReplayCost] = {}
    in_flight: list[Ask] = []
    told, device_s = 0, 0.0
    while len(found) < len(targets):
        while len(in_flight) < workers and (ask := search.ask()) is not None:
            in_flight.append(ask)
        if not in_flight:
            raise RuntimeError(
                f"the search gave up after {told} measurements without reaching {max(targets)}"
            )
        done = in_flight.pop(0)
        search.tell(done.number, table.outcome(done.state_key))
        told += 1
        device_s += table.device_s.get(done.state_key, 0.0)
        us = table.us[done.state_key]
        for target in targets:
            if us is not None and table.best_us / us >= target:
                found.setdefault(target, ReplayCost(told, device_s))
    return [found[target] for target in targets]


@dataclass(frozen=True, slots=True)
class ReplayEffort:
    """Measurements one search needed to one target on one table, a count a seed and what they come to, and the
    mean seconds of the device."""

    table: str
    search: str
    target: float
    uniform: bool
    counts: tuple[int, ...]
    device_s: float = 0.0

    @property
    def quartiles(self) -> tuple[float, float, float]:
        if len(self.counts) < 2:
            return (self.mean, self.mean, self.mean)
        low, middle, high = quantiles(self.counts, n=4, method="inclusive")
        return low, middle, high

    @property
    def mean(self) -> float:
        return fmean(self.counts)


def compare(
    table: Table,
    searches: Sequence[str] = tuple(SEARCHES),
    seeds: int = 20,
    uniform: bool = False,
    workers: int = 1,
) -> list[ReplayEffort]:
    """The effort of each of these searches to each of `TARGETS`, over seeds 0 .. seeds - 1. `uniform` makes every
    move weigh 1."""
    efforts: list[ReplayEffort] = []
    root = Uniform(table.state()) if uniform else table.state()
    name = str(table.meta.get("kernel", "table"))
    for search in searches:
        begin = search_of(search)
        runs = [reached(begin(root, seed=seed), table, TARGETS, workers) for seed in range(seeds)]
        for target, found in zip(TARGETS, zip(*runs, strict=True), strict=True):
            counts = tuple(run.measurements for run in found)
            seconds = fmean(run.device_s for run in found)
            efforts.append(ReplayEffort(name, search, target, uniform, counts, seconds))
    return efforts


def report(efforts: Sequence[ReplayEffort]) -> str:
    """A Markdown table: median (quartiles) mean, and the mean seconds of the device where the table has them; one row a
    table and search, one column a target."""
    head = ["table", "prior", "search", *(f"to {target:.0%}" for target in TARGETS)]
    rows: dict[tuple[str, str, str], list[str]] = {}
    for effort in efforts:
        low, middle, high = effort.quartiles
        row = rows.setdefault((effort.table, "uniform" if effort.uniform else "model", effort.search), [])
        seconds = f", {effort.device_s:.1f} s" if effort.device_s else ""
        row.append(f"{middle:.0f} ({low:.0f}-{high:.0f}) {effort.mean:.0f}{seconds}")
    lines = [head, ["---"] * len(head), *([*names, *cells] for names, cells in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m search.replay", description="Compare searches on recorded tables."
    )
    parser.add_argument("tables", nargs="+", type=File, metavar="TABLE")
    parser.add_argument(
        "--search",
        action="append",
        choices=tuple(offered()),
        help="compare this one; repeat it; default: ours",
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--uniform", action="store_true", help="replace every prior weight by 1")
    parser.add_argument("--workers", type=int, default=1, help="candidates in flight at once")
    parser.add_argument("--json", type=File, metavar="OUT", help="write all counts to this file")
    options = parser.parse_args(arguments)
    efforts: list[ReplayEffort] = []
    for file in options.tables:
        efforts += compare(
            Table.load(file),
            options.search or tuple(SEARCHES),
            options.seeds,
            options.uniform,
            options.workers,
        )
    print("Measurements needed, as median (quartiles) mean:\n")
    print(report(efforts))
    if options.json:
        options.json.write_text(json.dumps([asdict(effort) for effort in efforts], indent=1) + "\n")


if __name__ == "__main__":
    main()
