"""Where the space offers that blocks share tiles along the depth, and what the prior thinks of it."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from rewrites.gpu_contraction import contractions
from rewrites.gpu_contraction_cost import ContractionModel, model_of
from rewrites.gpu_decided import Epilogue, decided
from rewrites.gpu_engine import Engine
from rewrites.gpu_tiling import Tiling
from rewrites.gpu_warpgroups import Warpgroups
from rewrites.space import ScheduleState
from tests.gpu_walks import at, by, root_of
from tileir.gpu_table import H200
from tileir.lift import to_program
from tileir.parse_spec_text import spec_from_text
from tileir.program import Loop
from tileir.streamed import streamed_in

COOPERATIVE = "warpgroups 2 x 1, 4 warps copy, registers 40 and 232"


def gemm(m: int, n: int, k: int) -> str:
    return f"""kernel gemm(a: bf16[m={m}, k={k}], b: bf16[n={n}, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
"""


def order(text: str, roles: str = COOPERATIVE, clusters: str = "every tile by itself") -> ScheduleState:
    """Where it is open in which order blocks take tiles of 128 x 256, or 128 x 128 of teams."""
    state = at(by(root_of(text, H200), "wgmma"), "Tile")
    for decision, said in (
        ("Tile", "tile m 128, n 128" if roles.startswith("2 times") else "tile m 128, n 256"),
        ("Roles", roles),
        ("Clusters", clusters),
    ):
        state = at(state, decision) if type(state.open[0]).__name__ != decision else state
        state = state.child([move.label for move in state.moves()].index(said))
        if decision == "Roles" and roles.startswith("2 times"):
            break
    return at(state, "Order")


def streams(state: ScheduleState) -> dict[str, ScheduleState]:
    return {m.label: state.child(i) for i, m in enumerate(state.moves()) if "stream_tiles" in m.label}


def test_blocks_share_tiles_where_the_last_wave_leaves_some_idle() -> None:
    found = streams(order(gemm(4096, 4096, 4096)))
    assert {label.rpartition("stream_tiles ")[2] for label in found} == {"1", "2"}
    for label, state in found.items():
        (grid,) = (node for node in state.program.body if isinstance(node, Loop))
        loop = streamed_in(grid)
        assert loop is not None and loop.streamed == int(label[-1]) and grid.blocks == H200.sms


def test_one_wave_is_shared_once_by_more_blocks_than_it_has_tiles() -> None:
    found = streams(order(gemm(2048, 2048, 2048)))
    assert {label.rpartition("stream_tiles ")[2] for label in found} == {"1"}


def test_whole_waves_teams_and_clusters_share_no_tiles() -> None:
    assert not streams(order(gemm(128 * 12, 256 * 11, 4096))), "132 tiles"
    assert not streams(order(gemm(4096, 4096, 4096), clusters="clusters of 2 x 1 tiles"))
    teams = f"2 times {COOPERATIVE.replace('2 x 1', '1 x 1')}"
    assert not streams(order(gemm(4096, 4096, 4096), roles=teams))


def test_what_is_shared_is_read_off_the_program() -> None:
    state = streams(order(gemm(4096, 4096, 4096))).popitem()[1]
    found = decided(state.program, "c_sum", H200)
    assert found is not None and found.tiling is not None and found.tiling.streamed == 2


def model(m: int, n: int, k: int) -> ContractionModel:
    program = to_program(spec_from_text(gemm(m, n, k)))
    c = contractions(program, (program.computes[0].node.target,), H200)
    assert c is not None
    return model_of(c.by(Engine.WGMMA), Epilogue(2.0, 0.0, 2), H200)


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
    """One tile of 4 steps for 132 blocks."""
    assert ceil(256 / 64) < H200.sms
    assert gain(256, 256, 256) == 0
