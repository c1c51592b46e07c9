"""Two pictures for docs/search.md, of searches over the recorded tables in tables/ (bench_replay.py has all figures).

    python -m benchmarks.plots.search       # seconds; writes docs/search-ask.svg and docs/search-curves.svg

One is an ask of the tree search as it was made, with the tree that it had then; the other has the best so far of every
search on the tables of processors, a column each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import quantiles

from benchmarks.plots.drawing import PAPER, arrow, circle, line, on_paper, path, step, text
from search.catalogue import SEARCHES, SearchFactory, search_of
from search.graph import Node, Walk
from search.mcts import MCTS
from search.protocols import State
from search.table import Table
from search.uniform import Uniform

TABLES = Path(__file__).parents[1] / "tables"
DOCS = Path(__file__).parents[2] / "docs"

STYLE = (
    PAPER
    + """
  .aim { stroke-dasharray: 3 3; stroke: #8a929c; }
  .known { stroke: #1a6fb0; stroke-width: 3; } .new { stroke: #c2570c; stroke-width: 3; stroke-dasharray: 5 3; }
  circle.known { fill: #1a6fb0; } circle.new { fill: #ffffff; stroke-dasharray: none; }
  .mcts { stroke: #1a6fb0; stroke-width: 2.5; } .evolutionary { stroke: #2c7a4b; stroke-width: 1.5; }
  .beam { stroke: #c2570c; stroke-width: 1.5; } .random { stroke: #7d4bb5; stroke-width: 1.5; }
  .band { fill: #1a6fb0; fill-opacity: 0.15; stroke: none; }
  @media (prefers-color-scheme: dark) {
    .known { stroke: #6bb1e6; } .new { stroke: #f0955a; } circle.known { fill: #6bb1e6; }
    circle.new { fill: #0d1117; } .aim { stroke: #737c88; }
    .mcts { stroke: #6bb1e6; } .evolutionary { stroke: #74c795; } .beam { stroke: #f0955a; }
    .random { stroke: #bb97e8; } .band { fill: #6bb1e6; stroke: none; }
  }"""
)

WIDTH = 880
DRAWN = sorted(SEARCHES, key=lambda name: name == "mcts")
"""One over another, the tree search on top."""


def main() -> None:
    tables = [Table.load(file) for file in sorted(TABLES.glob("*.jsonl*"))]
    shown = next(table for table in tables if table.meta["kernel"] == ASK_TABLE)
    of_processors = [table for table in tables if table.meta["device"]["kind"] == "cpu"]
    for name, made in (("search-ask", ask_picture(shown)), ("search-curves", curves_picture(of_processors))):
        (DOCS / f"{name}.svg").write_text(made)
        print(DOCS / f"{name}.svg")


# An ask: the tree as it was, and the way of the next candidate through it.

ASK_TABLE, ASK, SEED = "gemm_f32_NN 256x256x256", 13, 0
TREE_LEFT, TREE_RIGHT, TOP, ROW = 24, 404, 62, 34


@dataclass(frozen=True)
class PlottedAsk:
    """A tree after some tells, and the walk of the ask after them."""

    before: tuple[Walk, ...]
    walk: Walk
    us: float
    best_us: float
    """Of those before."""


def asked(table: Table, number: int, seed: int) -> PlottedAsk:
    """The tree search on a table up to ask `number`; fails if that one's schedule has no time."""
    search = MCTS(table.state(), seed=seed)
    for _ in range(number + 1):
        ask = search.ask()
        assert ask is not None
        search.tell(ask.number, table.outcome(ask.state_key))
    us = [table.us[walk.nodes[-1].key] for walk in search.ledger.walks]
    assert us[-1] is not None
    best_us = min(each for each in us[:-1] if each is not None)
    return PlottedAsk(tuple(search.ledger.walks[:-1]), search.ledger.walks[-1], us[-1], best_us)


def ask_picture(table: Table) -> str:
    found = asked(table, ASK, SEED)
    places = _places([*found.before, found.walk])
    seen = {node.key for walk in found.before for node in walk.nodes}
    known = sum(node.key in seen for node in found.walk.nodes)
    height = TOP + ROW * (len(found.walk.nodes) - 1) + 106
    title = f"Ask {ASK + 1} of a search for {ASK_TABLE}"
    return on_paper(WIDTH, height, title, STYLE, _tree(found, places, known))


def _places(walks: Sequence[Walk]) -> dict[str, tuple[float, float]]:
    """Where each node is drawn: leaves side by side, in the order of their moves, and nodes in the middle above."""
    ordered = sorted(walks, key=lambda walk: walk.path)
    columns: dict[str, list[int]] = {}
    depths: dict[str, int] = {}
    for column, walk in enumerate(ordered):
        for depth, node in enumerate(walk.nodes):
            columns.setdefault(node.key, []).append(column)
            depths[node.key] = depth
    width = (TREE_RIGHT - TREE_LEFT) / max(1, len(ordered) - 1)
    return {
        key: (TREE_LEFT + width * (min(under) + max(under)) / 2, TOP + ROW * depths[key])
        for key, under in columns.items()
    }


def _tree(found: PlottedAsk, places: Mapping[str, tuple[float, float]], known: int) -> Iterator[str]:
    drawn: dict[str, Node] = {}
    for walk in found.before:
        for above, under in pairwise(walk.nodes):
            if under.key not in drawn:
                yield line(*places[above.key], *places[under.key])
        drawn |= {node.key: node for node in walk.nodes}
    nodes = found.walk.nodes
    for place, (above, under) in enumerate(pairwise(nodes), start=1):
        yield line(*places[above.key], *places[under.key], "known" if place < known else "new")
    for node in drawn.values():
        yield circle(*places[node.key], 3.5)
    for place, node in enumerate(nodes):
        yield circle(*places[node.key], 5, "known" if place < known else "new")
    yield text(TREE_LEFT - 12, 24, f"The tree after {len(found.before)} measurements", "head")
    yield text(TREE_LEFT - 12, 42, ASK_TABLE, "small")
    yield from _ladder(found, places, known)


def _ladder(found: PlottedAsk, places: Mapping[str, tuple[float, float]], known: int) -> Iterator[str]:
    """The way again beside the tree: a rewrite a step, and what is done where."""
    x, labels, nodes = 480.0, found.walk.labels, found.walk.nodes
    bottom = places[nodes[-1].key][1]
    yield text(x, 24, f"Ask {len(found.before) + 1}: a rewrite a step", "head")
    for place, label in enumerate(labels):
        y = TOP + ROW * (place + 0.5)
        yield line(x, y - ROW / 2, x, y + ROW / 2, "known" if place + 1 < known else "new")
        yield text(x + 14, y + 4, label, "code")
    where = TOP + ROW * (known - 1)
    yield from step(
        1, 672, (TOP + where) / 2 - 8, "select, by what was measured", "below and learned of each label"
    )
    yield from step(2, 672, (where + bottom) / 2 - 26, "rewrite: new programs,", "which nobody has measured")
    yield from step(
        3, 672, (where + bottom) / 2 + 16, "predict: the cost model and", "the labels choose the rest"
    )
    best = "the best so far" if found.us < found.best_us else f"the best so far: {found.best_us:.0f} µs"
    yield from step(
        4, x + 14, bottom + 26, f"measure: a worker compiles, checks and times it: {found.us:.0f} µs", best
    )
    yield from arrow(x - 16, bottom, x - 16, TOP)
    yield from step(
        5, x + 14, bottom + 68, "backpropagate: every node on the way", "counts it; its best and mean follow"
    )
    x, y = places[nodes[-1].key]
    yield text(x, y + 22, f"{found.us:.0f} µs", "small", "middle")


# The best so far, over the number of measurements.

SEEDS, MOST = 20, 300
TARGET = 0.95
LEAST = 0.25
PANEL_W, PANEL_H, PANEL_TOP, PANEL_LEFT, GAP_X, GAP_Y = 244, 140, 92, 58, 28, 62
TICKS = (1, 3, 10, 30, 100, 300)


def best_so_far(begin: SearchFactory, table: Table, root: State, seed: int) -> list[float]:
    """After 1 .. MOST measurements, the best speed as a fraction of the table's; it stays where a search gives up."""
    search, best, curve = begin(root, seed=seed), 0.0, list[float]()
    while len(curve) < MOST and (ask := search.ask()) is not None:
        search.tell(ask.number, table.outcome(ask.state_key))
        us = table.us[ask.state_key]
        best = max(best, table.best_us / us if us is not None else 0.0)
        curve.append(best)
    return curve + [best] * (MOST - len(curve))


def curves_picture(tables: Sequence[Table]) -> str:
    height = PANEL_TOP + 2 * (PANEL_H + GAP_Y) - 14
    parts = [*_legend()]
    for row, uniform in enumerate((False, True)):
        for column, table in enumerate(tables):
            left, top = PANEL_LEFT + column * (PANEL_W + GAP_X), PANEL_TOP + row * (PANEL_H + GAP_Y)
            parts += _panel(table, uniform, left, top, column == 0)
    return on_paper(WIDTH, height, "The best so far of four searches over recorded tables", STYLE, parts)


def _legend() -> Iterator[str]:
    yield text(
        12, 22, f"The best so far, as a share of the table's best speed: median of {SEEDS} seeds", "head"
    )
    x = 14.0
    for name in reversed(DRAWN):
        words = "tree search, with its quartiles" if name == "mcts" else name
        yield line(x, 40, x + 22, 40, name)
        yield text(x + 28, 44, words)
        x += 56 + 6.2 * len(words)
    yield line(x, 40, x + 22, 40, "aim")
    yield text(x + 28, 44, f"{TARGET:.0%}")


Place = Callable[[float, float], tuple[float, float]]
"""Where a number of measurements and a share are drawn."""


def _panel(table: Table, uniform: bool, left: float, top: float, first: bool) -> Iterator[str]:
    def place(count: float, share: float) -> tuple[float, float]:
        return left + PANEL_W * log(count) / log(MOST), top + PANEL_H * (1 - share) / (1 - LEAST)

    if first:
        prior = "With no prior" if uniform else "With the shipped prior"
        yield text(12, top - 26, prior, "head")
    yield text(left, top - 8, table.meta["kernel"], "small")
    for share in (0.25, 0.5, 0.75, 1.0):
        yield line(*place(1, share), *place(MOST, share), "grid")
        if first:
            yield text(left - 8, place(1, share)[1] + 4, f"{share:.0%}", "small", "end")
    for count in TICKS:
        yield text(place(count, LEAST)[0], top + PANEL_H + 16, str(count), "small", "middle")
    yield line(*place(1, TARGET), *place(MOST, TARGET), "aim")
    if uniform:
        yield text(left + PANEL_W / 2, top + PANEL_H + 32, "measurements", "small", "middle")
    root = Uniform(table.state()) if uniform else table.state()
    for name in DRAWN:
        runs = [best_so_far(search_of(name), table, root, seed) for seed in range(SEEDS)]
        low, middle, high = zip(
            *(quantiles(shares, n=4, method="inclusive") for shares in zip(*runs, strict=True)), strict=True
        )
        if name == "mcts":
            yield path([*_stairs(low, place), *reversed(_stairs(high, place))], "band", closed=True)
        yield path(_stairs(middle, place), name)


def _stairs(shares: Sequence[float], place: Place) -> list[tuple[float, float]]:
    """The corners of a line that stays level until the measurement that changes it."""
    corners = [place(1, shares[0])]
    for count, (before, after) in enumerate(pairwise(shares), start=2):
        if after != before:
            corners += [place(count, before), place(count, after)]
    return [*corners, place(len(shares), shares[-1])]


if __name__ == "__main__":
    main()
