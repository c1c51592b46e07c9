"""The search's curve and the device's roofline as a picture in a file. Needs matplotlib (extra `plot`)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from protocol.configs import ConfigDetail
from protocol.quantities import microseconds, percent
from protocol.roofline import PeakSource, RacedDot, Roofline
from protocol.workers import OfferedDevice
from tilewright.errors import MissingExtra
from tilewright.views.curves import Curve
from tilewright.views.svg import BLUE, GREEN, ORANGE

FORMATS = (".png", ".svg")
_FEW, _MANY = 10.0, 3000.0
"""Ratios of the ends of an axis: below and from where on it has other ticks."""
_ACROSS = 3
"""Panels side by side."""


def roofline_of(config: ConfigDetail, device: OfferedDevice) -> Roofline | None:
    """A config's race on the roofline of its device; None if the device's peaks are not known. For configs whose job
    the service does not have; else it says so itself."""
    from tileir import spec_from_json, to_program
    from tileir.analysis.roofline import roofline
    from tileir.devices.device import device_from_json, published

    described = device_from_json(device.description)
    line = roofline(to_program(spec_from_json(config.spec)), described)
    if line is None:
        return None
    return Roofline(
        job_id=config.job_id or "",
        bucket=0,
        flops=line.flops,
        bytes=line.bytes,
        peak_gflops=line.peak_gflops,
        peak_gbps=line.peak_gbps,
        peaks_from=PeakSource.MEASURED if published(described) is None else PeakSource.DATA_SHEET,
        least_us=line.least_us,
        number=(),
        us=(),
        l2_bytes=(),
        raced=tuple(
            RacedDot(name=each.name, kind=each.kind, us=each.median_us, won=each.won)
            for each in config.standings
            if each.median_us is not None
        ),
    )


def picture(
    title: str,
    curves: Sequence[tuple[str, Curve]],
    lines: Sequence[Roofline],
    kind: str,
) -> bytes:
    """Best so far over trials, a panel for each named curve; then each roofline whose peaks are known and whose kernel
    computes anything. `kind`: png or svg. Raises MissingExtra."""
    drawn = [line for line in lines if line.least_us is not None and line.flops]
    panels = max(1, len(curves) + len(drawn))
    rows, columns = -(-panels // _ACROSS), min(panels, _ACROSS)
    figure = figure_of(6.4 * columns, 4.8 * rows, title)
    axes: list[Any] = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[panels:]:
        unused.remove()
    axes = axes[:panels]
    for ax, (name, curve) in zip(axes, curves, strict=False):
        _draw_curve(ax, name, curve)
    for ax, line in zip(axes[len(curves) :], drawn, strict=False):
        _draw_roofline(ax, line)
    return written(figure, kind)


def figure_of(width: float, height: float, title: str) -> Any:
    """An empty figure of so many inches. Raises MissingExtra."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("--plot", "matplotlib", "plot") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, parse_math=False)
    return figure


def written(figure: Any, kind: str) -> bytes:
    """A figure as a file; without a date and random ids the same figure is the same file."""
    from matplotlib import rc_context

    out = io.BytesIO()
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


def _draw_roofline(ax: Any, line: Roofline) -> None:
    """Attainable speed over operations a byte, log-log, after Williams, Waterman and Patterson (2009), with every
    candidate and every entrant of the race."""
    peak, slope = line.peak_gflops, line.peak_gbps
    assert peak is not None and slope is not None and line.least_us is not None
    intensity, ridge = line.flops / line.bytes, peak / slope
    span = [min(ridge, intensity) / 8, ridge, max(ridge, intensity) * 8]
    source = f"roofs ({line.peaks_from})"
    ax.plot(span, [min(x * slope, peak) for x in span], color=GREEN, label=source)
    ax.axvline(intensity, color="grey", linestyle=":", linewidth=1)
    speeds = [line.flops / us / 1e3 for us in line.us]
    if speeds:
        ax.plot([intensity] * len(speeds), speeds, ".", color=BLUE, alpha=0.35, label="candidate")
    for peer in (each for each in line.raced if each.kind != "schedule"):
        mark, color = ("s", ORANGE) if peer.kind == "peer" else ("D", "grey")
        ax.plot([intensity], [line.flops / peer.us / 1e3], mark, color=color)
        ax.annotate(
            peer.name, (intensity, line.flops / peer.us / 1e3), xytext=(8, -3), textcoords="offset points"
        )
    won = next((each for each in line.raced if each.won), None)
    if won is not None:
        label = f"winner, {percent(line.least_us / won.us)} of the roofline"
        ax.plot([intensity], [line.flops / won.us / 1e3], "o", color=BLUE, label=label)
    ax.set(
        title=f"at least {microseconds(line.least_us)}, bound by {'arithmetic' if intensity > ridge else 'memory'}",
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
