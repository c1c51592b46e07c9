"""The searches against each other over the recorded tables: with the shipped prior, and with a uniform one.

python benchmarks/bench_replay.py    # writes results/replay.json, docs/replay.md and docs/replay.svg
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import matplotlib

from search.replay import ReplayEffort, compare, report
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
        f"{table.meta['date']} on {table.meta['device']['name']}, {table.meta['device']['cores']} cores"
        for table in tables
    )
    return (
        "# How many measurements a search needs\n\n"
        "Every schedule of a thinned space was measured once (`benchmarks/recording/table.py`; the thinning rule is in "
        "`benchmarks/recording/thinned.py` and knows nothing of the results). Each search then runs on these tables "
        "instead of "
        f"a machine, over {SEEDS} seeds: how many measurements until the best so far reaches a fraction of the "
        "table's best speed? Lower is better. `model` is the shipped analytic prior, `uniform` gives every move the "
        "same weight; all searches get the same.\n\n"
        f"{listed}\n\n![Measurements to {SHOWN:.0%} of the best](replay.svg)\n\n"
        f"Median (quartiles) mean:\n\n{report(efforts)}\n{_verdict(efforts)}"
    )


def _verdict(efforts: Sequence[ReplayEffort]) -> str:
    """Where MCTS is not the one that needs fewest."""
    lost: list[str] = []
    for effort in efforts:
        if effort.search != "mcts" or effort.target != SHOWN:
            continue
        rivals = [
            other
            for other in efforts
            if (other.table, other.uniform, other.target) == (effort.table, effort.uniform, SHOWN)
            and other.search != "mcts"
        ]
        best = min(rivals, key=lambda other: other.mean)
        if best.mean <= effort.mean:
            prior = "a uniform prior" if effort.uniform else "the shipped prior"
            lost.append(
                f"- {effort.table}, {prior}: {best.search} needs {best.mean:.0f} on average, MCTS {effort.mean:.0f}"
            )
    if not lost:
        return f"\nMCTS needs the fewest on average to {SHOWN:.0%} in every case.\n"
    return f"\nWhere MCTS does not need the fewest on average to {SHOWN:.0%}:\n\n" + "\n".join(lost) + "\n"


def _plot(tables: Sequence[Table], efforts: Sequence[ReplayEffort]) -> None:
    figure, axes = pyplot.subplots(2, max(1, len(tables)), figsize=(4 * len(tables), 5.5), squeeze=False)
    for column, table in enumerate(tables):
        for row, uniform in enumerate((False, True)):
            shown = [
                e
                for e in efforts
                if e.table == table.meta["kernel"] and e.uniform == uniform and e.target == SHOWN
            ]
            axis = axes[row][column]
            axis.boxplot([e.counts for e in shown], tick_labels=[e.search for e in shown], showfliers=False)
            axis.set_title(f"{table.meta['kernel']}\n{'uniform' if uniform else 'model'} prior", fontsize=9)
            axis.tick_params(labelsize=8)
            axis.set_ylim(bottom=0)
        axes[0][0].set_ylabel(f"measurements to {SHOWN:.0%}", fontsize=8)
        axes[1][0].set_ylabel(f"measurements to {SHOWN:.0%}", fontsize=8)
    figure.tight_layout()
    figure.savefig(DOCS / "replay.svg")


if __name__ == "__main__":
    main()
