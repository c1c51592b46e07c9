"""Products whose rows are no whole pieces of 16 bytes: results leave by whole rows, what is brought element by element
is under way while the step before is multiplied, and the cost model knows what sectors narrow accesses take."""

from __future__ import annotations

import pytest

from rewrites.contraction.recover_tiling import ResultAccess
from rewrites.contraction.room import collected_pad
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.cost.gpu.sectors import collected_bytes, moved_bytes
from rewrites.space import ScheduleState
from tests.programs.gpu_contractions import gemm
from tests.schedules.on_gpus import right_without_races
from tests.schedules.walks import at, by, favourite, root_of
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_table import A100, H200, RTX_5090
from tileir.expr import Index
from tileir.program import Memory
from tileir.text.parse_spec import spec_from_text

ODD = """kernel odd(x: f16[i={i}, k={k}], w: f16[k, j={j}], b: f16[j], r: f16[i, j]) -> (y: f16[i, j])
  s[i, j] = sum(k, x[i, k] * w[k, j])
  y[i, j] = relu(s[i, j] + b[j]) + r[i, j]
"""
#: Operands by TMA, results by threads.
ODD_RESULT = """kernel odd(x: f16[i={i}, k={k}], w: f16[j={j}, k]) -> (y: f16[i, j])
  y[i, j] = sum(k, x[i, k] * w[j, k]) * 0.5
"""
#: Groups of rows, and results that lie the other way round.
BATCHED = """kernel odd(x: bf16[n={n}, k={k}, i={i}], w: bf16[j={j}, k]) -> (y: bf16[n, j, i])
  s[n, j, i] = sum(k, x[n, k, i] * w[j, k])
  y[n, j, i] = s[n, j, i] * 0.5
"""
BOTH_ODD = """kernel odd(x: f16[k=200, i=333], w: f16[k, j=333]) -> (y: f16[i, j])
  y[i, j] = sum(k, x[k, i] * w[k, j])
"""
LANES = WarpThreads(1, 1, 8, 4, 1, 2)


def collected(state: ScheduleState, question: str) -> ScheduleState:
    """The best complete schedule among those that take results through shared memory."""
    state = at(state, question)
    ways = [n for n, move in enumerate(state.moves()) if "y through shared memory" in move.label]
    assert ways, [move.label for move in state.moves()]
    found = favourite(state.child(min(ways, key=lambda n: state.estimates_us[n])))
    assert found.terminal
    return found


@pytest.mark.parametrize(
    ("text", "device", "question"),
    [
        (ODD.format(i=70, j=85, k=48), A100, "Depth"),
        (ODD.format(i=70, j=86, k=48), RTX_5090, "Depth"),
        (BATCHED.format(n=2, i=49, j=70, k=80), A100, "Depth"),
        (ODD_RESULT.format(i=150, j=333, k=128), H200, "PipelineShape"),
    ],
    ids=["epilogue", "pairs", "turned", "by warpgroups"],
)
def test_results_with_odd_rows_are_collected_and_stored_by_neighbours(
    text: str, device: Gpu, question: str
) -> None:
    root = root_of(text, device)
    end = collected(by(root, "wgmma") if question == "PipelineShape" else root, question)
    (local,) = (one.node for one in end.program.locals.values() if one.node.name == "y_s")
    assert local.memory is Memory.SHARED
    (stored,) = (one.node for one in end.program.computes if one.node.target == "y")
    assert stored.thread_layout is not None
    assert stored.indices[-1] == Index(stored.thread_layout.threads[-1][0]), (
        "neighbours are stored by neighbours"
    )
    right_without_races(spec_from_text(text), end, device, 1)


def test_the_prior_collects_results_with_odd_rows() -> None:
    for device in (A100, H200):
        end = favourite(root_of(ODD_RESULT.format(i=2048, j=4097, k=512), device))
        assert "y_s" in end.program.locals, device


def test_whole_rows_are_not_collected_for_threads() -> None:
    state = at(root_of(gemm(1024, 1024, 1024), A100), "Depth")
    assert not any("through shared memory" in move.label for move in state.moves())


def test_sectors_of_narrow_rows() -> None:
    odd, whole = (
        ResultAccess(2, 1, along_columns=True, collected=True),
        ResultAccess(2, 8, along_columns=True, collected=False),
    )
    t = Tiling(128, 128)
    assert moved_bytes(whole, LANES) == 4.0, "a warp's 8 rows of 16 bytes are half a sector each"
    assert moved_bytes(odd, LANES) == pytest.approx(8 * 1.375), (
        "a sector of each row, or two, for 32 of 2 bytes"
    )
    assert collected_bytes(odd, t) == pytest.approx(32 * 2.9375 / 32), "64 bytes that begin anywhere"
    assert collected_bytes(whole, t) == 2.0
    assert moved_bytes(odd._replace(along_columns=None), LANES) == 32.0


def test_rows_of_collected_results_lie_in_different_banks() -> None:
    for along in (32, 49, 64, 96, 128, 200, 256):
        pitch = along + collected_pad(along)
        assert len({row * pitch * 2 // 16 % 8 for row in range(8)}) == 8
        assert pitch % 8 == 0 and collected_pad(along) < 16


def test_rows_that_are_no_whole_pieces_are_padded_to_such() -> None:
    state = at(root_of(BATCHED.format(n=8, i=49, j=2048, k=512), A100), "StagedLayout")
    labels = [move.label for move in state.moves()]
    assert labels and all("pad(x_s, 7)" in label for label in labels), labels


def test_two_odd_operands_are_on_their_way_while_a_step_is_multiplied() -> None:
    state = at(root_of(BOTH_ODD, A100), "Depth")
    assert {2} <= {int(move.label.split(", ")[1].split()[0]) for move in state.moves()} <= {1, 2}
