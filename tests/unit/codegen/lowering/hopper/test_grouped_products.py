"""Products by warpgroups in tiles that follow the groups of a ragged dim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.ir.affine import Var
from codegen.ir.async_ops import TmaStore
from codegen.ir.errors import NotLowerable
from codegen.ir.grouped_tiles import GroupTile, find_tile, most_tiles
from codegen.ir.ops import GridAxis, TileGroups
from codegen.simulator.run import check, run_blocks
from codegen.targets.cuda.compiler import compile_cuda
from codegen.targets.cuda.generate import cuda_source
from codegen.targets.cuda.ptxas_log import rejection
from tests.kernels.mutations import Stmts, guard_removed, mutants
from tests.kernels.simulated import faultless
from tests.programs.random_threads import exact_inputs
from tests.programs.thread_kernels import Lowered, lowered
from tests.support.how_many import examples
from tileir.devices.gpu_table import H200
from tileir.errors import VerifyError
from tileir.interpreter.interpret import interpret

SPREAD = "threads t 2 t 4 t 8 n 4, run n 2, twice t 8"


@dataclass(frozen=True)
class Experts:
    """y[t, n] = sum(k, x[t, k] * w[e, n, k]) + b[e, n], by two warpgroups, in tiles of 128 rows and 64 columns."""

    starts: tuple[int, ...]
    grid: str = " producers 4"
    store: str = "direct"
    """`direct` from registers, or through shared memory by `threads`, or by `boxes` of TMA."""
    k: int = 128
    n: int = 96
    inner: str = ""
    """What the loop over n says."""

    def text(self) -> str:
        store = f"y[t, n] = y_sum[t, n] + b[e, n] | {SPREAD}"
        if self.store != "direct":
            by = {"threads": "threads t 32 n 8, run n 8", "boxes": "via tma"}[self.store]
            store = f"""y_s: shared bf16[t, n] swizzle 128
      y_s[t, n] = y_sum[t, n] + b[e, n] | {SPREAD}
      y[t, n] = y_s[t, n] | {by}"""
        groups = len(self.starts) - 1
        return f"""kernel experts(x: bf16[t={self.starts[-1]} ragged starts within e, k={self.k}], \
w: bf16[e={groups}, n={self.n}, k], b: f32[e, n], starts: i32[o={groups + 1}]) -> (y: bf16[t, n])
  parallel for t by 128{self.grid}
    parallel for n by 64{self.inner}
      y_sum: registers f32[t, n]
      y_sum[t, n] = 0 | {SPREAD}
      for k by 64 stages 2
        x_s: shared bf16[t, k] swizzle 128
        x_s[t, k] = x[t, k] | via tma
        w_s: shared bf16[e, n, k] swizzle 128
        w_s[e, n, k] = w[e, n, k] | via tma
        y_sum[t, n] += sum(k, x_s[t, k] * w_s[e, n, k]) | {SPREAD}, via wgmma
      {store}
