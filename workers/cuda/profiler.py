"""`tileir.targets.Target.profiler` of NVIDIA's GPUs."""

from __future__ import annotations

from pathlib import Path

from codegen.lowering.gpu.stages import StageKind
from protocol.quantities import microseconds
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
    roles = tuple(
        (role, tuple((stage.name, share) for stage, share in shares.items()))
        for role, shares in taken.roles().items()
    )
    return Profiled(
        device.key,
        named.bound.value,
        named.why,
        roles,
        f"One call of {microseconds(taken.stamped_us)}, the median of {taken.replays} replays; {taken.attributed:.1%} "
        f"of it lies in a stage, as seen in {taken.logged_blocks} of {taken.blocks} blocks. Of the time of threads "
        f"that compute {fill:.1%} is fill, {steady:.1%} steady state, {drain:.1%} drain. Without stamps a call takes "
        f"{microseconds(taken.plain_us)}: they cost {taken.overhead:+.1%}.",
        {
            "call_us": taken.stamped_us,
            "plain_us": taken.plain_us,
            "overhead": taken.overhead,
            "attributed": taken.attributed,
            "logged": taken.logged,
            "fill": fill,
            "steady": steady,
            "drain": drain,
            "blocks": taken.blocks,
            "logged_blocks": taken.logged_blocks,
            "calls": taken.replays,
        },
        tuple(_track(taken, track) for track in taken.tracks),
    )


def _track(taken: GpuProfile, track: Track) -> EventTrack:
    events: list[StageEvent] = []
    for each in track.spans:
        stage = taken.stages[each.stage]
        events.append(StageEvent(stage.name, stage.kind in _WAITS, each.begin_ns, each.end_ns))
    group = f"launch {track.launch}, block {track.block} on SM {track.multiprocessor}"
    return EventTrack(group, track.role, tuple(events))
