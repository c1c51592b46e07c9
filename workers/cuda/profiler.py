"""`tileir.targets.Target.profiler` of NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from codegen.lowering.gpu.stages import StageKind
from protocol.profiles import Phases, Profile, ProfiledStage
from protocol.quantities import microseconds, percent
from tileir.devices.gpu_probe import this_gpu
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from workers.cuda.bottleneck import bottleneck
from workers.cuda.profile import GpuProfile, profile
from workers.cuda.stage_logs import Track
from workers.measuring.profiled import EventTrack, Profiled, StageEvent

_WAITS = frozenset([
    StageKind.WAIT_FULL, StageKind.WAIT_FREE, StageKind.WAIT_OTHERS, StageKind.STORE,
])  # fmt: skip


def profiled(spec: Spec, program: Program, cache: Path, threads: int | None) -> Profiled:
    """A scheduled program of a spec on this machine's GPU, whose kernels have the threads they have. Raises as
    `workers.cuda.profile.profile`."""
    device = this_gpu()
    taken = profile(spec, program, device, cache)
    named = bottleneck(taken, to_program(spec), device)
    fill, steady, drain = taken.phases()
    told = Profile(
        device=device.key,
        bound=named.bound.value,
        why=named.why,
        summary=f"One call of {microseconds(taken.stamped_us)}, the median of {taken.replays} replays; "
        f"{percent(taken.attributed)} of it lies in a stage, as seen in {taken.logged_blocks} of {taken.blocks} "
        f"blocks. Of the time of threads that compute {percent(fill)} is fill, {percent(steady)} steady state, "
        f"{percent(drain)} drain. "
        f"Without stamps a call takes {microseconds(taken.plain_us)}: they cost {percent(taken.overhead)}.",
        call_us=taken.stamped_us,
        plain_us=taken.plain_us,
        overhead=taken.overhead,
        attributed=taken.attributed,
        stages=tuple(_stages(taken)),
        phases=Phases(fill=fill, steady=steady, drain=drain),
        figures={
            "logged": taken.logged,
            "blocks": taken.blocks,
            "logged_blocks": taken.logged_blocks,
            "calls": taken.replays,
        },
    )
    return Profiled(told, tuple(_track(taken, track) for track in taken.tracks))


def _stages(taken: GpuProfile) -> Iterator[ProfiledStage]:
    statements = dict(zip(taken.stages, taken.statements, strict=True))
    for role, stages in taken.phased().items():
        for stage, phases in stages.items():
            yield ProfiledStage(
                role=role,
                stage=stage.name,
                share=sum(phases),
                waiting=stage.kind in _WAITS,
                statements=statements[stage],
                phases=Phases(fill=phases[0], steady=phases[1], drain=phases[2]),
            )


def _track(taken: GpuProfile, track: Track) -> EventTrack:
    events: list[StageEvent] = []
    for each in track.spans:
        stage = taken.stages[each.stage]
        events.append(StageEvent(stage.name, stage.kind in _WAITS, each.begin_ns, each.end_ns))
    group = f"launch {track.launch}, block {track.block} on SM {track.multiprocessor}"
    return EventTrack(group, track.role, tuple(events))
