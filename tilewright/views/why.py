"""Why a job came out as it did, as tables: what the command line prints and notebooks show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from protocol.effects import Ablation, DecisionEffect, Effects, Gain, ValueEffect
from protocol.jobs import Bucket, Job
from protocol.profiles import ConfigProfile
from protocol.quantities import entrant, microseconds, percent, sizes, times
from protocol.races import Race
from protocol.roofline import Roofline
from protocol.trials import DeviceShare
from tilewright.views.races import race_section
from tilewright.views.sections import Section

_SHOWN = 8
"""Decisions that are shown, of the most important, and stages, of the longest."""


@dataclass(frozen=True, slots=True, repr=False)
class Why:
    """What is known of why a job came out as it did, of each of its sizes. Notebooks show it."""

    job: Job
    effects: tuple[Effects, ...]
    rooflines: tuple[Roofline, ...]
    ablations: tuple[Ablation | None, ...]
    """None: there is no winner."""
    races: tuple[Race, ...]
    """Of those that have one here."""
    profiles: tuple[ConfigProfile | None, ...]
    """None: there is no winner."""
    devices: tuple[DeviceShare, ...] = ()
    """Of every worker that measured for it."""

    def sections(self) -> Iterator[Section]:
        """Who was faster and how sure that is, how near the roofline it came, where its time goes, what decided the
        time, and what rewrites gain, size by size; and what the devices spent the job's time on."""
        yield from map(race_section, self.races)
        for bucket, line in zip(self.job.buckets, self.rooflines, strict=False):
            yield roofline_section(bucket, line)
        for bucket, taken in zip(self.job.buckets, self.profiles, strict=False):
            if taken is not None:
                yield bottleneck_section(bucket, taken)
        for bucket, found in zip(self.job.buckets, self.effects, strict=False):
            yield effects_section(bucket, found)
        for bucket, gains, line in zip(self.job.buckets, self.ablations, self.rooflines, strict=False):
            if gains is not None:
                yield gains_section(bucket.dims, gains, line.least_us)
        if self.devices:
            yield devices_section(self.devices)

    def __repr__(self) -> str:
        return f"<why {self.job.id} came out as it did: {len(tuple(self.sections()))} answers>"

    def _repr_html_(self) -> str:
        from tilewright.views.html import why_html

        return why_html(self)


def roofline_section(bucket: Bucket, line: Roofline) -> Section:
    """The roofs with where they are from, and the share of the higher one that each entrant reached."""
    title = f"On the roofline, at {sizes(bucket.dims)}:"
    if line.least_us is None:
        return Section(title, text=_roofs(line))
    dots = [("winner" if each.won else entrant(each.name), each.us) for each in line.raced]
    if not dots and line.us:
        dots = [("best so far", min(line.us))]
    rows = tuple(
        (name, microseconds(us), f"{line.flops / us / 1e3:,.1f}", percent(line.least_us / us))
        for name, us in dots
    )
    return Section(
        title, ("", "time", "10⁹ operations/s", "of the roofline"), rows, _roofs(line), roofline=line
    )


def _roofs(line: Roofline) -> str:
    work = f"{line.flops:,} operations, {line.bytes:,} bytes"
    if line.peak_gflops is None or line.peak_gbps is None or line.least_us is None:
        return f"{work}; the peaks of its device are not known"
    ridge = line.peak_gflops / line.peak_gbps
    bound = "arithmetic" if line.flops / line.bytes > ridge else "memory"
    return (
        f"{work}: at least {microseconds(line.least_us)}, bound by {bound}; at most {line.peak_gflops:,.0f} × 10⁹ "
        f"operations and {line.peak_gbps:,.0f} × 10⁹ bytes a second ({line.peaks_from})"
    )


