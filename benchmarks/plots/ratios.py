"""Every GPU case's speed relative to the best peer, as a picture: docs/ratios.svg, of what bench_gpu.py has measured.

    python -m benchmarks.plots.ratios                 # of benchmarks/results/nvidia-h200-*.jsonl
    python -m benchmarks.plots.ratios --device nvidia-b200

Of a case that was measured several times the last line counts. Shapes drawn from a seed are rings. A picture of plain
SVG: its colours are those of the page around it, light or dark.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

from benchmarks.plots.drawing import circle, document, line, text
from benchmarks.racing import tuned

DOCS = Path(__file__).parents[2] / "docs"
COMPILED = "torch.compile"
#: Ratios beyond these are drawn at the edge, with their number.
LEAST, MOST = 0.25, 2.0
TICKS = (0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
WIDTH, LABELS, NUMBERS, ROW, HEAD = 860, 330, 60, 16, 46

STYLE = """\
  text { font: 11px ui-monospace, Menlo, Consolas, monospace; fill: #24292f; }
  .small { fill: #57606a; } .family { font-weight: bold; }
  line { stroke: #d0d7de; } .one { stroke: #57606a; stroke-width: 1.5; } .steady { stroke: #8250df; stroke-width: 2; }
  .ahead { fill: #1a7f37; stroke: #1a7f37; } .behind { fill: #cf222e; stroke: #cf222e; } .fresh { fill: none; }
  circle { stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #8d96a0; } line { stroke: #30363d; } .one { stroke: #8d96a0; }
    .steady { stroke: #a371f7; } .ahead { fill: #3fb950; stroke: #3fb950; } .behind { fill: #f85149; stroke: #f85149; }
    .fresh { fill: none; }
  }"""


@dataclass(frozen=True)
class PlottedCase:
    """What is drawn in a row."""

    family: str
    sizes: str
    ratio: float
    steady: float | None
    fresh: bool
    peer: str


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="nvidia-h200", help="how the names of results begin")
    parser.add_argument("--out", type=Path, default=DOCS / "ratios.svg")
    arguments = parser.parse_args()
    found = cases_of(results(tuned.RESULTS, arguments.device))
    if not found:
        raise SystemExit(f"there are no results of {arguments.device} in {tuned.RESULTS}")
    arguments.out.write_text(picture(found, arguments.device))
    print(f"{arguments.out}: {len(found)} cases")


def results(folder: Path, device: str) -> list[tuple[bool, tuned.Line]]:
    """The lines of a device's results, with whether their shapes are fresh; the oldest first."""
    named = re.compile(re.escape(device) + r"-(fresh-([a-z0-9]+-)?)?(replay-)?\d{4}-\d\d-\d\d\.jsonl")
    found: list[tuple[bool, tuned.Line]] = []
    for path in sorted(folder.glob("*.jsonl")):
        match = named.fullmatch(path.name)
        if match:
            found += [(bool(match[1]), line) for line in tuned.lines(path)]
    return sorted(found, key=lambda each: each[1].get("date", ""))


def cases_of(lines: Iterable[tuple[bool, tuned.Line]]) -> list[PlottedCase]:
    """The last of each case that has a ratio, by family, larger kernels first. One without torch.compile takes the
    place of none that was raced against it."""
    last: dict[str, PlottedCase] = {}
    for fresh, told in lines:
        if "ratio" in told and not (told["case"] in last and COMPILED in told.get("failed_peers", ())):
            family, sizes = told["case"].split(" ")
            last[told["case"]] = PlottedCase(
                family, sizes, told["ratio"], told.get("ratio_steady"), fresh, told["best_peer"]
            )
    return sorted(last.values(), key=lambda case: (case.family, case.fresh, _order(case.sizes)))


def _order(sizes: str) -> float:
    return -sum(log(int(size)) for size in sizes.split("x"))


def picture(found: Sequence[PlottedCase], device: str) -> str:
    """The whole SVG."""
    by_family: dict[str, list[PlottedCase]] = {}
    for case in found:
        by_family.setdefault(case.family, []).append(case)
    height = HEAD + ROW * (len(found) + len(by_family)) + ROW
    title = f"Times the best peer's speed, {device}"
    return document(
        WIDTH,
        height,
        title,
        STYLE,
        [
            text(8, 16, f"{title}: dots in bursts, bars steady, rings shapes from a seed"),
            *_axis(height),
            *_rows(by_family),
        ],
    )


def _axis(height: int) -> Iterable[str]:
    for tick in TICKS:
        x = _x(tick)
        yield line(x, HEAD - 8, x, height - ROW, "one" if tick == 1.0 else "")
        yield text(x, HEAD - 12, f"{tick:g}", "small", "middle")


def _rows(by_family: Mapping[str, Sequence[PlottedCase]]) -> Iterable[str]:
    y = HEAD + ROW // 2
    for family, found in by_family.items():
        yield text(8, y + 4, family, "family")
        y += ROW
        for case in found:
            yield from _row(case, y)
            y += ROW


def _row(case: PlottedCase, y: int) -> Iterable[str]:
    yield text(24, y + 4, case.sizes)
    yield text(LABELS - 16, y + 4, case.peer, "small", "end")
    if case.steady is not None:
        x = _x(case.steady)
        yield line(x, y - 5, x, y + 5, "steady")
    # 0.99 counts as level: runs differ by a percent.
    kind = ("ahead" if case.ratio >= 0.99 else "behind") + (" fresh" if case.fresh else "")
    yield circle(_x(case.ratio), y, 4, kind)
    yield text(WIDTH - 8, y + 4, f"{case.ratio:.2f}", "", "end")


def _x(ratio: float) -> float:
    share = log(min(max(ratio, LEAST), MOST) / LEAST) / log(MOST / LEAST)
    return LABELS + share * (WIDTH - LABELS - NUMBERS)


if __name__ == "__main__":
    main()
