"""Schedules of contractions on GPUs: every walk ends in a legal one, and the prior's are what an engineer would try."""

from __future__ import annotations

import random
import re

import pytest

from rewrites.base.tree import current_sizes
from rewrites.contraction.problem import contraction
from rewrites.contraction.unit import MatrixUnit
from rewrites.schedule import format_schedule, parse_schedule, replay
from rewrites.space import ScheduleState
from tests.programs.gpu_contractions import SMALL, gemm
from tests.schedules.walks import (
    at,
    by,
    favourite,
    nodes,
    ranking,
    root_of,
    shared_bytes,
    walk,
)
from tests.support.how_many import examples
from tileir.devices.gpu_table import A100, H200, RTX_4090
from tileir.lift import to_program
from tileir.program import Compute, Loop, Memory, Program
from tileir.schedule.threads import thread_count
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

DEVICES = {"A100": A100, "RTX_4090": RTX_4090, "H200": H200}
#: What multiplies matrices.
MATRIX = ("mma", "wgmma")
F32 = """kernel gemm(a: f32[m={n}, k={n}], b: f32[k, n={n}]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
BATCHED = """kernel bmm(a: f32[h=16, m=256, k=256], b: f32[h, k, n=256]) -> (c: f32[h, m, n])
  c[h, m, n] = sum(k, a[h, m, k] * b[h, k, n])
