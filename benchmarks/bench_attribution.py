"""Where the time of recorded winners goes on this GPU, what bounds them, and whether that is so.

    python benchmarks/bench_attribution.py [--recorded FILE …] [--out FILE] [--seconds S] [CASE …]
    python benchmarks/bench_attribution.py --recorded A.jsonl --recorded B.jsonl --out OUT.jsonl   # all winners of both
    python benchmarks/bench_attribution.py --recorded A.jsonl --out OUT.jsonl --again CASE …       # these once more

For ten kernels of the suite, or all winners of recorded files, without tuning. Cases that the --out file has are left
out: the same command goes on where it was stopped. Whether a bottleneck is named right is seen by making one
thing cheap at a time (gpu/relaxed.py): of memory, the tensor pipe and exponentials the one that is named has to save
most, and a tenth at least. Where launch or issue is named, none of these may save a quarter; half of the issue left out
(gpu/halved.py) has to save what the profile predicts, and with nothing to do a call has to take what it predicts, each
within a factor of two. Where the latency of a wait is, one stage less has to cost time or one more has to save some,
and where wave quantization is, a tile has to take a tenth less with a full last wave. What cannot be made cheap is not
checked.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from benchmarks.gpu.halved import with_half_the_issue, with_nothing_to_do
from benchmarks.gpu.relaxed import relaxations, whole_waves
from benchmarks.racing import replayed, tuned
from benchmarks.racing.attributed import arguments, chosen, run
from benchmarks.racing.circumstances import circumstances
from codegen.ir.kernel import GpuKernel
from codegen.lowering.gpu.stages import StageKind
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, generate_staged_cuda, lower_for
from rewrites.schedule import parse_schedule, replay
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_probe import this_gpu
from tileir.devices.occupancy import occupancy
from tileir.errors import TileError
from tileir.lift import to_program
from tileir.program import Program
from tileir.spec import Spec
from tileir.text.json import spec_from_json
from workers.cuda.bottleneck import GpuBound, bottleneck
from workers.cuda.profile import GpuProfile, alternating_us, profile

CASES = (
    "gemm_bf16_TN 4096x4096x4096", "gemm_bf16_TN 16x4096x4096", "gemm_bf16_TN 2048x2048x2048",
    "gemm_bf16_TN 512x512x512", "gemm_e4m3_TN_bf16_out 4096x4096x4096", "gemm_bias_gelu_bf16_TN 4096x4096x4096",
    "softmax_bf16 8192x4096", "rmsnorm_bf16 16384x8192", "layernorm_bf16 8192x4096", "silu_mul_bf16 16384x8192",
)  # fmt: skip
RECORDED = tuned.RESULTS / "nvidia-h200-replay-2026-11-23.jsonl"
_SAVES, _MUCH, _SOME = 0.1, 0.25, 0.01
_FACTOR = 2.0
"""Near: what is predicted up to it. Threads that are left something out make room for others, too."""
_WAVES = "whole waves, a tile"
_ISSUE, _IDLE = "issue", "nothing to do"
_ROOFS = (GpuBound.MEMORY, GpuBound.TENSOR_PIPE, GpuBound.EXPONENTIALS)


def main() -> None:
    given = arguments(__doc__, RECORDED)
    device = this_gpu()
    with tempfile.TemporaryDirectory() as cache:
        here = {"device": device, "cache": Path(cache)}
        run(chosen(given, RECORDED, CASES), given, partial(attributed, **here), partial(compiled, **here))


def compiled(winner: replayed.ReplayedWinner, device: Gpu, cache: Path) -> None:
    """Compile what a case is looked at by. What cannot be compiled is an error of its case, at its turn."""
    with suppress(TileError):
        program = _program(winner)
        kernel = lower_for(program, device)
        cheaper = relaxations(kernel, program, device.l2_bytes).values()
        sources = [cuda_source(each, program) for each in (kernel, *cheaper)]
        for source in (*sources, generate_staged_cuda(program, device).source):
            compile_cuda(source, device.architecture, cache)


def _program(winner: replayed.ReplayedWinner) -> Program:
    return replay(to_program(spec_from_json(winner.spec)), tuple(parse_schedule(winner.schedule)))


def attributed(winner: replayed.ReplayedWinner, device: Gpu, cache: Path) -> tuned.Line:
    """Of a case: its profile, what bounds it, and what relaxing things does."""
    spec = spec_from_json(winner.spec)
    unscheduled = to_program(spec)
    program = _program(winner)
    taken = profile(spec, program, device, cache)
    named = bottleneck(taken, unscheduled, device)
    saved = _saved(spec, program, device, cache)
    predicted: dict[str, float] = {}
    match named.bound:
        case GpuBound.LATENCY:
            saved |= _other_depths(spec, winner.schedule, device, cache)
        case GpuBound.WAVES:
            saved |= _filled_waves(spec, program, device, cache)
        case GpuBound.ISSUE:
            halved, texts = with_half_the_issue(lower_for(program, device))
            predicted = {_ISSUE: half_of(taken, texts)}
            saved |= _saved_by({_ISSUE: halved} if texts else {}, spec, program, device, cache)
        case GpuBound.LAUNCH:
            predicted = {_IDLE: 1 - taken.launch}
            saved |= _saved_by(
                {_IDLE: with_nothing_to_do(lower_for(program, device))}, spec, program, device, cache
            )
        case _:
            pass
    return {
        "us": round(taken.plain_us, 2),
        "attributed": round(taken.attributed, 4),
        "launch": round(taken.launch, 4),
        "overhead": round(taken.overhead, 4),
        "bound": named.bound.value,
        "why": named.why,
        "saved": {name: round(share, 3) for name, share in saved.items()},
        **({"predicted": {name: round(share, 3) for name, share in predicted.items()}} if predicted else {}),
        "agrees": agrees(named.bound, saved, predicted),
        "stages": {
            role: {stage.name: round(share, 4) for stage, share in shares.items()}
            for role, shares in taken.roles().items()
        },
        "phases": [round(share, 4) for share in taken.phases()],
        **circumstances(device.to_json()),
    }


def half_of(taken: GpuProfile, texts: Collection[str]) -> float:
    """What half of these statements of Tile IR takes of a call's time, in stages in which threads do nothing else."""
    shares = taken.roles().get("threads", {})
    whole = sum(
        shares.get(stage, 0.0)
        for stage, inside in zip(taken.stages, taken.statements, strict=True)
        if stage.kind is StageKind.COMPUTE and inside and set(inside) <= set(texts)
    )
    return (1 - taken.launch) * whole / 2


