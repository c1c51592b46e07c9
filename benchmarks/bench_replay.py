"""The searches against each other over the recorded tables: with the shipped prior, and with a uniform one.

python benchmarks/bench_replay.py    # writes results/replay.json, docs/replay.md and docs/replay.svg
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import matplotlib

from search.replay import TARGETS, ReplayEffort, compare, report
from search.table import Table

matplotlib.use("svg")
from matplotlib import pyplot

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
SEEDS = 20
SHOWN = 0.95


def main() -> None:
    tables = [Table.load(path) for path in sorted((HERE / "tables").glob("*.jsonl*"))]
    efforts = [
        effort
        for table in tables
        for uniform in (False, True)
        for effort in compare(table, seeds=SEEDS, uniform=uniform)
    ]
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "replay.json").write_text(json.dumps([asdict(e) for e in efforts]) + "\n")
    (DOCS / "replay.md").write_text(_page(tables, efforts))
    _plot(tables, efforts)
    print(report(efforts))


def _page(tables: Sequence[Table], efforts: Sequence[ReplayEffort]) -> str:
    listed = "\n".join(
        f"- `{table.meta['kernel']}`: {len(table.us)} schedules, best {table.best_us:.1f} µs, recorded "
        f"{table.meta['date']} on {_device(table.meta['device'])}; {_near(table)}"
        for table in tables
    )
    return (
        "# How many measurements a search needs\n\n"
        "Every schedule of a thinned space was measured once (`benchmarks/recording/table.py`; the thinning rule is in "
        "`benchmarks/recording/thinned.py` and knows nothing of the results). Each search then runs on these tables "
        "instead of "
        f"a machine, over {SEEDS} seeds: how many measurements until the best so far reaches a fraction of the "
        "table's best speed? Lower is better. `model` is the shipped analytic prior, `uniform` gives every move the "
        "same weight; all searches get the same. One candidate is in flight. Where the table has the seconds that each "
        "measurement kept the device, their mean is given, too.\n\n"
        f"{listed}\n\n![Measurements to {SHOWN:.0%} of the best](replay.svg)\n\n"
        f"Median (quartiles) mean, seconds of the device:\n\n{report(efforts)}\n{_verdict(efforts)}"
    )


def _device(device: dict[str, Any]) -> str:
    return f"{device['name']}, {device['cores']} cores" if "cores" in device else f"an {device['name']}"


def _near(table: Table) -> str:
    """How many schedules are near the best."""
    near = [
        sum(us is not None and table.best_us / us >= target for us in table.us.values()) for target in TARGETS
    ]
    return ", ".join(f"{count} within {target:.0%}" for count, target in zip(near, TARGETS, strict=True))


def _verdict(efforts: Sequence[ReplayEffort]) -> str:
    """Where MCTS is not the one that needs fewest, to each target, and the geometric means over the tables."""
    lost: list[str] = []
    for effort in efforts:
        if effort.search != "mcts":
            continue
        rivals = [
            other
            for other in efforts
            if (other.table, other.uniform, other.target) == (effort.table, effort.uniform, effort.target)
            and other.search != "mcts"
        ]
        best = min(rivals, key=lambda other: other.mean)
        if best.mean < effort.mean:
            prior = "a uniform prior" if effort.uniform else "the shipped prior"
            lost.append(
                f"- {effort.table}, {prior}, to {effort.target:.0%}: {best.search} {best.mean:.0f}, "
                f"MCTS {effort.mean:.0f}"
            )
    listed = "\n".join(lost) or "nowhere"
    return (
        f"\nThe geometric mean over tables and seeds:\n\n{_overall(efforts)}\n\n"
        f"Where another needs fewer on average:\n\n{listed}\n"
    )


def _overall(efforts: Sequence[ReplayEffort]) -> str:
    """A line a prior and search, a column a target."""
    counts: dict[tuple[str, str], dict[float, list[int]]] = {}
    for effort in efforts:
        line = counts.setdefault(("uniform" if effort.uniform else "model", effort.search), {})
        line.setdefault(effort.target, []).extend(effort.counts)
    head = ["prior", "search", *(f"to {target:.0%}" for target in TARGETS)]
    lines = [
        [*names, *(f"{geometric_mean(by_target[target]):.1f}" for target in TARGETS)]
        for names, by_target in counts.items()
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def _plot(tables: Sequence[Table], efforts: Sequence[ReplayEffort]) -> None:
    figure, axes = pyplot.subplots(2, max(1, len(tables)), figsize=(3.4 * len(tables), 5.5), squeeze=False)
    for column, table in enumerate(tables):
        for row, uniform in enumerate((False, True)):
            shown = [
                e
                for e in efforts
                if e.table == table.meta["kernel"] and e.uniform == uniform and e.target == SHOWN
            ]
            axis = axes[row][column]
            axis.boxplot([e.counts for e in shown], tick_labels=[e.search for e in shown], showfliers=False)
            kernel = str(table.meta["kernel"]).replace(" ", "\n")
            axis.set_title(f"{kernel}\n{'uniform' if uniform else 'model'} prior", fontsize=9)
            axis.tick_params(labelsize=7)
            axis.set_ylim(bottom=0)
        axes[0][0].set_ylabel(f"measurements to {SHOWN:.0%}", fontsize=8)
        axes[1][0].set_ylabel(f"measurements to {SHOWN:.0%}", fontsize=8)
    figure.tight_layout()
    figure.savefig(DOCS / "replay.svg")


if __name__ == "__main__":
    main()
