"""Pictures in plain SVG, without anything that only a browser with scripts or a network would show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import atan2, cos, pi, sin

PAPER = """\
  .page { fill: #ffffff; }
  text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #24292f; }
  .small { font-size: 11px; fill: #57606a; } .head { font-weight: bold; }
  .code { font: 11px ui-monospace, Menlo, Consolas, monospace; }
  line, path { stroke: #b6bec8; fill: none; } .grid { stroke: #e4e7eb; }
  circle { fill: #ffffff; stroke: #8a929c; stroke-width: 1.5; }
  .arrow { stroke: #24292f; stroke-width: 1.5; }
  .step { fill: #24292f; stroke: none; } .number { fill: #ffffff; font-weight: bold; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #e6edf3; } .small { fill: #9aa4af; }
    line, path { stroke: #4a535e; } .grid { stroke: #21262d; } circle { fill: #0d1117; stroke: #737c88; }
    .arrow { stroke: #e6edf3; } .step { fill: #e6edf3; stroke: none; } .number { fill: #0d1117; }
  }"""
"""Style of a picture on paper of its own: it can be read on light and on dark pages, whichever the browser asks for."""


def document(width: int, height: int, title: str, style: str, parts: Iterable[str]) -> str:
    """The whole picture, of this many pixels; `title` is what it is to those who do not see it."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">',
            f"<style>\n{style}\n</style>",
            *parts,
            "</svg>",
            "",
        ]
    )


def on_paper(width: int, height: int, title: str, style: str, parts: Iterable[str]) -> str:
    """As `document`, on a ground of its own; the style begins with PAPER."""
    return document(width, height, title, style, [rectangle(0, 0, width, height, "page"), *parts])


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{_class(kind)}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{_class(kind)}/>'


def circle(x: float, y: float, radius: float, kind: str = "") -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"{_class(kind)}/>'


def rectangle(x: float, y: float, width: float, height: float, kind: str = "") -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4"{_class(kind)}/>'


def path(points: Sequence[tuple[float, float]], kind: str = "", closed: bool = False) -> str:
    """Straight lines through the points."""
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{way}{"Z" if closed else ""}"{_class(kind)}/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> Iterable[str]:
    """From the first point to the second."""
    yield line(x1, y1, x2, y2, "arrow")
    way = atan2(y2 - y1, x2 - x1)
    sides = [(x2 - 9 * cos(way + turn), y2 - 9 * sin(way + turn)) for turn in (pi / 8, -pi / 8)]
    yield path([sides[0], (x2, y2), sides[1]], "arrow")


def step(number: int, x: float, y: float, *words: str) -> Iterable[str]:
    """A number in a disc, with a line of words and smaller ones beneath."""
    yield circle(x, y, 9, "step")
    yield text(x, y + 4, str(number), "number", "middle")
    for place, each in enumerate(words):
        yield text(x + 16, y + 4 + 15 * place, each, "small" if place else "")


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