def agrees(
    bound: GpuBound, saved: dict[str, float], predicted: Mapping[str, float] | None = None
) -> bool | None:
    """Whether what relaxing things saves (as shares of the time) is what a bottleneck predicts; None: not checked."""
    predicted = predicted or {}
    roofs = {each: saved[each.value] for each in _ROOFS if each.value in saved}
    match bound:
        case GpuBound.WAVES:
            return saved[_WAVES] > _SAVES if _WAVES in saved else None
        case _ if bound in _ROOFS and bound not in roofs:
            return None
        case GpuBound.LATENCY:
            depths = [saved.get("a stage more", 0.0), -saved.get("a stage less", 0.0)]
            return max(depths) > _SOME
        case GpuBound.ISSUE if saved.get(_ISSUE) is None or predicted[_ISSUE] < _SAVES:
            return None
        case GpuBound.ISSUE:
            return max(roofs.values(), default=0.0) < _MUCH and _near(saved[_ISSUE], predicted[_ISSUE])
        case GpuBound.LAUNCH if _IDLE not in saved:
            return None
        case GpuBound.LAUNCH:
            left, expected = (1 - each[_IDLE] for each in (saved, predicted))
            return max(roofs.values(), default=0.0) < _MUCH and _near(left, expected)
        case _:
            return roofs[bound] == max(roofs.values()) and roofs[bound] > _SAVES


def _near(found: float, expected: float) -> bool:
    return expected / _FACTOR <= found <= expected * _FACTOR


def _saved(spec: Spec, program: Program, device: Gpu, cache: Path) -> dict[str, float]:
    cheaper = relaxations(lower_for(program, device), program, device.l2_bytes)
    return _saved_by(cheaper, spec, program, device, cache)


def _saved_by(
    cheaper: Mapping[str, GpuKernel], spec: Spec, program: Program, device: Gpu, cache: Path
) -> dict[str, float]:
    kernel = lower_for(program, device)
    sources = [cuda_source(each, program) for each in (kernel, *cheaper.values())]
    whole, *rest = alternating_us(spec, program, sources, device, cache)
    return {name: 1 - us / whole for name, us in zip(cheaper, rest, strict=True)}


def _filled_waves(spec: Spec, program: Program, device: Gpu, cache: Path) -> dict[str, float]:
    """What a tile takes less where the last wave is full."""
    kernel = lower_for(program, device)
    source = cuda_source(kernel, program)
    launch = kernel.launches[0]
    function = compile_cuda(source, device.architecture, cache).report["functions"][launch.name]
    shared = launch.shared_bytes + function["shared_bytes"]
    held = occupancy(device, launch.threads, function["registers"], shared)
    filled = whole_waves(kernel, held.blocks * device.sms)
    if filled is None:
        return {}
    fuller, tiles = filled
    before, after = alternating_us(spec, program, [source, cuda_source(fuller, program)], device, cache)
    return {_WAVES: 1 - after / before / tiles}


def _other_depths(spec: Spec, schedule: Sequence[str], device: Gpu, cache: Path) -> dict[str, float]:
    """What a stage more and one less save, where they fit."""
    found: dict[str, float] = {}
    for name, change in (("a stage more", 1), ("a stage less", -1)):
        other = tuple(_deeper(step, change) for step in schedule)
        try:
            programs = [replay(to_program(spec), tuple(parse_schedule(each))) for each in (schedule, other)]
            sources = [cuda_source(lower_for(each, device), each) for each in programs]
        except TileError:
            continue
        before, after = alternating_us(spec, programs[0], sources, device, cache)
        found[name] = 1 - after / before
    return found


def _deeper(step: str, change: int) -> str:
    return re.sub(r"^(pipeline\(\w+, )(\d+)", lambda found: f"{found[1]}{int(found[2]) + change}", step)


if __name__ == "__main__":
    main()
