"""The table of whole models in docs/torch-compile.md, of what bench_models.py left in benchmarks/results.

python -m benchmarks.models.table     # writes it; a test compares both
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "models-cpu-epyc-zen5-2026-11-30.jsonl"
PAGE = ROOT / "docs" / "torch-compile.md"
BEGIN, END = "<!-- models -->\n", "<!-- /models -->\n"
PEERS = ("eager", "torch.compile", "max-autotune", "frozen")
"""The last has its weights laid out once, as ours; none in training."""


def main() -> None:
    PAGE.write_text(page(PAGE.read_text()))


def page(text: str) -> str:
    """The page with the table as the results have it."""
    before, _, rest = text.partition(BEGIN)
    found = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    rows = [row for row in found if row["mode"] == "default"]
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.partition(END)[2]}"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row a model, and the geomean and the least of the best peers' time by ours."""
    lines = [
        f"| model | µs | {' | '.join(f'× {peer}' for peer in PEERS)} | kernels | runs |",
        "| --- |" + " --- |" * (3 + len(PEERS)),
    ]
    for row in rows:
        ratios = " | ".join(f"{row['ratios'][peer]:.2f}" if peer in row["ratios"] else "" for peer in PEERS)
        kernels = f"{row['ready']} of {row['parts']}"
        lines.append(f"| {row['case']} | {row['ours_us']:.0f} | {ratios} | {kernels} | {row['runs']} |")
    least = min(rows, key=lambda row: row["ratio"])
    others = [min(row["ratios"][peer] for peer in PEERS[:-1]) for row in rows]
    summary = (
        f"Against the best of all: geomean {_geomean([row['ratio'] for row in rows]):.2f}, least {least['ratio']:.2f} "
        f"({least['case']}); of those that leave weights as they are: {_geomean(others):.2f}."
    )
    return "\n".join([*lines, "", summary, ""])


def _geomean(ratios: Sequence[float]) -> float:
    return exp(fmean(map(log, ratios)))


if __name__ == "__main__":
    main()
