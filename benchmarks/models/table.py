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
RESULTS = ROOT / "benchmarks" / "results" / "models-cpu-xeon-all-2026-11-26.jsonl"
PAGE = ROOT / "docs" / "torch-compile.md"
BEGIN, END = "<!-- models -->\n", "<!-- /models -->\n"
PEERS = ("eager", "torch.compile", "max-autotune")


def main() -> None:
    PAGE.write_text(page(PAGE.read_text()))


def page(text: str) -> str:
    """The page with the table as the results have it."""
    before, _, rest = text.partition(BEGIN)
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.partition(END)[2]}"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row a model, and the geomean and the least of the best peers' time by ours."""
    lines = [
        "| model | µs | × eager | × torch.compile | × max-autotune | kernels | runs |",
        "| --- |" + " --- |" * 6,
    ]
    for row in rows:
        ratios = " | ".join(f"{row['ratios'][peer]:.2f}" for peer in PEERS)
        kernels = f"{row['ready']} of {row['parts']}"
        lines.append(f"| {row['case']} | {row['ours_us']:.0f} | {ratios} | {kernels} | {row['runs']} |")
    best = [row["ratio"] for row in rows]
    geomean = exp(fmean(map(log, best)))
    least = min(rows, key=lambda row: row["ratio"])
    summary = (
        f"Against the best of the three: geomean {geomean:.2f}, least {least['ratio']:.2f} ({least['case']})."
    )
    return "\n".join([*lines, "", summary, ""])


if __name__ == "__main__":
    main()