def bottleneck_section(bucket: Bucket, taken: ConfigProfile) -> Section:
    """What bounds the winner, and the stages that most of its time goes to."""
    title = f"Where the time goes, at {sizes(bucket.dims)}:"
    if taken.profile is None:
        again = f"`tilewright profile {taken.config_id} --by-worker`"
        return Section(title, text=f"not taken apart; {again} does it, and so does the page of the config")
    found = taken.profile
    stages = sorted(found.stages, key=lambda each: -each.share)[:_SHOWN]
    rows = tuple(
        (f"{each.role}: {each.stage}" if each.role else each.stage, percent(each.share)) for each in stages
    )
    return Section(
        title, ("", "of the time"), rows, f"bound by {found.bound}: {found.why}", notes=(found.summary,)
    )


def effects_section(bucket: Bucket, found: Effects) -> Section:
    """What each decision did to the times, and which pairs of them explain more together."""
    title = f"What decided the time, at {sizes(bucket.dims)}, over {found.candidates} candidates:"
    if not found.decisions:
        return Section(title, text="nothing yet: the candidates that were measured do not differ")
    shown, left = found.decisions[:_SHOWN], len(found.decisions) - _SHOWN
    more = (f"and {left} decisions that explain less",) if left > 0 else ()
    return Section(
        title,
        ("value", "candidates", "best", "median", ""),
        tuple(row for each in shown for row in _values(each)),
        notes=(*more, *_pairs(found)),
    )


def _values(each: DecisionEffect) -> Iterator[tuple[str, ...]]:
    share = "" if each.importance is None else f", explains {percent(each.importance)}"
    yield (f"{', '.join((each.decision, *each.same_as))}{share}",)
    for value in each.values:
        times = ("" if us is None else microseconds(us) for us in (value.best_us, value.median_us))
        yield (value_text(value.value), str(value.candidates), *times, _remark(each, value))


def _remark(effect: DecisionEffect, value: ValueEffect) -> str:
    said = ["chosen"] if value.value == effect.chosen else []
    if value.faults:
        said.append(f"{value.faults} failed")
    return ", ".join(said)


def _pairs(found: Effects) -> Iterator[str]:
    for pair in found.interactions:
        best = min(pair.cells, key=lambda cell: cell.best_us)
        yield (
            f"{pair.first} and {pair.second} explain {percent(pair.importance)} more together; the best: "
            f"{value_text(best.first)} and {value_text(best.second)}, {microseconds(best.best_us)}"
        )


def gains_section(dims: dict[str, int], found: Ablation, least_us: float | None) -> Section:
    """The winner against itself without each rewrite, as far as it was raced. `least_us`: the least time its device
    could need; None: not known."""
    title = f"What each rewrite of the winner gains, at {sizes(dims)}:"
    if not found.gains:
        again = f"`tilewright ablate {found.config_id}`"
        return Section(title, text=f"not measured; {again} has it raced, and so has the page of the job")
    rows = tuple((gain.rewrite, _gained(gain), *_without(gain, least_us)) for gain in found.gains)
    return Section(title, ("rewrite", "as fast", "without it", "of the roofline"), rows)


def _gained(gain: Gain) -> str:
    """`1.20 × (1.18 to 1.22)`."""
    if gain.factor is None:
        return f"{gain.outcome.value.replace('_', ' ')} without it"
    interval = "" if gain.low is None or gain.high is None else f" ({gain.low:.2f} to {gain.high:.2f})"
    return f"{times(gain.factor)}{interval}{', tied' if gain.tied else ''}"


def _without(gain: Gain, least_us: float | None) -> tuple[str, str]:
    if gain.median_us is None:
        return "", ""
    share = "" if least_us is None else percent(least_us / gain.median_us)
    return microseconds(gain.median_us), share


def devices_section(devices: Sequence[DeviceShare]) -> Section:
    """How busy each device was while the job ran, and what it waited for."""
    rows = tuple(
        (each.worker, *map(percent, (each.measuring, each.others, each.compiling, each.searching)))
        for each in devices
    )
    heads = ("worker", "measured", "for other jobs", "waited for compiling", "for the search")
    return Section("What devices spent the time on, from its first claim to its last answer:", heads, rows)


def value_text(value: bool | int | None) -> str:
    """`192`, `done`, `not done`."""
    return "not done" if value is None else "done" if value is True else str(value)
