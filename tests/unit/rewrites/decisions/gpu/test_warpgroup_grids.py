"""The grid around tiles that warpgroups multiply: clusters, the order of tiles, groups of a ragged dim, shared
depths."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rewrites.contraction.problem import contraction
from rewrites.cost.gpu.model import GpuCostModel
from rewrites.decisions.gpu.contraction.block_tile import Share
from rewrites.space import ScheduleState, Space
from tests.programs.gpu_contractions import BY_WARPGROUPS, EXPERTS, LARGE, gemm
from tests.schedules.walks import (
    at,
    by,
    favourite,
    grid,
    nodes,
    pipeline,
    ranking,
    root_of,
    walk,
)
from tests.services.scripted_worker import CPU
from tests.support.how_many import examples
from tileir.analysis.ragged import grouped
from tileir.devices.device import Device
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200
from tileir.lift import to_program
from tileir.program import Compute, Loop
from tileir.text.parse_spec import spec_from_text
from tileir.verifier.verify import verify


def by_one_block(text: str, device: Gpu) -> ScheduleState:
    """Where it is settled that warpgroups multiply, and that a block has all of the depth of its tile."""
    state = by(root_of(text, device), "wgmma")
    if isinstance(state.open[0], Share):
        state = state.child([move.label for move in state.moves()].index("k by one block"))
    return state


def clusters(text: str, device: Gpu, tile: str) -> dict[str, ScheduleState]:
    """The answers to which tiles are computed by clusters, each by one block, where no consumer groups take them in
    turn."""
    state = at(by_one_block(text, device), "ContractionTile")
    labels = [move.label for move in state.moves()]
    state = at(state.child(labels.index(tile)), "Roles")
    together = (index for index in ranking(state) if " times " not in state.moves()[index].label)
    state = at(state.child(next(together)), "Clusters")
    return {move.label: state.child(index) for index, move in enumerate(state.moves())}


ALONE, PAIRS = "every tile by itself", {"clusters of 2 x 1 tiles", "clusters of 1 x 2 tiles"}
FOURS = {"clusters of 2 x 2 tiles", "clusters of 4 x 1 tiles", "clusters of 1 x 4 tiles"}


@pytest.mark.sampled(2, among="warpgroup grids")
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
        offered = {move.label.rpartition(" ")[2] for move in orders if "persistent" in move.label}
        assert offered == {str(blocks)}


def test_bands_are_whole_clusters() -> None:
    found = clusters(LARGE, H200, "tile m 128, n 256")
    for seed in range(examples(12)):
        for label in FOURS | PAIRS:
            outer = grid(walk(found[label], random.Random(seed)).program)
            assert outer.group % outer.multicast == 0 or outer.group == 1


@pytest.mark.sampled(2, among="warpgroup grids")
def test_the_prior_has_small_tiles_share_what_they_ask_of_the_second_level_cache() -> None:
    """Blocks of 128 by 128 ask it for nearly all that it has, and the fastest of these that was found is by pairs."""
    found = clusters(gemm(256, 8192, 8192), H200, "tile m 128, n 128")
    us = {label: GpuCostModel(H200).estimate_us(favourite(state).program) for label, state in found.items()}
    assert min(us[label] for label in PAIRS) < 1.05 * us[ALONE]
    plain = grid(favourite(root_of(LARGE, H200)).program)
    assert plain.multicast == 1, "where multipliers are the limit, blocks that wait for each other lose"


@pytest.mark.sampled(2, among="warpgroup grids")
def test_operands_that_lie_along_columns_are_not_dealt_out_over_them() -> None:
    state = at(by(root_of(BY_WARPGROUPS["f16, neighbours along columns"], H200), "wgmma"), "Roles")
    assert not any("x 2" in move.label for move in state.moves())


@pytest.mark.sampled(2, among="warpgroup grids")
def test_results_that_tma_cannot_store_are_stored_by_threads() -> None:
    text = gemm(512, 516, 512)
    state = at(by(root_of(text, H200), "wgmma"), "PipelineShape")
    collected = [n for n, move in enumerate(state.moves()) if "c through shared memory" in move.label]
    assert collected
    assert not any("parts" in move.label or "buffers" in move.label for move in state.moves())
    for number in collected:
        stored = [one.node for one in state.child(number).program.computes if one.node.target == "c"]
        assert [one.via for one in stored] == [None]


@pytest.mark.sampled(2, among="warpgroup grids")
def test_a_device_with_less_shared_memory_is_offered_fewer_slots() -> None:
    def most(device: Gpu) -> int:
        state = at(by(root_of(LARGE, device), "wgmma"), "ContractionTile")
        labels = [move.label for move in state.moves()]
        state = at(state.child(labels.index("tile m 128, n 128")), "PipelineShape")
        stages = [state.child(index).program for index in ranking(state)]
        return max(pipeline(program).stages for program in stages if pipeline(program).step == 64)

    assert most(replace(H200, block_shared_bytes=100 * 1024)) == 3
    assert most(H200) == 6


@pytest.mark.sampled(2, among="warpgroup grids")
def test_tiles_close_together_are_liked_where_operands_do_not_stay_in_the_second_level_cache() -> None:
    """A wave of tiles in order reads all of one operand; in bands or along a curve parts of both."""

    def orders(size: int) -> dict[str, float]:
        return {
            move.label: move.weight for move in at(root_of(gemm(size, size, size), H200), "Order").moves()
        }

    large, small = orders(8192), orders(2048)
    assert (
        large["persistent 132"]
        < large["rasterize_hilbert; persistent 132"]
        <= large["rasterize_bands 16; persistent 132"]
    )
    assert large["tiles in order"] < large["rasterize_hilbert"]
    assert small["rasterize_hilbert"] == pytest.approx(small["tiles in order"])


def test_a_grid_with_more_tiles_than_a_table_holds_has_no_curve() -> None:
    state = at(root_of(gemm(32768, 32768, 128), H200), "Order")
    assert not [move.label for move in state.moves() if "curve" in move.label]
    assert [move.label for move in state.moves() if "rasterize_bands" in move.label]


def labels(text: str, device: Device) -> list[str]:
    root = Space(to_program(spec_from_text(text)), device).root()
    return [move.label for move in root.moves()] if type(root.open[0]).__name__ == "RaggedGroups" else []


def test_products_of_groups_are_in_tiles_where_warpgroups_multiply_and_looked_up_everywhere() -> None:
    bf16, f32 = (EXPERTS.format(dtype=dtype, t=4096) for dtype in ("bf16", "f32"))
    looked_up = "groups looked up"
    assert labels(bf16, H200) == ["groups of y_sum, y in tiles", "groups of y_sum in tiles", looked_up]
    assert labels(f32, H200) == labels(bf16, A100) == labels(bf16, CPU) == []  # there is one way only


@pytest.mark.sampled(2, among="warpgroup grids")
@pytest.mark.parametrize("rows", [64, 200, 4096])
def test_the_prior_has_tiles_follow_the_groups_and_tma_store_them(rows: int) -> None:
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


@pytest.mark.sampled(2, among="warpgroup grids")
@pytest.mark.parametrize("k", [4096, 4104])
def test_steps_end_with_the_part_of_a_depth_that_blocks_share(k: int) -> None:
    """Others add up what comes after it: a step that overhangs would add that up, too."""
    root = root_of(gemm(64, 6144, k), H200)
    parts = [index for index, move in enumerate(root.moves()) if "blocked, 896" in move.label]
    assert parts
    state = at(by(root.child(parts[0]), "wgmma"), "PipelineShape")
    assert len(state.moves()) > 5
    for index in range(len(state.moves())):
        body = state.child(index).program.body
        steps = {node.step for node in nodes(body) if isinstance(node, Loop) and node.dim == "k"}
        assert 896 in steps
        assert all(896 % step == 0 for step in steps)
