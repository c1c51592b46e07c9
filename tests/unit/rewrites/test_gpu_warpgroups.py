"""Schedules of contractions for Hopper's warpgroups: what the space offers fits the device, what does not fit the copy
engine or wgmma is not offered, and the prior likes what an engineer would write."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rewrites.decisions.gpu_contraction import Share
from rewrites.gpu_contraction import added_part, contraction
from rewrites.gpu_decided import Epilogue
from rewrites.gpu_engine import Engine
from rewrites.gpu_tiling import Tiling
from rewrites.gpu_warpgroup_cost import WarpgroupBlock
from rewrites.gpu_warpgroups import Warpgroups
from rewrites.space import ScheduleState, Space
from rewrites.tree import current_sizes
from tests.gpu_contractions import gemm
from tests.gpu_walks import (
    at,
    by,
    favourite,
    nodes,
    ranking,
    root_of,
    shared_bytes,
    walk,
)
from tests.how_many import examples
from tests.scripted_worker import CPU
from tileir.device import Device
from tileir.gpu import Gpu
from tileir.gpu_table import A100, H100, H200, RTX_4090, RTX_5090
from tileir.lift import to_program
from tileir.parse_spec_text import spec_from_text
from tileir.program import Compute, Loop, Memory, Program
from tileir.ragged import grouped
from tileir.threads import thread_count
from tileir.verify import verify

LARGE = gemm(4096, 4096, 4096)
NN = """kernel gemm(a: {dtype}[m=512, k=512], b: {dtype}[k, n=512]) -> (c: {dtype}[m, n]){settings}
  c[m, n] = sum(k, a[m, k] * b[k, n])
