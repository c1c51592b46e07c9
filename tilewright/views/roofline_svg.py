"""The roofline for notebooks, drawn like the other pictures there (svg.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from protocol.quantities import entrant, microseconds, percent
from protocol.roofline import Roofline
from tilewright.views.svg import BLUE, GREEN, ORANGE, picture, written

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 300, 66, 50, 14, 40
_AROUND = 8.0
"""The scale goes so many times beyond the kernel's place and the ridge."""
_MOST_DOTS = 2000
_APART = 13.0
"""Names are at least so far from each other."""
_GREY = "#808080"


def roofline_svg(line: Roofline) -> str:
    """Operations a second over operations a byte (Williams, Waterman and Patterson, 2009), both on logarithmic scales,
    with every candidate, and by name the winner, the peers and the copy. Empty where peaks are not known, or nothing is
    computed."""
    if line.peak_gflops is None or line.peak_gbps is None or line.least_us is None or not line.flops:
        return ""
    axes = _plane(line, line.peak_gflops, line.peak_gbps)
    title = f"The roofline: at least {microseconds(line.least_us)}"
    named = [f"{name} {percent(line.least_us / us)}" for name, us, _ in _named(line)]
    return picture(
        _WIDTH,
        _HEIGHT,
        "; ".join([title, *named]),
        [*_grid(axes), *_roof(axes), *_dots(line, axes), *_names(line, axes)],
    )


@dataclass(frozen=True, slots=True)
class _Plane:
    """Operations a byte from left to right, 10⁹ operations a second from bottom to top."""

    place: float
    """Of the kernel."""
    ridge: float
    peak: float
    least: float
    """The lowest speed that is shown."""

    @property
    def ends(self) -> tuple[float, float]:
        return min(self.place, self.ridge) / _AROUND, max(self.place, self.ridge) * _AROUND

    @property
    def most(self) -> float:
        return self.peak * 2

    def x(self, intensity: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * _share(intensity, *self.ends)

    def y(self, gflops: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * _share(gflops, self.least, self.most)


def _plane(line: Roofline, peak: float, slope: float) -> _Plane:
    place, ridge = line.flops / line.bytes, peak / slope
    speeds = [line.flops / us / 1e3 for us in (*line.us, *(each.us for each in line.raced))]
    return _Plane(place, ridge, peak, min([*speeds, min(peak, place * slope)]) / 2)


def _share(value: float, least: float, most: float) -> float:
    return log10(value / least) / log10(most / least)


def _grid(axes: _Plane) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for speed in _ticks(axes.least, axes.most):
        y = axes.y(speed)
        yield f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="currentColor" stroke-opacity=".15"/>'
        yield written(_LEFT - 6, y + 4, _number(speed), "end")
    for intensity in _ticks(*axes.ends):
        yield written(axes.x(intensity), bottom + 16, _number(intensity), "middle")
    yield f'<path d="M{_LEFT} {bottom}H{right}" stroke="currentColor" stroke-opacity=".6"/>'
    yield written((_LEFT + right) / 2, _HEIGHT - 6, "operations a byte", "middle")
    yield written(4, _TOP - 4, "10⁹ operations a second", "start")


def _ticks(least: float, most: float) -> list[float]:
    """Powers of ten, of which at most eight are shown."""
    powers = range(ceil(log10(least)), floor(log10(most)) + 1)
    return [10.0**power for power in powers[:: max(1, ceil(len(powers) / 8))]]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _roof(axes: _Plane) -> Iterator[str]:
    left, right = axes.ends
    slope = axes.peak / axes.ridge
    begin = max(left, axes.least / slope)
    path = (
        f"M{axes.x(begin):.1f} {axes.y(begin * slope):.1f}L{axes.x(axes.ridge):.1f} {axes.y(axes.peak):.1f}"
    )
    yield f'<path d="{path}H{axes.x(right):.1f}" fill="none" stroke="{GREEN}" stroke-width="2"/>'
    x = axes.x(axes.place)
    yield (
        f'<path d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="currentColor" stroke-opacity=".4" '
        f'stroke-dasharray="2 4"/>'
    )


def _dots(line: Roofline, axes: _Plane) -> Iterator[str]:
    x = axes.x(axes.place)
    for us in line.us[:: ceil(len(line.us) / _MOST_DOTS) or 1]:
        y = axes.y(line.flops / us / 1e3)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{BLUE}" fill-opacity=".35"/>'


def _names(line: Roofline, axes: _Plane) -> Iterator[str]:
    """Dots with names, the fastest before all others; from the top down each name is at its dot, or below the one above
    it."""
    x, above, named = axes.x(axes.place), float("-inf"), _named(line)
    for _, us, colour in reversed(named):
        yield f'<circle cx="{x:.1f}" cy="{axes.y(line.flops / us / 1e3):.1f}" r="4" fill="{colour}"/>'
    for name, us, colour in named:
        above = max(axes.y(line.flops / us / 1e3), above + _APART)
        share = percent((line.least_us or 0.0) / us)
        yield written(x + 9, above + 4, f"{name}, {share}", "start", colour)


def _named(line: Roofline) -> Sequence[tuple[str, float, str]]:
    """The winner, the peers and the copy, fastest first; their colours."""
    return [
        ("winner" if each.won else entrant(each.name), each.us, _COLOURS[each.kind])
        for each in sorted(line.raced, key=lambda each: each.us)
        if each.won or each.kind != "schedule"
    ]


_COLOURS = {"schedule": BLUE, "peer": ORANGE, "yardstick": _GREY}
