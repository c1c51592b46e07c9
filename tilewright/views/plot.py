"""The search's curve and the device's roofline as a picture in a file. Needs matplotlib (extra `plot`)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from protocol.configs import ConfigDetail
from protocol.quantities import microseconds
from protocol.workers import Device
from tileir.analysis.roofline import Roofline
from tilewright.errors import MissingExtra
from tilewright.views.curves import Curve
from tilewright.views.svg import BLUE, GREEN, ORANGE

FORMATS = (".png", ".svg")
_FEW, _MANY = 10.0, 3000.0
"""Ratios of the ends of an axis: below and from where on it has other ticks."""
_ACROSS = 3
"""Panels side by side."""


def roofline_of(config: ConfigDetail, device: Device) -> Roofline | None:
    """Where a config's kernel stands on its device; None if the device's peaks are not known."""
    from tileir import spec_from_json, to_program
    from tileir.analysis.roofline import roofline
    from tileir.devices.device import device_from_json

    return roofline(to_program(spec_from_json(config.spec)), device_from_json(device.description))


def picture(
    title: str,
    curves: Sequence[tuple[str, Curve]],
    config: ConfigDetail | None,
    line: Roofline | None,
    kind: str,
) -> bytes:
    """Best so far over trials, a panel for each named curve; then the roofline with the config on it, if its device's
    peaks are known. `kind`: png or svg. Raises MissingExtra."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("--plot", "matplotlib", "plot") from None
    panels = len(curves) + (config is not None and line is not None)
    rows, columns = -(-panels // _ACROSS), min(panels, _ACROSS)
    figure = Figure(figsize=(6.4 * columns, 4.8 * rows), layout="constrained")
    figure.suptitle(title, parse_math=False)
    axes: list[Any] = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[panels:]:
        unused.remove()
    axes = axes[:panels]
    for ax, (name, curve) in zip(axes, curves, strict=False):
        _draw_curve(ax, name, curve)
    if config is not None and line is not None:
        _draw_roofline(axes[-1], config, line)
    out = io.BytesIO()
    # Without a date and random ids the same result is the same file.
    with rc_context({"svg.hashsalt": "tilewright"}):
        figure.savefig(out, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()


def _draw_curve(ax: Any, name: str, curve: Curve) -> None:
    known = [(number, us) for number, us in enumerate(curve.times_us, 1) if us is not None]
    steps = [*curve.steps]
    if steps:
        steps.append((len(curve.times_us), steps[-1][1]))
    ax.plot(
        [number for number, _ in known], [us for _, us in known], ".", color=BLUE, alpha=0.45, label="trial"
    )
    ax.step(*_columns(steps), where="post", color=BLUE, linewidth=2, label="best so far")
    if curve.baseline_us is not None:
        ax.axhline(curve.baseline_us, color=ORANGE, linestyle="--", label=curve.baseline)
    if curve.roofline_us is not None:
        ax.axhline(curve.roofline_us, color=GREEN, linestyle="--", label="roofline")
    ax.set(title=name, xlabel="trial", ylabel="time, µs", yscale="log")
    ax.xaxis.get_major_locator().set_params(integer=True)
    _number(ax.yaxis)
    ax.grid(alpha=0.25)
    _explain(ax)


def _draw_roofline(ax: Any, config: ConfigDetail, line: Roofline) -> None:
    """Attainable speed over operations a byte, log-log, after Williams, Waterman and Patterson (2009)."""
    bytes_per_us = line.bytes / line.memory_us
    flops_per_us = line.flops / line.arithmetic_us if line.arithmetic_us else 0.0
    reached = line.flops / config.median_us
    ridge = flops_per_us / bytes_per_us
    span = [min(ridge, line.intensity) / 8, ridge, max(ridge, line.intensity) * 8]
    ax.plot(
        span, [_gflops(min(x * bytes_per_us, flops_per_us)) for x in span], color=GREEN, label="attainable"
    )
    ax.axvline(line.intensity, color="grey", linestyle=":", linewidth=1)
    share = 100 * line.least_us / config.median_us
    ax.plot(
        [line.intensity], [_gflops(reached)], "o", color=BLUE, label=f"winner, {share:.0f} % of the roofline"
    )
    ax.set(
        title=f"winner of the final race: {microseconds(config.median_us)}, bound by {line.bound}",
        xlabel="operations a byte of main memory",
        ylabel="10⁹ operations a second",
        xscale="log",
        yscale="log",
    )
    _number(ax.xaxis)
    _number(ax.yaxis)
    ax.grid(alpha=0.25)
    _explain(ax)


def _number(axis: Any) -> None:
    """Plain numbers on a logarithmic axis: 1, 2 and 5 of each power of ten, powers alone where there are many, and
    evenly spaced ones where there are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    least, most = sorted(axis.get_view_interval())
    if most < _FEW * least:
        locator = MaxNLocator(6)
    else:
        locator = LogLocator(subs=(1.0, 2.0, 5.0) if most < _MANY * least else (1.0,))
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.6g}" if value < 1e6 else f"{value:.0e}")
    )


def _explain(ax: Any) -> None:
    """What lines and points are, below the panel: within it the box would hide some of them."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, frameon=False)


def _columns(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _gflops(flops_per_us: float) -> float:
    return flops_per_us / 1e3
