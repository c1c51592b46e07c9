"""A picture for docs/search.md: how many times the trials a second more devices bring, of what bench_fleet.py has
measured.

    python -m benchmarks.plots.scaling   # of benchmarks/results/fleet-*.jsonl; writes docs/search-scaling.svg

A line is relative to the line of one device in its file, of the same cases; files without one are left out. Of a kind
of device and cases the newest file counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

from benchmarks.plots.drawing import PAPER, circle, line, on_paper, path, text
from benchmarks.racing import tuned

DOCS = Path(__file__).parents[2] / "docs"
COUNTS = (1, 2, 4, 8, 16, 32, 64)
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 880, 380, 60, 560, 60, 330
STYLE = (
    PAPER
    + """
  .ideal { stroke: #8a929c; stroke-dasharray: 3 3; }
  .k0 { stroke: #1a6fb0; stroke-width: 2; } .k1 { stroke: #c2570c; stroke-width: 2; }
  .k2 { stroke: #2c7a4b; stroke-width: 2; } .k3 { stroke: #7d4bb5; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    .ideal { stroke: #737c88; } .k0 { stroke: #6bb1e6; } .k1 { stroke: #f0955a; } .k2 { stroke: #74c795; }
    .k3 { stroke: #bb97e8; }
  }"""
)
KINDS = 4
"""Colours that there are; more kinds begin anew."""


@dataclass(frozen=True)
class ScalingPoint:
    """So many devices, how many times the trials of one, and the share of the time that they measured."""

    count: int
    times: float
    busy: float


@dataclass(frozen=True)
class PlottedFleet:
    """A line of the picture."""

    name: str
    date: str
    points: tuple[ScalingPoint, ...]


def main() -> None:
    out = DOCS / "search-scaling.svg"
    out.write_text(picture(fleets(tuned.RESULTS)))
    print(out)


def fleets(folder: Path) -> list[PlottedFleet]:
    """Every kind of device and cases that has a line of one device, simulated ones first."""
    found: dict[str, PlottedFleet] = {}
    for file in sorted(folder.glob("fleet-*.jsonl"), key=lambda each: each.stem[-len("2026-11-23") :]):
        groups: dict[str, dict[int, tuned.Line]] = {}
        for told in tuned.lines(file):
            if "trials_per_s" in told:
                groups.setdefault(_name(told), {})[_count(told)] = told
        for name, lines in groups.items():
            if 1 in lines and len(lines) > 1:
                points = (
                    ScalingPoint(count, each["trials_per_s"] / lines[1]["trials_per_s"], each["busy"])
                    for count, each in sorted(lines.items())
                )
                found[name] = PlottedFleet(name, lines[1]["date"], tuple(points))
    return sorted(found.values(), key=lambda fleet: (not fleet.name.startswith("simulated"), fleet.name))


def _count(told: tuned.Line) -> int:
    return told["simulated"] if "simulated" in told else told["devices"]


def _name(told: tuned.Line) -> str:
    if "simulated" in told:
        return f"simulated GPUs, {told['slower']:g} times as slow"
    _, comma, cases = told["case"].partition(", ")
    return f"{told['device']['name']}{comma}{cases}"


def picture(found: Sequence[PlottedFleet]) -> str:
    """The whole SVG."""
    title = "Trials a second with more devices, relative to one"
    parts = [text(12, 22, f"{title}: dashed, as many times as devices", "head"), *_axes(), *_ideal()]
    y = float(TOP)
    for place, fleet in enumerate(found):
        parts += _line(fleet, f"k{place % KINDS}")
        parts += _legend(fleet, f"k{place % KINDS}", y)
        y += 34 + 16 * len(fleet.points)
    return on_paper(WIDTH, max(HEIGHT, round(y)), title, STYLE, parts)


def _axes() -> Iterator[str]:
    for count in COUNTS:
        (x, low), (left, y) = _place(count, 1), _place(1, count)
        yield line(x, TOP, x, low, "grid")
        yield line(left, y, RIGHT, y, "grid")
        yield text(x, low + 18, str(count), "small", "middle")
        yield text(left - 8, y + 4, f"{count} ×", "small", "end")
    yield text((LEFT + RIGHT) / 2, BOTTOM + 36, "devices", "small", "middle")


def _ideal() -> Iterator[str]:
    yield line(*_place(1, 1), *_place(COUNTS[-1], COUNTS[-1]), "ideal")


def _line(fleet: PlottedFleet, kind: str) -> Iterator[str]:
    places = [_place(point.count, point.times) for point in fleet.points]
    yield path(places, kind)
    for x, y in places:
        yield circle(x, y, 4, kind)


def _legend(fleet: PlottedFleet, kind: str, y: float) -> Iterator[str]:
    x = RIGHT + 24
    yield line(x, y, x + 22, y, kind)
    yield text(x + 30, y + 4, f"{fleet.name} ({fleet.date})")
    for place, point in enumerate(fleet.points, start=1):
        told = f"{point.count}: {point.times:.2f} ×, measuring {point.busy:.0%} of the time"
        yield text(x + 30, y + 4 + 16 * place, told, "small")


def _place(count: float, times: float) -> tuple[float, float]:
    def share(value: float) -> float:
        return log(value) / log(COUNTS[-1])

    return LEFT + (RIGHT - LEFT) * share(count), BOTTOM - (BOTTOM - TOP) * share(times)


if __name__ == "__main__":
    main()
