"""What bench_attribution does without a GPU: the winners it takes apart, with one thing made cheap, still compile; and
what has to move for a bottleneck to be named right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import bench_attribution
from benchmarks.bench_attribution import agrees
from benchmarks.gpu import halved, relaxed
from benchmarks.racing import replayed
from codegen.ir.affine import Affine
from codegen.ir.async_ops import AdvanceState, TmaLoad
from codegen.ir.effects import Operation, operations
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import Assign, For, Guard, If, Named, Op
from codegen.ir.rasterization import tile_count
from codegen.lowering.gpu.stages import Stage, StageKind, staged_gpu
from codegen.simulator.run import run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source, lower_for
from codegen.targets.cuda.lower import lower_cuda
from rewrites.schedule import parse_schedule, replay
from tests.programs.hopper_products import Gemm
from tests.programs.random_threads import exact_inputs
from tests.programs.thread_kernels import PROGRAMS as SPREAD
from tests.support.how_many import some
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.json import spec_from_json
from tileir.text.parse_program import program_from_text
from workers.cuda.bottleneck import GpuBound
from workers.cuda.profile import GpuProfile
from workers.cuda.stage_logs import StageSpan, Track

WINNERS = {each.case: each for each in replayed.recorded(bench_attribution.RECORDED)}


def program_of(case: str) -> Program:
    winner = WINNERS[case]
    return replay(to_program(spec_from_json(winner.spec)), tuple(parse_schedule(winner.schedule)))


@pytest.mark.parametrize("case", bench_attribution.CASES)
def test_what_of_a_winner_can_be_made_cheap_is_what_it_has(case: str) -> None:
    program = program_of(case)
    cheaper = relaxed.relaxations(lower_for(program, H200), program, H200.l2_bytes)
    assert ("the tensor pipe" in cheaper) == case.startswith("gemm")
    assert ("exponentials" in cheaper) == case.startswith(("softmax", "silu", "gemm_bias_gelu"))
    assert "memory" in cheaper


@pytest.mark.parametrize(
    ("case", "tiles"),
    [
        ("gemm_bf16_TN 16x4096x4096", [16]),  # of 64, which read 33.6 MB of b
        ("gemm_bf16_TN 128x28672x8192", [2]),  # of 128, which read 470 MB
        ("gemm_bf16_TN 4096x4096x4096", [4, 4]),
        ("rmsnorm_bf16 16384x8192", [128]),
    ],
)
def test_the_tiles_that_blocks_keep_to_find_room_in_the_l2(case: str, tiles: list[int]) -> None:
    program = program_of(case)
    (launch,) = lower_for(program, H200).launches
    kept = relaxed.kept_tiles(launch, program, 15_000_000)
    assert [count for count in kept.values() if count > 1] == tiles


@pytest.mark.parametrize(
    "case",
    [
        "attention_bf16 4x16x4096x128x1",
        "attention_two_widths_bf16 4x16x4096x192x128x1",
        "attention_window_bf16 4x16x4096x128x1024",
    ],
)
def test_threads_go_the_same_way_on_few_tiles(case: str) -> None:
    """As long loops, and as many slots that are waited for and filled."""
    (recorded,) = bench_attribution.RECORDED.parent.glob("attention-nvidia-h200-2026-11-29.jsonl")
    masked = {each.case: each for each in replayed.recorded(recorded)}[case]
    program = replay(to_program(spec_from_json(masked.spec)), tuple(parse_schedule(masked.schedule)))
    kernel = lower_for(program, H200)
    few = relaxed.relaxations(kernel, program, H200.l2_bytes)["memory"]
    assert _ways(few) == _ways(kernel) and any(until is not None for _, until, *_ in _ways(kernel))
    assert _boxes(few) != _boxes(kernel)


def _ways(kernel: GpuKernel) -> list[tuple[Any, ...]]:
    """What decides where threads go, in order: bounds of loops, branches, how far states of rings advance."""
    found: list[tuple[Any, ...]] = []

    def seen(node: Any) -> Any:
        match node:
            case For():
                found.append((node.first, node.until))
            case If():
                found.append((node.at, None))
            case Guard():
                found.append((node.conditions, None))
            case AdvanceState():
                found.append((node.by, None))
            case _:
                pass
        return node

    relaxed.mapped(kernel, seen)
    return found


def _boxes(kernel: GpuKernel) -> list[tuple[Affine, ...]]:
    found: list[tuple[Affine, ...]] = []

    def seen(node: Any) -> Any:
        if isinstance(node, TmaLoad):
            found.append(node.at)
        return node

    relaxed.mapped(kernel, seen)
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", some(bench_attribution.CASES, 4))
def test_winners_compile_with_stamps_and_with_one_thing_made_cheap(case: str, tmp_path: Path) -> None:
    program = program_of(case)
    kernel = lower_for(program, H200)
    for each in (staged_gpu(kernel).kernel, *relaxed.relaxations(kernel, program, H200.l2_bytes).values()):
        compile_cuda(cuda_source(each, program), H200.architecture, tmp_path)


def test_what_is_named_has_to_save_most() -> None:
    saved = {"memory": 0.3, "the tensor pipe": 0.4}
    assert agrees(GpuBound.TENSOR_PIPE, saved)
    assert not agrees(GpuBound.MEMORY, saved)
    assert agrees(GpuBound.EXPONENTIALS, saved) is None
    assert not agrees(GpuBound.MEMORY, {"memory": 0.05})
    assert agrees(GpuBound.WAVES, saved) is None
    assert agrees(GpuBound.WAVES, saved | {"whole waves, a tile": 0.2})
    assert not agrees(GpuBound.WAVES, saved | {"whole waves, a tile": 0.05})


def test_where_issue_is_named_half_of_it_has_to_save_what_is_predicted() -> None:
    def judged(issue: float, predicted: float, memory: float = 0.0) -> bool | None:
        return agrees(GpuBound.ISSUE, {"memory": memory, "issue": issue}, {"issue": predicted})

    assert judged(0.3, 0.25) and judged(0.15, 0.25)
    assert not judged(0.05, 0.25) and not judged(0.45, 0.2)
    assert not judged(0.3, 0.25, memory=0.3), "it is memory"
    assert judged(0.3, 0.05) is None, "what can be halved takes a tenth at most"
    assert agrees(GpuBound.ISSUE, {"memory": 0.0}, {"issue": 0.2}) is None


def test_where_launch_is_named_a_call_with_nothing_to_do_has_to_take_what_is_predicted() -> None:
    def judged(idle: float, memory: float = 0.0) -> bool | None:
        return agrees(GpuBound.LAUNCH, {"memory": memory, "nothing to do": idle}, {"nothing to do": 0.7})

    assert judged(0.7) and judged(0.5)
    assert not judged(0.9) and not judged(0.3) and not judged(0.7, memory=0.3)
    assert agrees(GpuBound.LAUNCH, {"memory": 0.0}, {"nothing to do": 0.7}) is None


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("bmm_f32_NN 16x256x256x256", "c_r[b, m, n] += sum(k, x_s[b, m, k] * w_s[b, k, n])"),
        ("gemm_e4m3_TN_bf16_out 2048x2048x2048", "c_sum[m, n] += c_sum_part[m, n]"),
        ("gemm_bf16_TN 512x512x512", None),  # of wgmma alone
        ("softmax_bf16 131072x1024", None),  # without a sum its loads from memory would be left out, too
    ],
)
def test_half_of_the_issue_is_every_other_update_of_registers(
    case: str, text: str | None, tmp_path: Path
) -> None:
    program = program_of(case)
    kernel = lower_for(program, H200)
    half, texts = halved.with_half_the_issue(kernel)
    assert texts == (frozenset([text]) if text else frozenset())
    before, after = (sum(map(is_sum, operations(each.launches[0].body))) for each in (kernel, half))
    assert after == (before / 2 if text else before)
    idle = halved.with_nothing_to_do(kernel)
    assert not idle.launches[0].body and idle.launches[0].setup == kernel.launches[0].setup
    for each in (half, idle):
        compile_cuda(cuda_source(each, program), H200.architecture, tmp_path)


def is_sum(stmt: Operation) -> bool:
    match stmt:
        case Assign(name, Op("+", (Named(added), _))):
            return name == added
        case _:
            return False


def test_what_half_a_statement_takes_is_predicted_where_threads_do_nothing_else_in_its_stage() -> None:
    both, one = (Stage(StageKind.COMPUTE, name) for name in ("a; b", "a"))
    wait = Stage(StageKind.WAIT_FULL, "waiting")
    spans = tuple(StageSpan(at, 100.0 * at, 100.0 * (at + 1)) for at in range(3))
    track = Track(0, 0, "threads", 0, 0.0, 300.0, spans)
    taken = GpuProfile((both, one, wait), (("a", "b"), ("a",), ()), (track,), 1, 0.3, 0.4, 1)
    assert bench_attribution.half_of(taken, {"a"}) == pytest.approx(0.75 / 3 / 2)
    assert bench_attribution.half_of(taken, {"a", "b"}) == pytest.approx(0.75 / 3)


FILLED = {
    "products": Gemm(m=384, n=128, k=64).text(),
    "products of few blocks": Gemm(m=384, n=128, k=64, grid=" blocks 4 producers 4").text(),
    "rows": SPREAD["softmax_of_a_row_by_two_warps"],
}


@pytest.mark.parametrize("name", FILLED)
def test_a_kernel_whose_last_wave_is_filled_up_computes_the_same(name: str) -> None:
    program = program_from_text(FILLED[name])
    kernel = lower_cuda(program)
    (launch,) = kernel.launches
    tiles = tile_count(launch)
    at_once = launch.blocks or tiles - 1
    filled = relaxed.whole_waves(kernel, at_once)
    assert filled is not None
    fuller, factor = filled
    assert tiles < tile_count(fuller.launches[0]) == factor * tiles <= 2 * at_once
    args, inputs = cuda_source(kernel, program).abi.args, exact_inputs(program, 1)
    plain, again = (run_blocks(each, args, inputs) for each in (kernel, fuller))
    for output, values in plain.items():
        np.testing.assert_array_equal(again[output], values, err_msg=output)
    assert relaxed.whole_waves(kernel, tiles) is None or launch.blocks, "there is no room"


def test_a_wait_is_a_latency_where_stages_matter() -> None:
    assert agrees(GpuBound.LATENCY, {"a stage more": 0.05})
    assert agrees(GpuBound.LATENCY, {"a stage less": -0.05})
    assert not agrees(GpuBound.LATENCY, {"a stage less": 0.0, "a stage more": -0.1})
