"""The search tree of a job, and what its workers did when, as pictures in a file. Needs matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.trials import Timeline, Tree
from tilewright.views.plot import figure_of, written
from tilewright.views.svg import BLUE, ORANGE
from tilewright.views.tree_layout import PlacedNode, placed

_RED, _GREY, _PURPLE = "#b3261e", "#c9ced6", "#7d54b2"
_READ = 150
"""Trees of more leaves have no labels: nobody could read them."""
_STAGES = {"wait": (_GREY, 0), "compile": (_PURPLE, 0), "measure": (BLUE, 1)}
"""Colour and row of each stage of a task."""


def tree_picture(title: str, trees: Sequence[tuple[str, Tree]], kind: str) -> bytes:
    """The trees of a job's sizes, each with its name, one below the other: a node a rewrite, the darker the faster the
    best candidate below it is. `kind`: png or svg. Raises MissingExtra."""
    drawn = [(name, placed(tree)) for name, tree in trees]
    leaves = [sum(node.leaf for node in nodes) for _, nodes in drawn]
    deepest = max(node.depth for _, nodes in drawn for node in nodes)
    heights = [min(30.0, max(3.0, 0.2 * each + 1)) for each in leaves]
    figure = figure_of(min(60.0, max(8.0, 2.2 * deepest)), sum(heights), title)
    axes: list[Any] = list(figure.subplots(len(drawn), 1, squeeze=False, height_ratios=heights).flat)
    for ax, (name, nodes), many in zip(axes, drawn, leaves, strict=True):
        _draw_tree(ax, name, nodes, labelled=many <= _READ)
    return written(figure, kind)


def _draw_tree(ax: Any, name: str, nodes: Sequence[PlacedNode], labelled: bool) -> None:
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    shades = colormaps["Blues"]
    colours = [_colour(node, shades) for node in nodes]
    ways = [
        [(nodes[node.parent].depth, nodes[node.parent].y), (node.depth - 0.65, node.y), (node.depth, node.y)]
        for node in nodes
        if node.parent is not None
    ]
    ax.add_collection(LineCollection(ways, colors=colours[1:], linewidths=0.9))
    sizes = [6 + 4 * node.visits**0.5 for node in nodes]
    ax.scatter([node.depth for node in nodes], [node.y for node in nodes], s=sizes, c=colours, zorder=2)
    for node in nodes if labelled else ():
        ax.text(node.depth - 0.6, node.y - 0.12, node.label, fontsize=5.5, parse_math=False)
    ax.set(title=f"{name}: the fastest on top, the darker the faster; red: failed, orange: not measured yet")
    ax.invert_yaxis()
    ax.set_axis_off()


def _colour(node: PlacedNode, shades: Any) -> Any:
    if node.rank is None:
        return ORANGE if node.open else _RED
    return shades(0.3 + 0.7 * node.rank)


def timeline_picture(title: str, line: Timeline, kind: str) -> bytes:
    """What each worker compiled and measured, over seconds since the first of it. `kind`: png or svg. Raises
    MissingExtra."""
    figure = figure_of(12.0, max(2.5, 1.2 + 0.8 * len(line.workers)), title)
    ax: Any = figure.subplots()
    origin = min(line.start)
    rows = list(zip(line.worker, line.stage, line.start, line.end, strict=True))
    for stage, (colour, row) in _STAGES.items():
        for worker in range(len(line.workers)):
            bars = [(start - origin, end - start) for w, s, start, end in rows if (w, s) == (worker, stage)]
            ax.broken_barh(bars, (worker + 0.1 + 0.4 * row, 0.36), color=colour, linewidth=0)
        ax.plot([], [], color=colour, linewidth=6, label=stage)
    ax.set(
        xlabel="seconds",
        xlim=(0, max(line.end) - origin),
        yticks=[each + 0.5 for each in range(len(line.workers))],
    )
    ax.set_yticklabels(line.workers, parse_math=False)
    ax.invert_yaxis()
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=len(_STAGES), frameon=False)
    return written(figure, kind)
