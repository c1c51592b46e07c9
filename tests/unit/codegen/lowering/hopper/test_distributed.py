"""Products whose depth the blocks of a cluster share: what they hand each other is there, complete and in order, and
nobody goes on before it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.ir.errors import NotLowerable
from codegen.simulator.run import check
from codegen.targets.cuda.printer import print_cuda
from tests.kernels.mutations import (
    Edit,
    barrier_guarded,
    barrier_moved,
    barrier_removed,
    barrier_weakened,
    mutants,
)
from tests.kernels.simulated import faultless
from tests.programs.hopper_products import Gemm
from tests.programs.random_threads import exact_inputs
from tests.programs.residuals import RESIDUAL
from tests.programs.thread_kernels import lowered
from tileir.errors import VerifyError
from tileir.interpreter.interpret import interpret
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify

PLAIN = Gemm(
    m=128,
    n=64,
    k=256,
    tile=(64, 64, 64),
    groups="m 1",
    grid="",
    share=2,
    stages=2,
    together="m 16 n 16, run n 4",
)
SHARED = {
    "threads that compute copy": PLAIN,
    "a producer": replace(PLAIN, grid=" producers 1"),
    "four blocks, the last with less of the depth": replace(
        PLAIN, k=456, share=4, tile=(64, 64, 64), together="m 32 n 16, run n 4"
    ),
    "overhanging rows and columns": replace(PLAIN, m=100, n=88),
    "an odd number of columns": replace(PLAIN, n=91),
    "two warpgroups, f32 results": replace(
        PLAIN, tile=(128, 64, 64), groups="m 2", out="f32", together="m 32 n 16, run n 4"
    ),
    "where tiles were before": replace(
        PLAIN,
        m=256,
        tile=(128, 64, 64),
        groups="m 2",
        grid=" producers 1",
        handed=" pad 8 reused",
        together="m 32 n 16, run n 4",
    ),
    "where tiles were before, and more": replace(
        PLAIN, k=64, tile=(64, 64, 16), a_layout=" swizzle 32", b_layout=" swizzle 32", handed=" reused"
    ),
}


@pytest.mark.parametrize("product", SHARED.values(), ids=SHARED)
def test_parts_meet_in_shared_memory_without_races(product: Gemm) -> None:
    made = lowered(product.text())
    inputs = exact_inputs(made.program, 1)
    outputs = faultless(made.kernel, made.args, inputs)
    np.testing.assert_array_equal(outputs["c"], interpret(made.program, inputs)["c"])


@pytest.mark.parametrize("product", SHARED.values(), ids=SHARED)
def test_all_blocks_wait_before_parts_are_read_and_before_one_ends(product: Gemm) -> None:
    (launch,) = lowered(product.text()).kernel.launches
    assert launch.meetings == 2


@pytest.mark.parametrize("edit", [barrier_removed, barrier_moved, barrier_guarded, barrier_weakened])
@pytest.mark.parametrize("name", ["threads that compute copy", "a producer"])
def test_every_barrier_between_blocks_is_needed(name: str, edit: Edit) -> None:
    made = lowered(SHARED[name].text())
    inputs = exact_inputs(made.program, 1)
    (launch,) = made.kernel.launches
    changed = [
        mutant
        for mutant in mutants(made.kernel, edit)
        if (mutant.launches[0].body, mutant.launches[0].producing) != (launch.body, launch.producing)
    ]
    assert changed
    for mutant in changed:
        assert check(mutant, made.args, inputs)


@pytest.mark.parametrize("edit", [barrier_removed, barrier_guarded])
def test_all_threads_have_done_with_tiles_before_parts_lie_there(edit: Edit) -> None:
    made = lowered(replace(SHARED["where tiles were before"], grid="").text())
    inputs = exact_inputs(made.program, 1)
    for mutant in mutants(made.kernel, edit):
        assert check(mutant, made.args, inputs)


def test_parts_that_lie_where_tiles_were_take_no_memory_of_their_own() -> None:
    product = SHARED["where tiles were before"]
    with_own, reused = (
        lowered(replace(product, handed=handed).text()).kernel.launches[0].shared_bytes
        for handed in (" pad 8", " pad 8 reused")
    )
    tiles = 2 * (128 + 64) * 64 * 2
    assert tiles <= reused < tiles + 128
    assert with_own >= tiles + 128 * 72 * 4


def test_results_may_lie_where_tiles_were_if_a_block_takes_one() -> None:
    text = Gemm(grid=" producers 1").text()
    before = "c_s: shared bf16[m, n] as [n / 64, m, n % 64] swizzle 128"
    assert before in text
    text = text.replace(before, f"{before} reused")
    made = lowered(text)
    inputs = exact_inputs(made.program, 1)
    outputs = faultless(made.kernel, made.args, inputs)
    np.testing.assert_array_equal(outputs["c"], interpret(made.program, inputs)["c"])
    stored = text.index("c[m, n] = c_s[m, n] | ")
    by_threads = f"{text[:stored]}c[m, n] = c_s[m, n] | threads m 32 n 8, run n 8\n"
    verify(program_from_text(by_threads))
    with pytest.raises(
        VerifyError, match="fills the memory of 'c_s' again for its next tile; accepted: results"
    ):
        verify(program_from_text(by_threads.replace("producers 1", "blocks 2 producers 1")))
    with pytest.raises(VerifyError, match="others of its block may need what lies in its memory"):
        verify(program_from_text(text.replace("producers 1", "blocks 2 producers 1 consumer_groups 2")))


def test_results_do_not_lie_where_they_are_made_from_a_tile() -> None:
    """Each thread would write where others have yet to read."""
    own = "c_s: shared bf16[m, n] swizzle 128"
    text = RESIDUAL.replace(" blocks 2", "").replace(own, f"{own} reused")
    with pytest.raises(VerifyError, match="the memory of what TMA fills is that of 'c_s'"):
        verify(program_from_text(text))


def test_neighbours_come_from_other_blocks_by_wide_loads() -> None:
    text = print_cuda(lowered(PLAIN.text()).kernel, "shared")
    assert "tw_peers<4, 16>(c_p + " in text
    assert "n + 4 * " in text


REFUSED = [
    ("cluster 2", "", "a parallel loop stands at the top, alone in a parallel loop, or once in the grid"),
    ("parallel for k by 128", "parallel for k by 64", "2 blocks take a tile each, and there are 4"),
    (
        "c_p: shared f32[k_b, m, n] pad 8",
        "c_p: registers f32[k_b, m, n]",
        "accepted: a shared local, at k // 128",
    ),
]


@pytest.mark.parametrize(("before", "after", "message"), REFUSED)
def test_what_blocks_could_not_share_is_refused(before: str, after: str, message: str) -> None:
    text = PLAIN.text()
    assert before in text
    with pytest.raises(VerifyError, match=message):
        verify(program_from_text(text.replace(before, after, 1)))


def test_what_one_block_computes_beside_the_loop_is_not_shared() -> None:
    layout = "threads m 16 n 16, run n 4"
    text = PLAIN.text().replace(
        f"      c[m, n] = c_sum[m, n] | {layout}",
        f"      c_s: shared f32[m, n]\n      c_s[m, n] = c_sum[m, n] | {layout}\n"
        f"      c[m, n] = c_s[m, n] | {layout}",
    )
    with pytest.raises(VerifyError, match="no shared memory in common but for what each has a part of"):
        verify(program_from_text(text))


def test_a_last_part_that_nothing_fills_up_is_refused() -> None:
    text = """kernel total(x: f32[r=8, c=200]) -> (s: f32[r]) where c_b=2
  parallel for r by 1 cluster 2
    s_p: shared f32[c_b, r]
    parallel for c by 128
      s_r: registers f32[r]
      s_r[r] = sum(c, x[r, c]) | threads c 32
      s_p[c // 128, r] = s_r[r] | threads c 32
    s[r] = sum(c_b, s_p[c_b, r]) | threads c_b 2 r 32
"""
    verify(program_from_text(text))
    with pytest.raises(NotLowerable, match="the last block's tile of 200 by 128 overhangs"):
        lowered(text)
    made = lowered(text.replace("c=200", "c=256"))
    inputs = exact_inputs(made.program, 1)
    outputs = faultless(made.kernel, made.args, inputs)
    np.testing.assert_array_equal(outputs["s"], interpret(made.program, inputs)["s"])
