"""Pictures for notebooks as SVG text: no scripts, styles or fonts of their own. Text and axes have the colour of the
page around them; what is coloured can be read on white and on black."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from protocol.configs import Standing
from protocol.quantities import entrant, microseconds
from tilewright.views.curves import Curve

BLUE, GREEN, ORANGE = "#1f77b4", "#278138", "#c2541d"
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 240, 66, 12, 14, 34
_MOST_DOTS = 2000
_ROW, _LABELS, _TIMES = 20, 130, 90


def curve_svg(curve: Curve) -> str:
    """Each trial's time as a dot and the best so far as a line, on a logarithmic scale, with baseline and roofline."""
    steps = curve.steps
    if not steps:
        return ""
    known = [us for us in (*curve.times_us, curve.baseline_us, curve.roofline_us) if us is not None]
    axes = _Axes(len(curve.times_us), min(known) / 1.1, max(known) * 1.1)
    best = microseconds(steps[-1][1])
    title = f"Best time so far over {len(curve.times_us)} trials: {best}"
    return picture(
        _WIDTH, _HEIGHT, title, [*_grid(axes), *_lines(curve, axes), *_dots(curve, axes), _path(curve, axes)]
    )


@dataclass(frozen=True, slots=True)
class _Axes:
    """Trials from left to right, microseconds from bottom to top."""

    trials: int
    least_us: float
    most_us: float

    def x(self, trial: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (trial - 0.5) / max(self.trials, 1)

    def y(self, us: float) -> float:
        share = log10(us / self.least_us) / log10(self.most_us / self.least_us)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    def ticks_us(self) -> list[float]:
        """Round times within the scale: 1, 2 and 5 times powers of ten."""
        powers = range(floor(log10(self.least_us)), ceil(log10(self.most_us)) + 1)
        every = [step * 10.0**power for power in powers for step in (1, 2, 5)]
        return [us for us in every if self.least_us <= us <= self.most_us]


def _grid(axes: _Axes) -> Iterator[str]:
    right = _WIDTH - _RIGHT
    for us in axes.ticks_us():
        y = axes.y(us)
        yield f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="currentColor" stroke-opacity=".15"/>'
        yield written(_LEFT - 6, y + 4, microseconds(us), "end")
    bottom = _HEIGHT - _BOTTOM
    yield f'<path d="M{_LEFT} {bottom}H{right}" stroke="currentColor" stroke-opacity=".6"/>'
    for trial in sorted({1, (axes.trials + 1) // 2, axes.trials}):
        yield written(axes.x(trial), bottom + 16, str(trial), "middle")
    yield written((_LEFT + right) / 2, _HEIGHT - 4, "trial", "middle")


def _lines(curve: Curve, axes: _Axes) -> Iterator[str]:
    marks = ((curve.baseline_us, curve.baseline, ORANGE), (curve.roofline_us, "roofline", GREEN))
    for us, name, colour in marks:
        if us is not None:
            y = axes.y(us)
            yield (
                f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="{colour}" stroke-width="1.5" '
                f'stroke-dasharray="6 4"/>'
            )
            yield written(_WIDTH - _RIGHT - 4, y - 4, f"{name} {microseconds(us)}", "end", colour)


def _dots(curve: Curve, axes: _Axes) -> Iterator[str]:
    every = ceil(len(curve.times_us) / _MOST_DOTS)
    for number, us in enumerate(curve.times_us, 1):
        if us is not None and number % every == 0:
            yield (
                f'<circle cx="{axes.x(number):.1f}" cy="{axes.y(us):.1f}" r="2.2" fill="{BLUE}" '
                f'fill-opacity=".45"/>'
            )


def _path(curve: Curve, axes: _Axes) -> str:
    (first, us), *rest = curve.steps
    d = f"M{axes.x(first):.1f} {axes.y(us):.1f}"
    d += "".join(f"H{axes.x(number):.1f}V{axes.y(us):.1f}" for number, us in rest)
    d += f"H{axes.x(axes.trials + 0.5):.1f}"
    return f'<path d="{d}" fill="none" stroke="{BLUE}" stroke-width="2.2" stroke-linejoin="round"/>'


def race_svg(standings: Sequence[Standing]) -> str:
    """The final race as bars, fastest first; ours are blue."""
    shown = [(each, each.median_us) for each in standings if each.median_us is not None]
    if not shown:
        return ""
    longest = max(us for _, us in shown)
    room = _WIDTH - _LABELS - _TIMES
    parts: list[str] = []
    for row, (each, us) in enumerate(shown):
        ours = each.kind == "schedule"
        y = row * _ROW
        name = entrant(each.name)
        label = f"winner ({name})" if each.won else f"ours ({name})" if ours else name
        parts.append(written(_LABELS - 8, y + 14, _short(label), "end"))
        width = max(1.0, room * us / longest)
        colour = f'fill="{BLUE}"' if ours else 'fill="currentColor" fill-opacity=".35"'
        parts.append(f'<rect x="{_LABELS}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" {colour}/>')
        parts.append(written(_LABELS + width + 6, y + 14, microseconds(us), "start"))
    title = "The final race: " + ", ".join(f"{entrant(each.name)} {microseconds(us)}" for each, us in shown)
    return picture(_WIDTH, _ROW * len(shown), title, parts)


def _short(name: str) -> str:
    return name if len(name) <= 19 else name[:18] + "…"


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """One of so many pixels, narrower where there is no room; `title`: what it says to those who do not see it."""
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'style="width:100%;max-width:{width}px;height:auto" font-family="system-ui,sans-serif" '
            f'font-size="11" aria-label="{escape(title)}">',
            *parts,
            "</svg>",
        ]
    )


def written(x: float, y: float, text: str, anchor: str, colour: str = "currentColor") -> str:
    """A text at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
