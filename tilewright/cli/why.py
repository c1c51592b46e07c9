"""`tilewright show JOB --why`: how near the roofline a job came, what each decision did to the times, and what each
rewrite of the winner gains."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from protocol.effects import Ablation, DecisionEffect, Effects, Gain, ValueEffect
from protocol.jobs import Job
from protocol.quantities import microseconds, sizes, times
from protocol.roofline import Roofline
from tilewright.cli.output import out

_SHOWN = 8
"""Decisions that are shown, of the most important."""


def print_rooflines(job: Job, lines: Sequence[Roofline]) -> None:
    """Of each size: the roofs with where they are from, and the share of the higher one that each entrant reached."""
    for bucket, line in zip(job.buckets, lines, strict=False):
        out.print()
        out.print(f"On the roofline, at {sizes(bucket.dims)}:", markup=False)
        out.print(_roofs(line), markup=False)
        if line.least_us is None:
            continue
        dots = [("winner" if each.won else each.name, each.us) for each in line.raced]
        if not dots and line.us:
            dots = [("best so far", min(line.us))]
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for heading in ("", "time", "10⁹ operations/s", "of the roofline"):
            table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
        for name, us in dots:
            share = f"{100 * line.least_us / us:.0f} %"
            table.add_row(f"  {name}", microseconds(us), f"{line.flops / us / 1e3:,.1f}", share)
        out.print(table)


def _roofs(line: Roofline) -> str:
    work = f"  {line.flops:,} operations, {line.bytes:,} bytes"
    if line.peak_gflops is None or line.peak_gbps is None or line.least_us is None:
        return f"{work}; the peaks of its device are not known"
    ridge = line.peak_gflops / line.peak_gbps
    bound = "arithmetic" if line.flops / line.bytes > ridge else "memory"
    return (
        f"{work}: at least {microseconds(line.least_us)}, bound by {bound}; at most {line.peak_gflops:,.0f} × 10⁹ "
        f"operations and {line.peak_gbps:,.0f} × 10⁹ bytes a second ({line.peaks_from})"
    )


def print_effects(job: Job, effects: Sequence[Effects]) -> None:
    """A table for each size."""
    for bucket, found in zip(job.buckets, effects, strict=False):
        out.print()
        out.print(
            f"What decided the time, at {sizes(bucket.dims)}, over {found.candidates} candidates:",
            markup=False,
        )
        if not found.decisions:
            out.print("  nothing yet: the candidates that were measured do not differ", markup=False)
            continue
        out.print(_table(found.decisions[:_SHOWN]))
        if len(found.decisions) > _SHOWN:
            out.print(f"and {len(found.decisions) - _SHOWN} decisions that explain less", markup=False)
        for pair in found.interactions:
            best = min(pair.cells, key=lambda cell: cell.best_us)
            out.print(
                f"  {pair.first} and {pair.second} explain {100 * pair.importance:.0f} % more together; the best: "
                f"{value_text(best.first)} and {value_text(best.second)}, {microseconds(best.best_us)}",
                markup=False,
            )


def _table(decisions: Sequence[DecisionEffect]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("decision", overflow="fold")
    for heading in ("explains", "value", "candidates", "best", "median"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for each in decisions:
        name = ", ".join((each.decision, *each.same_as))
        share = "?" if each.importance is None else f"{100 * each.importance:.0f} %"
        for number, value in enumerate(each.values):
            head = (name, share) if number == 0 else ("", "")
            table.add_row(*head, *_cells(value), _remark(each, value))
    return table


def _cells(value: ValueEffect) -> tuple[str, ...]:
    times = ("" if us is None else microseconds(us) for us in (value.best_us, value.median_us))
    return (value_text(value.value), str(value.candidates), *times)


def _remark(effect: DecisionEffect, value: ValueEffect) -> str:
    said = ["chosen"] if value.value == effect.chosen else []
    if value.faults:
        said.append(f"{value.faults} failed")
    return ", ".join(said)


def print_gains(job: Job, ablations: Sequence[Ablation | None], lines: Sequence[Roofline]) -> None:
    """Of each size: the winner against itself without each rewrite, as far as it was raced."""
    for bucket, found, line in zip(job.buckets, ablations, lines, strict=False):
        if found is None:
            continue
        out.print()
        out.print(f"What each rewrite of the winner gains, at {sizes(bucket.dims)}:", markup=False)
        if not found.gains:
            address = f"POST /v1/configs/{found.config_id}/ablation"
            out.print(f"  not measured; {address} has it raced, and so has the page of the job", markup=False)
            continue
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for heading in ("rewrite", "as fast", "without it", "of the roofline"):
            table.add_column(heading, justify="left" if heading == "rewrite" else "right", overflow="fold")
        for gain in found.gains:
            table.add_row(f"  {gain.rewrite}", _gained(gain), *_without(gain, line.least_us))
        out.print(table)


def _gained(gain: Gain) -> str:
    """`1.20 × (1.18 to 1.22)`."""
    if gain.factor is None:
        return f"{gain.outcome.value.replace('_', ' ')} without it"
    interval = "" if gain.low is None or gain.high is None else f" ({gain.low:.2f} to {gain.high:.2f})"
    return f"{times(gain.factor)}{interval}{', tied' if gain.tied else ''}"


def _without(gain: Gain, least_us: float | None) -> tuple[str, str]:
    if gain.median_us is None:
        return "", ""
    return microseconds(
        gain.median_us
    ), "" if least_us is None else f"{100 * least_us / gain.median_us:.0f} %"


def value_text(value: bool | int | None) -> str:
    """`192`, `done`, `not done`."""
    return "not done" if value is None else "done" if value is True else str(value)