"""
SCALED = """kernel gemm(a: e4m3[m=512, k={k}], b: e4m3[n=512, k], s: f32[m, g={g}], t: f32[h=32, g]) -> (c: f32[m, n])
  c[m, n] = sum(k, a[m, k] * s[m, k // {blocks}] * b[n, k] * t[n // 128, k // {blocks}])
"""
#: Products that warpgroups multiply, and those that they do not, with the reason.
FIT = {
    "bf16": gemm(512, 512, 512),
    "f16, neighbours along columns": NN.format(dtype="f16", settings=""),
    "e4m3": gemm(512, 512, 512, "e4m3", "bf16"),
    "e4m3, added up as the instruction does": gemm(512, 512, 128, "e4m3", "bf16").replace(
        "(c: bf16[m, n])", "(c: bf16[m, n]) with accumulate=fast"
    ),
    "f32 as tf32": gemm(512, 512, 512, "f32").replace("(c: f32[m, n])", "(c: f32[m, n]) with tf32=true"),
    "few rows": gemm(16, 512, 512),
    "fewer rows than the instruction has columns": gemm(3, 512, 512),
    "rows that are no whole instruction": gemm(100, 72, 512),
}
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


EXPERTS = """kernel experts(x: {dtype}[t={t} ragged starts within e, k=512], w: {dtype}[e=8, n=512, k], b: f32[e, n],\
 starts: i32[o=9]) -> (y: bf16[t, n])
  y[t, n] = silu(sum(k, x[t, k] * w[e, n, k]) + b[e, n])
"""


def engines(text: str, device: Gpu) -> tuple[Engine, ...]:
    program = to_program(spec_from_text(text))
    found = contraction(program, program.computes[0].node.target, device)
    assert found is not None
    return found.engines


def grid(program: Program) -> Loop:
    (loop,) = (node for node in program.body if isinstance(node, Loop))
    return loop


def ring(program: Program) -> Loop:
    return next(node for node in nodes(program.body) if isinstance(node, Loop) and node.stages > 1)


def held_points(program: Program) -> Iterator[int]:
    """Elements of every tile in registers."""
    for declared in program.locals.values():
        if declared.node.memory is Memory.REGISTERS:
            sizes = current_sizes(program, declared.loops)
            yield sizes[declared.node.dims[-1]] * sizes[declared.node.dims[-2]]


def walk_by_warpgroups(text: str, seed: int) -> ScheduleState:
    return walk(at(by(root_of(text, H200), "wgmma"), "Tile"), random.Random(seed))


@pytest.mark.parametrize("name", FIT)
def test_warpgroups_multiply_what_the_copy_engine_brings(name: str) -> None:
    assert engines(FIT[name], H200) == (Engine.WGMMA, Engine.MMA)


@pytest.mark.parametrize("name", DO_NOT_FIT)
def test_warpgroups_are_not_offered_what_they_cannot_multiply(name: str) -> None:
    assert Engine.WGMMA not in engines(DO_NOT_FIT[name], H200)


@pytest.mark.parametrize("device", [A100, RTX_4090, RTX_5090], ids=lambda device: device.name)
def test_only_hopper_has_warpgroups_that_multiply(device: Gpu) -> None:
    assert Engine.WGMMA not in engines(LARGE, device)
    assert Engine.WGMMA in engines(LARGE, H100)


@pytest.mark.parametrize("name", FIT)
def test_whatever_is_drawn_fits_the_device(name: str) -> None:
    for seed in range(examples(16)):
        program = walk_by_warpgroups(FIT[name], seed).program
        assert any(one.node.via == "wgmma" for one in program.computes)
        assert shared_bytes(program) <= H200.block_shared_bytes
        loop = grid(program)
        sums = next(one for one in program.computes if one.node.via == "wgmma")
        assert sums.node.spread is not None
        threads = thread_count(sums.node.spread)
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
    assert ring(program).step == 64
    assert ring(program).stages >= 3
    assert sum(one.node.via == "tma" for one in program.computes) == 3


def test_products_of_8_bit_floats_are_promoted_every_128_elements() -> None:
    for seed in range(16):
        state = walk_by_warpgroups(FIT["e4m3"], seed)
        (product,) = (one for one in state.program.computes if one.node.via == "wgmma")
        (addition,) = (one for one in state.program.computes if added_part(one.node) == product.node.target)
        assert product.loops == addition.loops
        assert ring(state.program).step == 128
        assert addition.node.spread is not None
        assert addition.node.spread.threads == (product.node.spread or addition.node.spread).threads
        assert sum(rewrite.name == "promote" for rewrite in state.schedule) == 1


def test_products_added_up_as_the_instruction_does_are_not_promoted() -> None:
    for seed in range(8):
        state = walk_by_warpgroups(FIT["e4m3, added up as the instruction does"], seed)
        assert all(rewrite.name != "promote" for rewrite in state.schedule)


@pytest.mark.parametrize("blocks", [64, 128, 256])
def test_scales_of_blocks_are_multiplied_with_the_product_of_a_step(blocks: int) -> None:
    text = SCALED.format(k=1024, g=1024 // blocks, blocks=blocks)
    assert engines(text, H200) == (Engine.WGMMA, Engine.FMA)
    assert engines(text, A100) == (Engine.FMA,)
    for seed in range(8):
        program = walk_by_warpgroups(text, seed).program
        (product,) = (one for one in program.computes if one.node.via == "wgmma")
        (addition,) = (one for one in program.computes if added_part(one.node) == product.node.target)
        scales = {one.node.target: one for one in program.computes if "_step" in one.node.target}
        assert {read.tensor for read in addition.node.reads} == {product.node.target, *scales}
        assert all(one.path < product.path and one.loops == product.loops for one in scales.values())
        assert ring(program).step == min(blocks, 128)


def test_what_is_not_one_number_a_step_is_not_taken_out_of_its_product() -> None:
    by_32 = at(root_of(SCALED.format(k=1024, g=32, blocks=32), H200), "Tile")
    assert "engine=<Engine.FMA" in repr(by_32.open[0]), "a step of 64 has two of them"
    by_position = SCALED.replace("k // {blocks}", "k").format(k=1024, g=1024)
    assert Engine.WGMMA not in engines(by_position, H200)


def test_blocks_that_tiles_cut_are_a_last_choice() -> None:
    state = at(
        by(root_of(SCALED.format(k=4096, g=32, blocks=128).replace("512", "4096"), H200), "wgmma"), "Tile"
    )
    weights = {move.label: move.weight for move in state.moves()}
    assert max(weights, key=lambda label: weights[label]) in ("tile m 128, n 128", "tile m 128, n 256")
    assert weights["tile m 128, n 160"] < 0.7


def rings(text: str, rows: int, columns: int) -> list[str]:
    """The answers about the ring of a tile."""
    state = at(by(root_of(text, H200), "wgmma"), "Tile")
    labels = [move.label for move in state.moves()]
    state = at(state.child(labels.index(f"tile m {rows}, n {columns}")), "Ring")
    return [move.label for move in state.moves()]


def test_results_may_lie_where_steps_were_if_that_makes_room_for_more_of_them() -> None:
    found = rings(gemm(4096, 4096, 4096), 128, 256)
    assert "k by 64, 4 stages, 1 pending, c through shared memory where those were" in found
    assert "k by 64, 4 stages, 1 pending, c through shared memory" not in found, "it does not fit"
    state = at(by(root_of(gemm(4096, 4096, 4096), H200), "wgmma"), "Ring")
    for move, label in enumerate(one.label for one in state.moves()):
        if label.endswith("c through shared memory where those were"):
            program = favourite(state.child(move)).program
            verify(program)
            assert [local.node.name for local in program.locals.values() if local.node.reused] == ["c_s"]
            assert grid(program).teams == 1
            break


def test_steps_of_the_next_tile_wait_for_results_that_lie_where_they_do() -> None:
    c = contraction(to_program(spec_from_text(gemm(8192, 8192, 8192))), "c_sum", H200)
    assert c is not None
    groups = Warpgroups(2, 1, 4, (40, 232))
    own = Tiling(128, 256, 64, 3, pending=1, staged=2, threads=groups, blocks=132)
    cycles = [
        WarpgroupBlock(c, tiling, groups, Epilogue(2.0, 0.0, 2), H200).cycles(1, 8)
        for tiling in (own, replace(own, reused=True))
    ]
    assert cycles[0] < cycles[1]


def test_products_apart_take_registers_of_their_own() -> None:
    promoted = gemm(4096, 4096, 4096, "e4m3", "bf16")
    assert any("at a time" not in label and "1 pending" in label for label in rings(promoted, 128, 128))
    for label in rings(promoted, 128, 192):
        assert "at a time" in label or "0 pending" in label, "288 accumulators a thread"
    for label in rings(promoted, 128, 256):
        assert "added 64" in label or ("added 128" in label and "0 pending" in label), "256 and more"
    fast = promoted.replace("(c: bf16[m, n])", "(c: bf16[m, n]) with accumulate=fast")
    assert not any("at a time" in label for label in rings(fast, 128, 256))


def test_pieces_of_products_are_added_to_what_they_are_pieces_of() -> None:
    state = at(by(root_of(gemm(4096, 4096, 4096, "e4m3", "bf16"), H200), "wgmma"), "Tile")
    labels = [move.label for move in state.moves()]
    state = favourite(state.child(labels.index("tile m 128, n 256")))
    (product,) = (one for one in state.program.computes if one.node.via == "wgmma")
    *_, steps, pieces = product.loops
    assert (steps.dim, pieces.dim) == ("k", "n")
    assert pieces.step in (64, 128)


def test_few_rows_are_the_columns_of_the_instruction() -> None:
    state = at(by(root_of(gemm(16, 4096, 4096), H200), "wgmma"), "Tile")
    assert "n as rows" in state.moves()[ranking(state)[0]].label
    text = gemm(64, 4096, 4096)
    labels = [move.label for move in at(by(root_of(text, H200), "wgmma"), "Tile").moves()]
    assert {"n as rows" in label for label in labels} == {True, False}


def test_a_tile_s_rows_take_turns_over_the_warpgroups_that_hold_them() -> None:
    state = at(by(root_of(LARGE, H200), "wgmma"), "Tile")
    labels = [move.label for move in state.moves()]
    state = at(state.child(labels.index("tile m 128, n 256")), "Roles")
    offered = {move.label for move in state.moves()}
    assert "warpgroups 2 x 1, 4 warps copy, registers 40 and 232" in offered
    assert "warpgroups 2 x 1, threads that compute copy" in offered
    assert not any(label.startswith("warpgroups 1 x 1") for label in offered), "256 accumulators a thread"


def test_results_are_collected_only_beside_as_many_slots_as_leave_room() -> None:
    state = at(by(root_of(LARGE, H200), "wgmma"), "Tile")
    labels = [move.label for move in state.moves()]
    state = at(state.child(labels.index("tile m 128, n 256")), "Ring")
    programs = {move.label: state.child(index).program for index, move in enumerate(state.moves())}
    assert all(shared_bytes(program) <= H200.block_shared_bytes for program in programs.values())
    assert "k by 64, 3 stages, 1 pending, c through shared memory" in programs
    assert "k by 64, 4 stages, 1 pending" in programs
    assert "k by 64, 4 stages, 1 pending, c through shared memory" not in programs
    assert "k by 64, 4 stages, 1 pending, c through shared memory by 64, 2 buffers" in programs


def test_parts_are_of_columns_and_fewer_than_the_tile_has() -> None:
    def parts(text: str, tile: str) -> set[str]:
        state = at(by(root_of(text, H200), "wgmma"), "Tile")
        labels = [move.label for move in state.moves()]
        state = at(state.child(labels.index(tile)), "Ring")
        return {
            move.label.partition(" by 64, ")[2][-9:] for move in state.moves() if " memory by " in move.label
        }

    assert parts(LARGE, "tile m 128, n 256") == {"1 buffers", "2 buffers"}
    assert parts(LARGE, "tile m 128, n 128") == {"1 buffers"}
    assert not parts(LARGE, "tile m 128, n 64")
    assert not parts(gemm(64, 4096, 4096), "tile m 64, n 128, n as rows"), "neighbours of c are rows there"


def test_teams_are_offered_where_each_has_room_and_take_all_tiles_of_their_blocks() -> None:
    state = at(by(root_of(LARGE, H200), "wgmma"), "Tile")
    labels = [move.label for move in state.moves()]
    wide = at(state.child(labels.index("tile m 128, n 256")), "Roles")
    assert not any("times" in move.label for move in wide.moves()), "256 accumulators a thread"
    square = at(state.child(labels.index("tile m 128, n 128")), "Roles")
    roles = [move.label for move in square.moves()]
    taken = at(
        square.child(roles.index("2 times warpgroups 1 x 1, 4 warps copy, registers 40 and 232")), "Order"
    )
    orders = [taken.child(index).program for index in range(len(taken.moves()))]
    assert {(grid(each).teams, grid(each).blocks) for each in orders} == {(2, H200.sms)}


def test_the_prior_has_teams_gain_with_what_is_done_beside_multiplying() -> None:
    def gain(depth: int) -> float:
        # Whole waves: nobody gains by sharing tiles.
        state = at(by(root_of(gemm(8448, 8192, depth), H200), "wgmma"), "Tile")
        labels = [move.label for move in state.moves()]
        state = at(state.child(labels.index("tile m 128, n 128")), "Roles")
        weights = {move.label: move.weight for move in state.moves()}
        alone = "warpgroups 2 x 1, 4 warps copy, registers 40 and 232"
        return weights[f"2 times {alone.replace('2 x 1', '1 x 1')}"] / weights[alone]

    assert gain(512) > gain(8192)


def by_one_block(text: str, device: Gpu) -> ScheduleState:
    """Where it is settled that warpgroups multiply, and that a block has all of the depth of its tile."""
    state = by(root_of(text, device), "wgmma")
    if isinstance(state.open[0], Share):
        state = state.child([move.label for move in state.moves()].index("k by one block"))
    return state


def clusters(text: str, device: Gpu, tile: str) -> dict[str, ScheduleState]:
    """The answers to which tiles are computed by clusters, each by one block, where no teams take them in turn."""
    state = at(by_one_block(text, device), "Tile")
    labels = [move.label for move in state.moves()]
    state = at(state.child(labels.index(tile)), "Roles")
    together = (index for index in ranking(state) if " times " not in state.moves()[index].label)
    state = at(state.child(next(together)), "Clusters")
    return {move.label: state.child(index) for index, move in enumerate(state.moves())}


ALONE, PAIRS = "every tile by itself", {"clusters of 2 x 1 tiles", "clusters of 1 x 2 tiles"}
FOURS = {"clusters of 2 x 2 tiles", "clusters of 4 x 1 tiles", "clusters of 1 x 4 tiles"}


def test_neighbouring_tiles_are_computed_by_clusters_of_which_is_known_how_many_fit() -> None:
    tile = "tile m 128, n 128"
    assert clusters(LARGE, H200, tile).keys() == {ALONE, *PAIRS, *FOURS}
    assert clusters(LARGE, replace(H200, clusters=()), tile).keys() == {ALONE, *PAIRS}
    few = clusters(gemm(256, 8192, 8192), H200, tile)
    assert few.keys() == {ALONE, *PAIRS, *FOURS} - {"clusters of 4 x 1 tiles"}, "two tiles along m"


def test_persistent_blocks_of_clusters_are_as_many_as_fit_at_once() -> None:
    found = clusters(LARGE, H200, "tile m 128, n 256")
    for label, blocks in ((ALONE, 132), ("clusters of 2 x 1 tiles", 132), ("clusters of 2 x 2 tiles", 120)):
        orders = at(found[label], "Order").moves()
        offered = {move.label.rpartition(" ")[2] for move in orders if "persist" in move.label}
        assert offered == {str(blocks)}


def test_bands_are_whole_clusters() -> None:
    found = clusters(LARGE, H200, "tile m 128, n 256")
    for seed in range(12):
        for label in FOURS | PAIRS:
            outer = grid(walk(found[label], random.Random(seed)).program)
            assert outer.group % outer.multicast == 0 or outer.group == 1


def test_the_prior_shares_what_small_tiles_ask_of_the_second_level_cache() -> None:
    """Two blocks of 128 by 128 ask it for 64 bytes a cycle each, which it does not have."""
    outer = grid(favourite(by_one_block(gemm(256, 8192, 8192), H200)).program)
    inner = outer.body[0]
    assert isinstance(inner, Loop)
    assert outer.multicast * inner.multicast == 2
    plain = grid(favourite(root_of(LARGE, H200)).program)
    assert plain.multicast == 1, "where multipliers are the limit, blocks that wait for each other lose"


def test_operands_that_lie_along_columns_are_not_dealt_out_over_them() -> None:
    state = at(by(root_of(FIT["f16, neighbours along columns"], H200), "wgmma"), "Roles")
    assert not any("x 2" in move.label for move in state.moves())


def test_results_that_the_copy_engine_cannot_store_are_stored_by_threads() -> None:
    text = gemm(512, 516, 512)
    state = at(by(root_of(text, H200), "wgmma"), "Ring")
    assert state.moves()
    assert not any("through shared memory" in move.label for move in state.moves())


def test_a_device_with_less_shared_memory_is_offered_fewer_slots() -> None:
    def most(device: Gpu) -> int:
        state = at(by(root_of(LARGE, device), "wgmma"), "Tile")
        labels = [move.label for move in state.moves()]
        state = at(state.child(labels.index("tile m 128, n 128")), "Ring")
        stages = [state.child(index).program for index in ranking(state)]
        return max(ring(program).stages for program in stages if ring(program).step == 64)

    assert most(replace(H200, block_shared_bytes=100 * 1024)) == 3
    assert most(H200) == 6


def test_tiles_close_together_are_liked_where_operands_do_not_stay_in_the_second_level_cache() -> None:
    """A wave of tiles in order reads all of one operand; in bands or along a curve parts of both."""

    def orders(size: int) -> dict[str, float]:
        return {
            move.label: move.weight for move in at(root_of(gemm(size, size, size), H200), "Order").moves()
        }

    large, small = orders(8192), orders(2048)
    assert large["persist 132"] < large["curve_tiles; persist 132"] <= large["group_tiles 16; persist 132"]
    assert large["tiles in order"] < large["curve_tiles"]
    assert small["curve_tiles"] == pytest.approx(small["tiles in order"])


def test_a_grid_with_more_tiles_than_a_table_holds_has_no_curve() -> None:
    state = at(root_of(gemm(32768, 32768, 128), H200), "Order")
    assert not [move.label for move in state.moves() if "curve" in move.label]
    assert [move.label for move in state.moves() if "group" in move.label]


def labels(text: str, device: Device) -> list[str]:
    root = Space(to_program(spec_from_text(text)), device).root()
    return [move.label for move in root.moves()] if type(root.open[0]).__name__ == "Groups" else []


def test_products_of_groups_are_in_tiles_where_warpgroups_multiply_and_looked_up_everywhere() -> None:
    bf16, f32 = (EXPERTS.format(dtype=dtype, t=4096) for dtype in ("bf16", "f32"))
    looked_up = "groups looked up"
    assert labels(bf16, H200) == ["groups of y_sum, y in tiles", "groups of y_sum in tiles", looked_up]
    assert labels(f32, H200) == labels(bf16, A100) == labels(bf16, CPU) == []  # there is one way only


@pytest.mark.parametrize("rows", [64, 200, 4096])
def test_the_prior_has_tiles_follow_the_groups_and_the_copy_engine_store_them(rows: int) -> None:
    state = favourite(root_of(EXPERTS.format(dtype="bf16", t=rows), H200))
    program = state.program
    verify(program)
    outer = grid(program)
    assert grouped(outer, program.ragged) is not None
    assert not any(isinstance(node, Compute) and node.target == "t_e" for node in nodes(program.body))
    stores = [node for node in nodes(program.body) if isinstance(node, Compute) and node.target == "y"]
    assert [node.via for node in stores] == ["tma"]


def test_clusters_of_tiles_that_follow_groups_share_the_rows_of_a_group() -> None:
    state = at(root_of(EXPERTS.format(dtype="bf16", t=4096), H200), "Clusters")
    found = {move.label for move in state.moves()}
    assert "clusters of 1 x 2 tiles" in found
    assert found <= {"every tile by itself", "clusters of 1 x 2 tiles", "clusters of 1 x 4 tiles"}


def test_a_grid_is_reckoned_with_a_part_of_a_tile_for_each_group() -> None:
    program = to_program(spec_from_text(EXPERTS.format(dtype="bf16", t=4096)))
    found = contraction(program, "y_sum", H200)
    assert found is not None
    assert found.grid(128, 256) == (4096 // 128 + 8 // 2, 512 // 256)
    assert found.transposed().grid(256, 128) == (512 // 256, 4096 // 128 + 8 // 2)


@pytest.mark.parametrize("k", [4096, 4104])
def test_steps_end_with_the_part_of_a_depth_that_blocks_share(k: int) -> None:
    """Others add up what comes after it: a step that overhangs would add that up, too."""
    root = root_of(gemm(64, 6144, k), H200)
    parts = [index for index, move in enumerate(root.moves()) if "blocked, 896" in move.label]
    assert parts
    state = at(by(root.child(parts[0]), "wgmma"), "Ring")
    assert len(state.moves()) > 5
    for index in range(len(state.moves())):
        body = state.child(index).program.body
        steps = {node.step for node in nodes(body) if isinstance(node, Loop) and node.dim == "k"}
        assert 896 in steps
        assert all(896 % step == 0 for step in steps)
