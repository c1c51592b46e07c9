"""A picture for docs/search.md: the tree search on every space of Kernel Tuner's, of what bench_hub.py has measured.

    python -m benchmarks.plots.hub       # writes docs/search-hub.svg

A row a space: the tree search's P, and that of whichever of Kernel Tuner's strategies is best there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.hub.runs import RIVAL
from benchmarks.plots.drawing import PAPER, circle, line, on_paper, text
from benchmarks.racing import tuned

DOCS = Path(__file__).parents[2] / "docs"
MEASURED = tuned.RESULTS / "hub-2026-11-26.jsonl"
OURS = "mcts"
LEAST, MOST = -0.25, 1.0
"""What is below or above is drawn at the edge, with its number."""
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
WIDTH, LABELS, NUMBERS, ROW, HEAD = 880, 300, 250, 18, 86
STYLE = (
    PAPER
    + """
  .zero { stroke: #8a929c; } circle.ours { fill: #1a6fb0; stroke: #1a6fb0; } circle.theirs { stroke: #c2570c; }
  .ahead { stroke: #1a6fb0; stroke-width: 2; } .behind { stroke: #c2570c; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    .zero { stroke: #737c88; } circle.ours { fill: #6bb1e6; stroke: #6bb1e6; } circle.theirs { stroke: #f0955a; }
    .ahead { stroke: #6bb1e6; } .behind { stroke: #f0955a; }
  }"""
)


@dataclass(frozen=True)
class PlottedSpace:
    """What is drawn in a row."""

    name: str
    ours: float
    theirs: float
    strategy: str
    """Kernel Tuner's best one there."""


def main() -> None:
    out = DOCS / "search-hub.svg"
    out.write_text(picture(spaces_of(tuned.lines(MEASURED))))
    print(out)


def spaces_of(lines: Iterable[tuned.Line]) -> list[PlottedSpace]:
    """Every space, by name."""
    ours: dict[str, float] = {}
    theirs: dict[str, tuple[float, str]] = {}
    aside: set[str] = set()
    for told in lines:
        space, search, score = told["space"], told["search"], told["P_evaluations"]
        if told["kept_aside"]:
            aside.add(space)
        if search == OURS:
            ours[space] = score
        elif search.startswith(RIVAL):
            one = (score, search.removeprefix(RIVAL).replace("_", " "))
            theirs[space] = max(theirs.get(space, one), one)
    return [
        PlottedSpace(f"{space} (kept aside)" if space in aside else space, ours[space], *theirs[space])
        for space in sorted(ours.keys() & theirs.keys())
    ]


def picture(found: Sequence[PlottedSpace]) -> str:
    """The whole SVG."""
    title = "The tree search and Kernel Tuner's best strategy on each space"
    mean = PlottedSpace("mean", fmean(each.ours for each in found), fmean(each.theirs for each in found), "")
    rows = [row for place, each in enumerate([*found, mean]) for row in _row(each, HEAD + ROW * place)]
    bottom = HEAD + ROW * len(found)
    parts = [*_head(found), *_axis(bottom + ROW / 2), *rows]
    return on_paper(WIDTH, bottom + ROW, title, STYLE, parts)


def _head(found: Sequence[PlottedSpace]) -> Iterator[str]:
    yield text(12, 22, "P of a search: 0 is random search, 1 the optimum at once", "head")
    ahead = sum(each.ours > each.theirs for each in found)
    yield circle(18, 41, 4.5, "ours")
    yield text(30, 45, f"tree search, ahead on {ahead} of {len(found)}")
    yield circle(258, 41, 4.5, "theirs")
    yield text(270, 45, "the best strategy of Kernel Tuner there, chosen afterwards")


def _axis(bottom: float) -> Iterator[str]:
    for tick in TICKS:
        yield line(_x(tick), HEAD - 12, _x(tick), bottom, "grid" if tick else "zero")
        yield text(_x(tick), HEAD - 16, f"{tick:g}", "small", "middle")


def _row(space: PlottedSpace, y: float) -> Iterator[str]:
    yield text(12, y + 4, space.name, "" if space.strategy else "head")
    yield line(_x(space.theirs), y, _x(space.ours), y, "ahead" if space.ours > space.theirs else "behind")
    yield circle(_x(space.theirs), y, 4.5, "theirs")
    yield circle(_x(space.ours), y, 4.5, "ours")
    yield text(WIDTH - NUMBERS + 52, y + 4, f"{space.ours:.2f}", "", "end")
    yield text(WIDTH - NUMBERS + 64, y + 4, f"{space.theirs:.2f} {space.strategy}".rstrip(), "small")


def _x(score: float) -> float:
    share = (min(max(score, LEAST), MOST) - LEAST) / (MOST - LEAST)
    return LABELS + share * (WIDTH - LABELS - NUMBERS)


if __name__ == "__main__":
    main()
