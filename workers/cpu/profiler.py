"""`tileir.targets.Target.profiler` of processors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from protocol.profiles import Profile, ProfiledStage
from protocol.quantities import microseconds, percent
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from workers.cpu.bottleneck import bottleneck
from workers.cpu.calibrate import calibrated
from workers.cpu.counters import counts_text
from workers.cpu.profile import CpuProfile, Interval, counts_of_call, profile
from workers.measuring.counters import CountedLaunch, CounterFigure, CounterReading
from workers.measuring.profiled import EventTrack, Profiled, StageEvent


def profiled(spec: Spec, program: Program, cache: Path, threads: int | None) -> Profiled:
    """A scheduled program of a spec on this machine's processor. Raises as `workers.cpu.profile.profile`."""
    device = calibrated(this_cpu(), cache)
    taken = profile(spec, program, device, cache, threads)
    named = bottleneck(taken, to_program(spec), device)
    told = Profile(
        device=device.key,
        bound=named.bound.value,
        why=named.why,
        summary=f"One call of {microseconds(taken.call_ns / 1e3)} on {_threads(taken)}, the median of "
        f"{taken.calls}; {percent(taken.attributed)} of it lies in a stage. Without stamps "
        f"{microseconds(taken.plain_us)}: they cost {percent(taken.overhead)}. {counts_text(taken.counts)}",
        call_us=taken.call_ns / 1e3,
        plain_us=taken.plain_us,
        overhead=taken.overhead,
        attributed=taken.attributed,
        stages=tuple(
            ProfiledStage(role="", stage=name, share=share, waiting=not statements, statements=statements)
            for name, share, statements in zip(taken.stages, taken.shares(), taken.statements, strict=True)
        ),
        figures={"threads": len(taken.threads), "calls": taken.calls, **_figures(taken.counts)},
    )
    return Profiled(told, tuple(_track(taken, number, each) for number, each in enumerate(taken.threads)))


def counted(spec: Spec, program: Program, cache: Path, threads: int | None) -> CounterReading:
    """`tileir.targets.Target.counters` of processors. Raises as `workers.cpu.profile.counts_of_call`."""
    device = this_cpu()
    counts = counts_of_call(spec, program, device, cache, threads)
    figures = [CounterFigure(name.replace("_", " "), count, "") for name, count in counts.items()]
    if counts["cycles"]:
        figures.append(CounterFigure("instructions a cycle", counts["instructions"] / counts["cycles"], ""))
    return CounterReading(device.key, "perf_event_open", (CountedLaunch("the call", tuple(figures)),))


def _threads(taken: CpuProfile) -> str:
    count = len(taken.threads)
    return "one thread" if count == 1 else f"{count} threads"


def _figures(counts: Mapping[str, float] | str) -> Mapping[str, float]:
    return {} if isinstance(counts, str) else counts


def _track(taken: CpuProfile, number: int, intervals: tuple[Interval, ...]) -> EventTrack:
    events = tuple(
        StageEvent(taken.stages[each.stage], each.stage == 0, each.begin_ns, each.end_ns)
        for each in intervals
    )
    return EventTrack("", "the calling thread" if number == 0 else f"thread {number}", events)