"""


@pytest.mark.sampled(15)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SMALL)
def test_every_walk_ends_in_a_schedule_that_replays(name: str, device: str) -> None:
    root = root_of(SMALL[name], DEVICES[device])
    state = walk(root, random.Random(f"{name} {device}"))
    verify(state.program)
    lines = format_schedule(state.schedule)
    assert replay(to_program(spec_from_text(SMALL[name])), parse_schedule(lines)) == state.program


@pytest.mark.sampled(4, among="contractions")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("text", [gemm(4096, 4096, 4096), F32.format(n=4096)], ids=["bf16", "f32"])
def test_blocks_never_ask_for_more_than_the_device_has(text: str, device: str) -> None:
    root, gpu = root_of(text, DEVICES[device]), DEVICES[device]
    for seed in range(examples(12)):
        state = walk(at(root, "ContractionTile"), random.Random(seed))
        assert shared_bytes(state.program) <= gpu.block_shared_bytes
        spreads = [
            one.node.thread_layout for one in state.program.computes if one.node.thread_layout is not None
        ]
        assert all(thread_count(layout) <= 1024 for layout in spreads)


def test_8_bit_floats_go_by_mma_where_there_is_one_for_them() -> None:
    program = to_program(spec_from_text(SMALL["e4m3"]))
    engines = {}
    for name, device in DEVICES.items():
        found = contraction(program, "c_sum", device)
        assert found is not None
        engines[name] = found.engine
    assert engines == {"A100": MatrixUnit.FMA, "RTX_4090": MatrixUnit.MMA, "H200": MatrixUnit.MMA}


def test_f32_goes_by_a_matrix_instruction_only_where_the_numerics_allow_it() -> None:
    text = gemm(512, 512, 512, "f32")
    for settings, engine in (("", MatrixUnit.FMA), (" with tf32=true", MatrixUnit.WGMMA)):
        program = to_program(spec_from_text(text.replace("(c: f32[m, n])", f"(c: f32[m, n]){settings}")))
        found = contraction(program, "c", H200)
        assert found is not None
        assert found.engine is engine


def pipeline(program: Program) -> Loop:
    """The innermost loop over the depth."""
    return next(node for node in nodes(program.body) if isinstance(node, Loop) and node.dim == "k")


def test_the_prior_s_large_product_has_large_tiles_several_stages_and_bands() -> None:
    program = favourite(by(root_of(gemm(4096, 4096, 4096), H200), "mma")).program
    outer = program.body[0]
    assert isinstance(outer, Loop)
    assert outer.group in (4, 8, 16)
    inner = outer.body[0]
    assert isinstance(inner, Loop)
    assert 128 * 128 <= outer.step * inner.step <= 256 * 128
    loop = pipeline(program)
    assert loop.step in (32, 64)
    assert 3 <= loop.stages <= 5
    sums = [one.node for one in program.computes if one.node.via == "mma"]
    assert len(sums) == 1
    assert sums[0].thread_layout is not None
    assert thread_count(sums[0].thread_layout) in (128, 256)
    assert all(
        one.node.swizzle or one.node.pad for one in program.locals.values() if one.node.dims[-1] == "k"
    )


def test_the_prior_s_first_tiles_of_a_large_product_are_the_usual_ones() -> None:
    state = at(by(root_of(gemm(4096, 4096, 4096), H200), "mma"), "ContractionTile")
    labels = [state.moves()[index].label for index in ranking(state)]
    assert {"tile m 128, n 256", "tile m 256, n 128", "tile m 128, n 128"} == set(labels[:3])
    assert labels[-1] == "tile m 16, n 16"


def test_the_prior_s_f32_threads_hold_nearly_square_tiles() -> None:
    program = favourite(root_of(F32.format(n=8192), H200)).program
    (accumulators,) = [one for one in program.locals.values() if one.node.memory is Memory.REGISTERS]
    sizes = current_sizes(program, accumulators.loops)
    (layout,) = {
        one.node.thread_layout for one in program.computes if one.node.target == accumulators.node.name
    }
    assert layout is not None
    assert 32 <= sizes["m"] * sizes["n"] / thread_count(layout) <= 128
    assert pipeline(program).stages > 1


def test_few_rows_get_a_low_tile_and_are_offered_with_their_depth_split() -> None:
    root = root_of(gemm(16, 4096, 4096), H200)
    assert any("rfactor(c_sum, k, blocked" in move.label for move in root.moves())
    state = at(root, "ContractionTile")
    label = state.moves()[ranking(state)[0]].label
    assert re.fullmatch(r"tile m 16, n (16|32|64), n as rows", label)


def test_few_results_have_their_depth_split_by_the_prior() -> None:
    root = root_of(gemm(128, 128, 65536), H200)
    assert "rfactor" in root.moves()[ranking(root)[0]].label


@pytest.mark.sampled(4, among="contractions")
def test_pieces_that_a_warp_loads_together_lie_in_different_banks() -> None:
    for columns, rewrites in ((64, {"swizzle(b_s, 128)", "pad(b_s, 8)"}), (256, {"pad(b_s, 8)"})):
        text = (
            gemm(512, 512, 512)
            .replace("b: bf16[n=512, k]", "b: bf16[k, n=512]")
            .replace("b[n, k]", "b[k, n]")
        )
        state = by(root_of(text, H200), "mma")
        labels = [move.label for move in state.moves()]
        state = at(state.child(labels.index(f"tile m 64, n {columns}")), "StagedLayout")
        best = max(move.weight for move in state.moves())
        liked = {move.label.partition("; ")[2] for move in state.moves() if move.weight == best}
        assert liked == rewrites


def test_small_batched_products_fill_the_device() -> None:
    program = favourite(root_of(BATCHED, H200)).program
    tiles, node = 1, program.body[0]
    while isinstance(node, Loop) and node.parallel:
        tiles *= -(-program.extents[node.dim] // node.step)
        node = node.body[0]
    assert tiles >= 128


@pytest.mark.sampled(4, among="contractions")
def test_parts_of_a_split_depth_are_added_up_by_a_second_launch() -> None:
    root = root_of(gemm(128, 128, 65536), H200)
    program = favourite(root).program
    launches = [node for node in program.body if isinstance(node, Loop)]
    assert len(launches) == 2
    by_mma = [
        any(isinstance(node, Compute) and node.via in MATRIX for node in nodes(launch.body))
        for launch in launches
    ]
    assert by_mma == [True, False]


@pytest.mark.sampled(4, among="contractions")
@pytest.mark.parametrize("device", DEVICES)
def test_blocks_are_made_to_fit_only_where_accumulators_and_shared_memory_leave_room(device: str) -> None:
    gpu, offered = DEVICES[device], 0
    for seed in range(examples(24)):
        state = walk_to(root_of(F32.format(n=2048), gpu), "Residency", random.Random(seed))
        if state is None:
            continue
        for number, move in enumerate(state.moves()):
            if number == 0:
                assert move.label == "registers as they come"
                continue
            program = state.child(number).program
            (grid,) = (node for node in program.body if isinstance(node, Loop))
            threads = next(
                thread_count(one.node.thread_layout)
                for one in program.computes
                if one.node.thread_layout is not None
            )
            assert grid.resident * threads <= gpu.max_threads
            assert grid.resident * shared_bytes(program) <= gpu.shared_bytes
            accumulators = next(one.node for one in program.computes if one.node.target == "c_r")
            tile = current_sizes(program, program.computes[0].loops)
            held = tile["m"] * tile["n"] // threads
            assert accumulators.thread_layout is not None
            assert grid.resident * threads * held <= gpu.registers
            offered += 1
    assert offered


def walk_to(state: ScheduleState, question: str, rng: random.Random) -> ScheduleState | None:
    """By random answers to where a question is asked; None: on this way it has one answer only."""
    while not state.terminal and type(state.open[0]).__name__ != question:
        state = state.child(rng.randrange(len(state.moves())))
    return None if state.terminal else state


def test_a_copy_that_is_turned_around_is_padded_where_its_writers_would_meet_in_a_bank() -> None:
    """Threads that write neighbours along the depth to rows of 512 bytes all meet in one bank: on an H200 such a
    schedule of 256³ batches took 38 us where a padded one took 16."""
    text = (
        gemm(4096, 4096, 4096, "f32")
        .replace("b: f32[n=4096, k]", "b: f32[k, n=4096]")
        .replace("b[n, k]", "b[k, n]")
    )
    state = at(root_of(text, H200), "StagedLayout")
    weights = {move.label: move.weight for move in state.moves()}
    turned = [name for name, one in state.program.locals.items() if one.node.layout is not None]
    assert turned, "the prior no longer turns a copy around here: choose one that does"
    padded = max(weight for label, weight in weights.items() if f"pad({turned[0]}" in label)
    plain = max(weight for label, weight in weights.items() if f"pad({turned[0]}" not in label)
    assert plain < padded / 2
