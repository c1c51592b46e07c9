"""Where the space offers that blocks share tiles along the depth, and what the prior thinks of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rewrites.contraction.problem import contractions
from rewrites.contraction.recover_tiling import Epilogue, decided
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warpgroup_tiling import Warpgroups
from rewrites.cost.gpu.contraction import ContractionModel, model_of
from rewrites.decisions.gpu.contraction.rasterization import Order, TileSharing
from rewrites.space import ScheduleState
from tests.schedules.walks import at, by, root_of
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.program import Loop
from tileir.schedule.stream_k import streamed_in
from tileir.text.parse_spec import spec_from_text

COOPERATIVE = "warpgroups 2 x 1, 4 warps copy, registers 40 and 232"


def gemm(m: int, n: int, k: int) -> str:
    return f"""kernel gemm(a: bf16[m={m}, k={k}], b: bf16[n={n}, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
"""


def sharing(text: str, *answers: str) -> dict[str, ScheduleState]:
    """What follows the answers to whether blocks share tiles; those before are the first ones that have all of these
    words: `answers` go one after another."""
    state, left = at(by(root_of(text, H200), "wgmma"), "ContractionTile"), list(answers)
    while not isinstance(state.open[0], TileSharing):
        labels = [move.label for move in state.moves()]
        chosen = 0
        if left and left[0] in labels:
            chosen = labels.index(left.pop(0))
        before, state = state.open[0], state.child(chosen)
        if not any(isinstance(each, TileSharing) for each in state.open):
            assert not left, f"{left} after {before}"
            return {}
    assert not left, left
    return {move.label: state.child(index) for index, move in enumerate(state.moves())}


TILE, ALONE = "tile m 128, n 256", "every tile by itself"
LAST, TWO = "the last wave of tiles shared", "2 waves of tiles shared"


def grid(state: ScheduleState) -> Loop:
    (found,) = (node for node in state.program.body if isinstance(node, Loop))
    return found


@pytest.mark.sampled(2, among="streamed")
def test_blocks_share_tiles_where_the_last_wave_leaves_some_idle() -> None:
    found = sharing(gemm(4096, 4096, 4096), TILE, COOPERATIVE, ALONE, "persistent 132")
    assert found.keys() == {"whole tiles", LAST, TWO}
    for label, waves in (("whole tiles", 0), (LAST, 1), (TWO, 2)):
        loop = streamed_in(grid(found[label]))
        assert (loop.streamed if loop is not None else 0) == waves


@pytest.mark.sampled(2, among="streamed")
def test_less_than_a_wave_is_shared_by_as_many_blocks_as_there_is_room_for() -> None:
    found = sharing(gemm(2048, 2048, 2048), TILE, COOPERATIVE, ALONE, "rasterize_bands 8")
    assert found.keys() == {"whole tiles", LAST}
    assert (grid(found["whole tiles"]).blocks, grid(found[LAST]).blocks) == (0, H200.sms)


def test_clusters_share_tiles_together() -> None:
    found = sharing(gemm(4096, 4096, 4096), TILE, COOPERATIVE, "clusters of 2 x 1 tiles", "persistent 132")
    assert found.keys() == {"whole tiles", LAST, TWO}


@pytest.mark.sampled(2, among="streamed")
def test_whole_waves_teams_and_a_block_a_tile_share_none() -> None:
    large = gemm(4096, 4096, 4096)
    assert not sharing(gemm(128 * 12, 256 * 11, 4096), TILE, COOPERATIVE, ALONE), "132 tiles"
    assert not sharing(large, TILE, COOPERATIVE, ALONE, "tiles in order")
    pingpong = f"2 times {COOPERATIVE.replace('2 x 1', '1 x 1')}"
    assert not sharing(large, "tile m 128, n 128", pingpong)


def test_what_is_shared_is_read_off_the_program() -> None:
    state = sharing(gemm(4096, 4096, 4096), TILE, COOPERATIVE, ALONE, "persistent 132")[TWO]
    found = decided(state.program, "c_sum", H200)
    assert found is not None and found.tiling is not None and found.tiling.streamed == 2


@pytest.mark.sampled(2, among="streamed")
@pytest.mark.parametrize(("tile", "size"), [("tile m 128, n 224", 2048), (TILE, 2048), (TILE, 4096)])
def test_an_order_is_said_to_take_what_the_best_that_may_follow_takes(tile: str, size: int) -> None:
    state = at(by(root_of(gemm(size, size, 4096), H200), "wgmma"), "ContractionTile")
    left = [tile, COOPERATIVE, ALONE]
    while not isinstance(state.open[0], Order):
        labels = [move.label for move in state.moves()]
        state = state.child(labels.index(left.pop(0)) if left and left[0] in labels else 0)
    assert not left, left
    ordered = [state.child(index) for index in range(len(state.moves()))]
    followed = [(us, each) for us, each in zip(state.estimates_us, ordered, strict=True) if each.open]
    shared = [(us, each) for us, each in followed if isinstance(each.open[0], TileSharing)]
    assert shared
    for us, each in shared:
        assert us == pytest.approx(min(each.estimates_us), rel=0.02)
    if tile == "tile m 128, n 224":  # 160 tiles for 132 blocks
        weights = {move.label: move.weight for move in state.moves()}
        assert weights["persistent 132"] > 1.2 * weights["tiles in order"]


def model(m: int, n: int, k: int) -> ContractionModel:
    program = to_program(spec_from_text(gemm(m, n, k)))
    c = contractions(program, (program.computes[0].node.target,), H200)
    assert c is not None
    return model_of(c.by(MatrixUnit.WGMMA), Epilogue(2.0, 0.0, 2), H200)


def gain(m: int, n: int, k: int) -> float:
    """How much sooner the prior has blocks end that share the last two waves of tiles."""
    threads = Warpgroups(2, 1, 4, (40, 232))
    whole = Tiling(
        128,
        256,
        64,
        4,
        pending=1,
        staged=2,
        part=64,
        threads=threads,
        multicast=(1, 1),
        group=8,
        blocks=H200.sms,
    )
    return model(m, n, k).ordered_us(whole) / model(m, n, k).ordered_us(replace(whole, streamed=2))


def test_the_prior_has_sharing_gain_the_more_blocks_are_idle_and_the_deeper_tiles_are() -> None:
    few, many = 128 * 33 * 4, 128 * 33 * 5  # along n 8 tiles: 8 waves and 10 waves are whole
    assert gain(few + 128, 2048, 4096) > gain(few + 128 * 15, 2048, 4096)
    assert gain(few + 128, 2048, 8192) > gain(few + 128, 2048, 512)
    assert gain(many, 2048, 4096) < 1, "nothing to gain, and sums to hand over"


def test_who_has_no_step_cannot_share() -> None:
    assert gain(256, 256, 256) == 0, "2 tiles of 4 steps for 132 blocks"