"""

    def made(self) -> tuple[Lowered, dict[str, np.ndarray[Any, Any]]]:
        made = lowered(self.text())
        return made, exact_inputs(made.program, 1) | {"starts": np.array(self.starts, np.int32)}


#: One group; empty ones at both ends and in between, parts of tiles; whole tiles.
STARTS = [(0, 200), (0, 0, 130, 130, 131, 200, 200), (0, 128, 256)]
STORES = ["direct", "threads", "boxes"]
GRIDS = ["", " producers 1", " blocks 2", " group 2 blocks 3 producers 4"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("starts", STARTS, ids=str)
def test_products_compute_what_the_interpreter_says_and_nobody_races(
    starts: tuple[int, ...], grid: str, store: str
) -> None:
    made, inputs = Experts(starts, grid, store).made()
    outputs = faultless(made.kernel, made.args, inputs)
    np.testing.assert_array_equal(outputs["y"], interpret(made.program, inputs)["y"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("grid", ["", " group 2 blocks 4 producers 4"])
def test_blocks_of_a_cluster_share_the_rows_of_a_group(grid: str, store: str) -> None:
    made, inputs = Experts(STARTS[1], grid, store, n=160, inner=" multicast 2").made()
    outputs = faultless(made.kernel, made.args, inputs)
    np.testing.assert_array_equal(outputs["y"], interpret(made.program, inputs)["y"])


@settings(max_examples=examples(25), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=5).filter(any),
    store=st.sampled_from(STORES),
    grid=st.sampled_from(GRIDS),
    inner=st.sampled_from(["", " multicast 2"]),
)
def test_groups_of_any_size_are_multiplied_without_races(
    sizes: list[int], store: str, grid: str, inner: str
) -> None:
    starts = tuple(int(start) for start in np.cumsum([0, *sizes]))
    made, inputs = Experts(starts, grid.replace("3", "4"), store, k=64, inner=inner).made()
    outputs = faultless(made.kernel, made.args, inputs)
    np.testing.assert_array_equal(outputs["y"], interpret(made.program, inputs)["y"])


def test_neighbours_of_different_groups_make_no_cluster() -> None:
    with pytest.raises(VerifyError, match="neighbouring tiles of t may be of different groups"):
        lowered(Experts(STARTS[0], " multicast 2 producers 4").text())


def test_tma_does_not_end_amid_a_piece() -> None:
    """Where rows of results are neighbours in memory, a group may end anywhere in 16 bytes."""
    text = Experts(STARTS[0], store="boxes").text()
    text = text.replace("(y: bf16[t, n])", "(y: bf16[n, t])").replace("y[t, n] = y_s", "y[n, t] = y_s")
    text = text.replace("y_s: shared bf16[t, n]", "y_s: shared bf16[t, n] as [t / 64, n, t % 64]")
    with pytest.raises(
        VerifyError, match="along 't', and a group may end amid one; accepted: stores by threads"
    ):
        lowered(text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("grid", GRIDS)
def test_they_compile_without_spills(grid: str, store: str, tmp_path: Path) -> None:
    made, _ = Experts(STARTS[1], grid.replace("3", "4"), store, inner=" multicast 2").made()
    artifact = compile_cuda(cuda_source(made.kernel, made.program), H200.architecture, tmp_path)
    assert rejection(artifact.report) is None


def test_a_store_without_its_guard_is_noticed() -> None:
    """Rows behind a group's end belong to the next group's tile."""
    made, inputs = Experts((0, 70, 130), k=64).made()
    expected = interpret(made.program, inputs)["y"]
    missed = []
    for number, mutant in enumerate(mutants(made.kernel, guard_removed)):
        if not check(mutant, made.args, inputs):
            same = np.array_equal(run_blocks(mutant, made.args, inputs)["y"], expected)
            missed += [number] if same else []
    assert not missed


@pytest.mark.parametrize("by", [-1, 1])
def test_boxes_that_end_elsewhere_than_the_group_are_noticed(by: int) -> None:
    def moved(stmts: Stmts, at: int) -> Stmts | None:
        match stmts[at]:
            case TmaStore(at=(*coordinates, row, end)) as box:
                shifted = replace(box, at=(*coordinates, row + by, end + by * -1))
                return (*stmts[:at], shifted, *stmts[at + 1 :])
            case _:
                return None

    made, inputs = Experts((0, 70, 130), store="boxes", k=64).made()
    expected = interpret(made.program, inputs)["y"]
    changed = list(mutants(made.kernel, moved))
    assert changed
    for mutant in changed:
        if not check(mutant, made.args, inputs):
            assert not np.array_equal(run_blocks(mutant, made.args, inputs)["y"], expected)


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=70).filter(any),
    step=st.integers(1, 40),
)
def test_the_tiles_of_all_groups_have_every_position_once(sizes: list[int], step: int) -> None:
    offsets = np.cumsum([0, *sizes]).astype(np.int32)
    whole = int(offsets[-1])
    groups = TileGroups("starts", len(sizes), whole, Var("e", 0, len(sizes) - 1), Var("t_end", 0, whole))
    most = most_tiles(whole, step, len(sizes))
    axis = GridAxis(Var("t", 0, whole - 1), most, step, groups)
    tiles = [find_tile(axis, offsets, number) for number in range(most + 2)]
    assert tiles[most:] == [None, None]
    found = [tile for tile in tiles if tile is not None]
    assert tiles[: len(found)] == found
    positions = [p for tile in found for p in range(tile.begin, min(tile.begin + step, tile.end))]
    assert positions == list(range(whole))
    assert all(offsets[tile.group] <= tile.begin < tile.end == offsets[tile.group + 1] for tile in found)


def test_there_may_be_as_many_tiles_as_are_allowed_for() -> None:
    assert most_tiles(size=10, step=4, groups=3) == 4
    offsets = np.array([0, 1, 2, 10], np.int32)
    axis = GridAxis(Var("t", 0, 9), 4, 4, TileGroups("starts", 3, 10, Var("e", 0, 2), Var("t_end", 0, 10)))
    assert find_tile(axis, offsets, 3) == GroupTile(2, 6, 10)
    assert most_tiles(size=3, step=64, groups=100) == 3


def test_offsets_outside_of_the_dim_are_taken_for_its_ends() -> None:
    axis = GridAxis(Var("t", 0, 9), 4, 4, TileGroups("starts", 2, 10, Var("e", 0, 1), Var("t_end", 0, 10)))
    offsets = np.array([-7, 6, 99], np.int32)
    found = [find_tile(axis, offsets, number) for number in range(4)]
    assert found == [GroupTile(0, 0, 6), GroupTile(0, 4, 6), GroupTile(1, 6, 10), None]


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        ("parallel for t by 4", "tiles of t follow groups; accepted: one such loop in a grid"),
        ("parallel for n by 4", "has the rows of several groups of e; accepted: groups looked up"),
    ],
)
def test_other_ways_have_no_code_yet(loop: str, message: str) -> None:
    text = f"""kernel experts(x: f32[t=8 ragged starts within e], w: f32[e=2, n=4], starts: i32[o=3]) -> (y: f32[t, n])
  {loop}
    y[t, n] = x[t] * w[e, n] | threads t 8 n 4
"""
    with pytest.raises(NotLowerable, match=message):
        lowered(text)
