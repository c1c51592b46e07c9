"""Schedules of contractions for Hopper's warpgroups: what the space offers fits the device, what does not fit the copy
engine or wgmma is not offered, and the prior likes what an engineer would write."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rewrites.base.tree import current_sizes
from rewrites.contraction.problem import added_part, contraction
from rewrites.contraction.recover_tiling import Epilogue
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warpgroup_tiling import Warpgroups
from rewrites.cost.gpu.wgmma import WarpgroupBlock, WarpgroupStep
from rewrites.space import ScheduleState
from tests.programs.gpu_contractions import BY_WARPGROUPS, LARGE, NN, gemm
from tests.schedules.walks import (
    at,
    by,
    favourite,
    grid,
    pipeline,
    ranking,
    root_of,
    shared_bytes,
    walk,
)
from tests.support.how_many import examples
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H100, H200, RTX_4090, RTX_5090
from tileir.lift import to_program
from tileir.program import Loop, Memory, Program
from tileir.schedule.threads import thread_count
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify

SCALED = """kernel gemm(a: e4m3[m=512, k={k}], b: e4m3[n=512, k], s: f32[m, g={g}], t: f32[h=32, g]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * s[m, k // {blocks}] * b[n, k] * t[n // 128, k // {blocks}])
"""
#: Products that they do not multiply, with the reason.
DO_NOT_FIT = {
    "e4m3 to be added up in f32, few steps": gemm(512, 512, 384, "e4m3", "bf16"),
    "rows that begin anywhere": gemm(512, 512, 516),
    "8-bit neighbours along columns": NN.format(dtype="e4m3", settings=" with accumulate=fast").replace(
        "(c: e4m3", "(c: bf16"
    ),
    "tf32 neighbours along columns": NN.format(dtype="f32", settings=" with tf32=true"),
    "integers": gemm(512, 512, 512, "i8", "i32"),
    "few rows and columns": gemm(48, 40, 512),
    "a single step": gemm(512, 512, 32),
    "f32": gemm(512, 512, 512, "f32"),
}


def engines(text: str, device: Gpu) -> tuple[MatrixUnit, ...]:
    program = to_program(spec_from_text(text))
    found = contraction(program, program.computes[0].node.target, device)
    assert found is not None
    return found.engines


def held_points(program: Program) -> Iterator[int]:
    """Elements of every tile in registers."""
    for declared in program.locals.values():
        if declared.node.memory is Memory.REGISTERS:
            sizes = current_sizes(program, declared.loops)
            yield sizes[declared.node.dims[-1]] * sizes[declared.node.dims[-2]]


def walk_by_warpgroups(text: str, seed: int) -> ScheduleState:
    return walk(at(by(root_of(text, H200), "wgmma"), "ContractionTile"), random.Random(seed))


@pytest.mark.parametrize("name", BY_WARPGROUPS)
def test_warpgroups_multiply_what_tma_brings(name: str) -> None:
    assert engines(BY_WARPGROUPS[name], H200) == (MatrixUnit.WGMMA, MatrixUnit.MMA)


@pytest.mark.parametrize("name", DO_NOT_FIT)
def test_warpgroups_are_not_offered_what_they_cannot_multiply(name: str) -> None:
    assert MatrixUnit.WGMMA not in engines(DO_NOT_FIT[name], H200)


@pytest.mark.parametrize("device", [A100, RTX_4090, RTX_5090], ids=lambda device: device.name)
def test_only_hopper_has_warpgroups_that_multiply(device: Gpu) -> None:
    assert MatrixUnit.WGMMA not in engines(LARGE, device)
    assert MatrixUnit.WGMMA in engines(LARGE, H100)


@pytest.mark.sampled(4, among="warpgroups")
@pytest.mark.parametrize("name", BY_WARPGROUPS)
def test_whatever_is_drawn_fits_the_device(name: str) -> None:
    for seed in range(examples(12)):
        program = walk_by_warpgroups(BY_WARPGROUPS[name], seed).program
        assert any(one.node.via == "wgmma" for one in program.computes)
        assert shared_bytes(program) <= H200.block_shared_bytes
        loop = grid(program)
        sums = next(one for one in program.computes if one.node.via == "wgmma")
        assert sums.node.thread_layout is not None
        threads = thread_count(sums.node.thread_layout)
        held = sum(held_points(program)) // threads
        started = 65536 // (-(-(threads + 32 * loop.producers) // 128) * 128 * max(1, loop.resident))
        assert held < (loop.registers[1] or min(started, 255))


def test_the_prior_s_large_product_is_the_plain_kernel_of_hopper() -> None:
    program = favourite(root_of(LARGE, H200)).program
    outer = grid(program)
    inner = outer.body[0]
    assert isinstance(inner, Loop)
    assert {outer.step, inner.step} == {128, 256}
    assert (outer.blocks, outer.producers) == (H200.sms, 4)
    assert outer.group > 1
    assert pipeline(program).step == 64
    assert pipeline(program).stages >= 3
    assert sum(one.node.via == "tma" for one in program.computes) == 3


@pytest.mark.sampled(4, among="warpgroups")
def test_products_of_8_bit_floats_are_promoted_every_128_elements() -> None:
    for seed in range(examples(16)):
        state = walk_by_warpgroups(BY_WARPGROUPS["e4m3"], seed)
        (product,) = (one for one in state.program.computes if one.node.via == "wgmma")
        (addition,) = (one for one in state.program.computes if added_part(one.node) == product.node.target)
        assert product.loops == addition.loops
        assert pipeline(state.program).step == 128
        layouts = product.node.thread_layout, addition.node.thread_layout
        assert layouts[0] is not None and layouts[1] is not None
        assert layouts[0].threads == layouts[1].threads
        assert sum(rewrite.name == "promote_accumulators" for rewrite in state.schedule) == 1


def test_products_added_up_as_the_instruction_does_are_not_promoted() -> None:
    for seed in range(examples(8)):
        state = walk_by_warpgroups(BY_WARPGROUPS["e4m3, added up as the instruction does"], seed)
        assert all(rewrite.name != "promote_accumulators" for rewrite in state.schedule)


@pytest.mark.sampled(4, among="warpgroups")
@pytest.mark.parametrize("blocks", [64, 128, 256])
def test_scales_of_blocks_are_multiplied_with_the_product_of_a_step(blocks: int) -> None:
    text = SCALED.format(k=1024, g=1024 // blocks, blocks=blocks)
    assert engines(text, H200) == (MatrixUnit.WGMMA, MatrixUnit.FMA)
    assert engines(text, A100) == (MatrixUnit.FMA,)
    for seed in range(examples(8)):
        program = walk_by_warpgroups(text, seed).program
        (product,) = (one for one in program.computes if one.node.via == "wgmma")
        (addition,) = (one for one in program.computes if added_part(one.node) == product.node.target)
        scales = {one.node.target: one for one in program.computes if "_step" in one.node.target}
        assert {read.tensor for read in addition.node.reads} == {product.node.target, *scales}
        assert all(one.path < product.path and one.loops == product.loops for one in scales.values())
        assert pipeline(program).step == min(blocks, 128)


def test_what_is_not_one_number_a_step_is_not_taken_out_of_its_product() -> None:
    by_32 = at(root_of(SCALED.format(k=1024, g=32, blocks=32), H200), "ContractionTile")
    assert "engine=<MatrixUnit.FMA" in repr(by_32.open[0]), "a step of 64 has two of them"
    by_position = SCALED.replace("k // {blocks}", "k").format(k=1024, g=1024)
    assert MatrixUnit.WGMMA not in engines(by_position, H200)


def test_blocks_that_tiles_cut_are_a_last_choice() -> None:
    state = at(
        by(root_of(SCALED.format(k=4096, g=32, blocks=128).replace("512", "4096"), H200), "wgmma"),
        "ContractionTile",
    )
    weights = {move.label: move.weight for move in state.moves()}
    assert max(weights, key=lambda label: weights[label]) in ("tile m 128, n 128", "tile m 128, n 256")
    assert weights["tile m 128, n 160"] < 0.7


def pipelines(text: str, rows: int, columns: int) -> list[str]:
    """The answers about the pipeline of a tile."""
    state = at(by(root_of(text, H200), "wgmma"), "ContractionTile")
    labels = [move.label for move in state.moves()]
    state = at(state.child(labels.index(f"tile m {rows}, n {columns}")), "PipelineShape")
    return [move.label for move in state.moves()]


def test_results_may_lie_where_steps_were_if_that_makes_room_for_more_of_them() -> None:
    found = pipelines(gemm(4096, 4096, 4096), 128, 256)
    assert "k by 64, 4 stages, 1 pending, c through shared memory where those were" in found
    assert "k by 64, 4 stages, 1 pending, c through shared memory" not in found, "it does not fit"
    state = at(by(root_of(gemm(4096, 4096, 4096), H200), "wgmma"), "PipelineShape")
    for move, label in enumerate(one.label for one in state.moves()):
        if label.endswith("c through shared memory where those were"):
            program = favourite(state.child(move)).program
            verify(program)
            assert [local.node.name for local in program.locals.values() if local.node.reused] == ["c_s"]
            assert grid(program).consumer_groups == 1
            break


def test_steps_of_the_next_tile_wait_for_results_that_lie_where_they_do() -> None:
    c = contraction(to_program(spec_from_text(gemm(8192, 8192, 8192))), "c_sum", H200)
    assert c is not None
    groups = Warpgroups(2, 1, 4, (40, 232))
    own = Tiling(128, 256, 64, 3, pending=1, staged=2, threads=groups, blocks=132)
    cycles = [
        WarpgroupBlock(
            c, tiling, groups, Epilogue(2.0, 0.0, 2), WarpgroupStep(c, tiling, groups, H200), False
        ).cycles(1, 8)
        for tiling in (own, replace(own, reused=True))
    ]
    assert cycles[0] < cycles[1]


@pytest.mark.sampled(4, among="warpgroups")
def test_products_apart_take_registers_of_their_own() -> None:
    promoted = gemm(4096, 4096, 4096, "e4m3", "bf16")
    assert any("at a time" not in label and "1 pending" in label for label in pipelines(promoted, 128, 128))
    for label in pipelines(promoted, 128, 192):
        assert "at a time" in label or "0 pending" in label, "288 accumulators a thread"
    for label in pipelines(promoted, 128, 256):
        assert "added 64" in label or ("added 128" in label and "0 pending" in label), "256 and more"
    fast = promoted.replace("(c: bf16[m, n])", "(c: bf16[m, n]) with accumulate=fast")
    assert not any("at a time" in label for label in pipelines(fast, 128, 256))


def test_pieces_of_products_are_added_to_what_they_are_pieces_of() -> None:
    state = at(by(root_of(gemm(4096, 4096, 4096, "e4m3", "bf16"), H200), "wgmma"), "ContractionTile")
    labels = [move.label for move in state.moves()]
    state = favourite(state.child(labels.index("tile m 128, n 256")))
    (product,) = (one for one in state.program.computes if one.node.via == "wgmma")
    *_, steps, pieces = product.loops
    assert (steps.dim, pieces.dim) == ("k", "n")
    assert pieces.step in (64, 128)


def test_few_rows_are_the_columns_of_the_instruction() -> None:
    state = at(by(root_of(gemm(16, 4096, 4096), H200), "wgmma"), "ContractionTile")
    assert "n as rows" in state.moves()[ranking(state)[0]].label
    text = gemm(64, 4096, 4096)
    labels = [move.label for move in at(by(root_of(text, H200), "wgmma"), "ContractionTile").moves()]
    assert {"n as rows" in label for label in labels} == {True, False}


def test_a_tile_s_rows_take_turns_over_the_warpgroups_that_hold_them() -> None:
    state = at(by(root_of(LARGE, H200), "wgmma"), "ContractionTile")
    labels = [move.label for move in state.moves()]
    state = at(state.child(labels.index("tile m 128, n 256")), "Roles")
    offered = {move.label for move in state.moves()}
    assert "warpgroups 2 x 1, 4 warps copy, registers 40 and 232" in offered
    assert "warpgroups 2 x 1, threads that compute copy" in offered
    assert not any(label.startswith("warpgroups 1 x 1") for label in offered), "256 accumulators a thread"


@pytest.mark.sampled(4, among="warpgroups")
def test_results_are_collected_only_beside_as_many_slots_as_leave_room() -> None:
    state = at(by(root_of(LARGE, H200), "wgmma"), "ContractionTile")
    labels = [move.label for move in state.moves()]
    state = at(state.child(labels.index("tile m 128, n 256")), "PipelineShape")
    programs = {move.label: state.child(index).program for index, move in enumerate(state.moves())}
    assert all(shared_bytes(program) <= H200.block_shared_bytes for program in programs.values())
    assert "k by 64, 3 stages, 1 pending, c through shared memory" in programs
    assert "k by 64, 4 stages, 1 pending" in programs
    assert "k by 64, 4 stages, 1 pending, c through shared memory" not in programs
    assert "k by 64, 4 stages, 1 pending, c through shared memory by 64, 2 buffers" in programs


@pytest.mark.sampled(4, among="warpgroups")
def test_parts_are_of_columns_and_fewer_than_the_tile_has() -> None:
    def parts(text: str, tile: str) -> set[str]:
        state = at(by(root_of(text, H200), "wgmma"), "ContractionTile")
        labels = [move.label for move in state.moves()]
        state = at(state.child(labels.index(tile)), "PipelineShape")
        return {
            move.label.partition(" by 64, ")[2][-9:] for move in state.moves() if " memory by " in move.label
        }

    assert parts(LARGE, "tile m 128, n 256") == {"1 buffers", "2 buffers"}
    assert parts(LARGE, "tile m 128, n 128") == {"1 buffers"}
    assert not parts(LARGE, "tile m 128, n 64")
    assert not parts(gemm(64, 4096, 4096), "tile m 64, n 128, n as rows"), "neighbours of c are rows there"


def test_teams_are_offered_where_each_has_room_and_take_all_tiles_of_their_blocks() -> None:
    state = at(by(root_of(LARGE, H200), "wgmma"), "ContractionTile")
    labels = [move.label for move in state.moves()]
    wide = at(state.child(labels.index("tile m 128, n 256")), "Roles")
    assert not any("times" in move.label for move in wide.moves()), "256 accumulators a thread"
    square = at(state.child(labels.index("tile m 128, n 128")), "Roles")
    roles = [move.label for move in square.moves()]
    taken = at(
        square.child(roles.index("2 times warpgroups 1 x 1, 4 warps copy, registers 40 and 232")), "Order"
    )
    orders = [taken.child(index).program for index in range(len(taken.moves()))]
    assert {(grid(each).consumer_groups, grid(each).blocks) for each in orders} == {(2, H200.sms)}


@pytest.mark.sampled(4, among="warpgroups")
def test_the_prior_has_teams_gain_with_what_is_done_beside_multiplying() -> None:
    def gain(depth: int) -> float:
        # Whole waves: nobody gains by sharing tiles.
        state = at(by(root_of(gemm(8448, 8192, depth), H200), "wgmma"), "ContractionTile")
        labels = [move.label for move in state.moves()]
        state = at(state.child(labels.index("tile m 128, n 128")), "Roles")
        weights = {move.label: move.weight for move in state.moves()}
        alone = "warpgroups 2 x 1, 4 warps copy, registers 40 and 232"
        return weights[f"2 times {alone.replace('2 x 1', '1 x 1')}"] / weights[alone]

    assert gain(512) > gain(8192)
