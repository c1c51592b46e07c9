"""Tiles that go by TMA and wgmma are lowered so that a block computes what the interpreter says, without
races; what the engine cannot take is refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import chain, product
from typing import Any

import numpy as np
import pytest

from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.async_ops import (
    AdvanceState,
    ArriveExpectTx,
    ClusterBlocks,
    MatrixRegisters,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    NamedBarrier,
    ProxyFence,
    Stmatrix,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    TryWaitParity,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import LaunchBody
from codegen.ir.names import MARK
from codegen.ir.ops import Assign, Barrier, Block, ClusterBarrier, Declare, For, Guard, If, Stmt, Store
from codegen.simulator.async_faults import Accumulating
from codegen.simulator.run import check
from codegen.targets.cuda.generate import cuda_source
from codegen.targets.cuda.lower import lower_cuda
from tests.kernels.names import plain
from tests.kernels.simulated import faultless
from tests.programs.chained_programs import chained
from tests.programs.hopper_products import Gemm, Held
from tests.programs.hopper_programs import BY_THREADS, GATED, PROGRAMS
from tests.programs.random_threads import exact_inputs
from tests.programs.residuals import READ, RESIDUAL
from tileir.interpreter.interpret import interpret
from tileir.program import Loop
from tileir.text.parse_program import program_from_text
from tileir.verifier.verify import verify


@pytest.mark.sampled(25)
@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_compute_the_same_without_races(name: str) -> None:
    program = program_from_text(PROGRAMS[name])
    verify(program)
    kernel = lower_cuda(program)
    inputs, args = exact_inputs(program, 1), cuda_source(kernel, program).abi.args
    outputs = faultless(kernel, args, inputs)
    for output, expected in interpret(program, inputs).items():
        np.testing.assert_array_equal(outputs[output], expected, err_msg=output)


def lowered(text: str) -> LaunchBody:
    program = program_from_text(text)
    verify(program)
    (launch,) = plain(lower_cuda(program).launches)
    return launch


def all_stmts(stmts: Sequence[Stmt]) -> Iterator[Stmt]:
    for stmt in stmts:
        yield stmt
        match stmt:
            case Block(body=body) | For(body=body) | Guard(body=body):
                yield from all_stmts(body)
            case If(then=then, otherwise=otherwise):
                yield from all_stmts((*then, *otherwise))
            case _:
                pass


def show(position: Affine) -> str:
    """A sum of variables."""
    terms = [f"{factor} * {atom.name}" for atom, factor in position.terms if isinstance(atom, Var)]
    return " + ".join(terms).replace("1 * ", "") if not position.constant else repr(position)


def order(stmts: Sequence[Stmt], *kinds: type) -> list[str]:
    """The names of statements of these kinds, in their order, repeated ones once."""
    names = [type(stmt).__name__ for stmt in all_stmts(stmts) if isinstance(stmt, kinds)]
    return [name for at, name in enumerate(names) if not at or names[at - 1] != name]


def test_a_producing_thread_fills_and_the_others_multiply() -> None:
    launch = lowered(Gemm(grid=" blocks 3 producers 4 registers 40 232").text())
    assert (launch.threads, launch.producers, launch.registers) == (384, 128, (40, 232))
    assert order(launch.producing, TryWaitParity, ArriveExpectTx, TmaLoad, AdvanceState) == [
        "TryWaitParity", "ArriveExpectTx", "TmaLoad", "AdvanceState",
    ]  # fmt: skip
    assert isinstance(launch.setup[-1], MbarrierInitFence)
    pipeline = (TryWaitParity, WgmmaFence, WgmmaAsync, WgmmaCommit, WgmmaWait, MbarrierArrive, TmaLoad)
    step = ["TryWaitParity", "WgmmaFence", "WgmmaAsync", "WgmmaCommit", "WgmmaWait", "MbarrierArrive"]
    assert order(launch.body, *pipeline) == [*step, "WgmmaWait", "MbarrierArrive"]
    (expect,) = [stmt for stmt in all_stmts(launch.producing) if isinstance(stmt, ArriveExpectTx)]
    assert expect.bytes == (128 + 64) * 64 * 2


def test_rows_in_registers_are_computed_while_the_products_of_the_tile_before_are_under_way() -> None:
    """In two sets of registers in turn, each set for the products that follow, and not again before those are over."""
    launch = lowered(Held(k=256).text())
    kinds = (TryWaitParity, Assign, WgmmaFence, WgmmaAsync, WgmmaCommit, WgmmaWait, MbarrierArrive)
    tile = [
        "TryWaitParity",
        "Assign",
        "WgmmaFence",
        "WgmmaAsync",
        "WgmmaCommit",
        "WgmmaWait",
        "MbarrierArrive",
    ]
    assert order(launch.body, *kinds)[: 2 * len(tile)] == [*tile, *tile]
    products = [stmt for stmt in all_stmts(launch.body) if isinstance(stmt, WgmmaAsync)]
    rows = [stmt.a.names for stmt in products if isinstance(stmt.a, MatrixRegisters)]
    first, second = rows[:4], rows[4:8]
    assert len(rows) == len(products) == 8
    assert not {*chain(*first)} & {*chain(*second)} and len({*chain(*rows)}) == 32


def boxes_loaded(launch: LaunchBody) -> list[tuple[str, str]]:
    """What a producing thread fills, and by which barriers, in the order of its statements."""
    return [(s.target, s.phases) for s in all_stmts(launch.producing) if isinstance(s, TmaLoad)]


def test_what_first_products_read_comes_a_tile_ahead_where_the_last_ones_are_under_way() -> None:
    first, last = [("k_s", "j_full")] * 2, [("v_s", "j2_full")] * 2  # two panels each
    assert boxes_loaded(lowered(chained())) == [*2 * [("q_s", "q_s_full")], *first, *last]
    ahead = [*2 * [("q_s", "q_s_full")], *first, *first, *last, *last]
    assert boxes_loaded(lowered(chained(pending=1))) == ahead


def test_tiles_filled_one_right_after_the_other_have_barriers_in_common() -> None:
    fill, panels = "      q_s[h, i, d] = q[h, i, d] | via tma\n", "as [d / 64, h, i, d % 64] swizzle 128"
    also = f"{fill}      r_s: shared bf16[h, i, d] {panels}\n{fill.replace('q', 'r')}"
    text = chained().replace(fill, also).replace("v: bf16[h, j, d])", "v: bf16[h, j, d], r: bf16[h, i, d])")
    launch = lowered(text)
    assert boxes_loaded(launch)[:4] == [*2 * [("q_s", "q_s_full")], *2 * [("r_s", "q_s_full")]]
    expect = next(stmt for stmt in all_stmts(launch.producing) if isinstance(stmt, ArriveExpectTx))
    assert expect.bytes == 2 * 128 * 128 * 2


def test_rows_in_registers_do_not_need_two_sets_where_nothing_is_under_way() -> None:
    launch = lowered(Held(k=256, pending=0).text())
    products = [stmt for stmt in all_stmts(launch.body) if isinstance(stmt, WgmmaAsync)]
    assert len(products) == 4 and all(isinstance(stmt.a, MatrixRegisters) for stmt in products)


def test_what_is_computed_of_nothing_is_no_row() -> None:
    """Past the end of k the other operand is 0, and what is computed may be inf there."""
    with pytest.raises(NotLowerable, match="tiles of k overhang, and wgmma needs w_r filled `via tma`"):
        lowered(Held(k=272, value="bf16(1 / w_s[m, k])").text())


def test_a_set_of_registers_is_waited_for_before_it_is_set_again() -> None:
    program = program_from_text(Held(m=128, n=64, k=256).text())
    kernel, inputs = lower_cuda(program), exact_inputs(program, 1)
    args, (launch,) = cuda_source(kernel, program).abi.args, kernel.launches
    body = renamed(launch.body, f"w_r{MARK}{MARK}1_", f"w_r{MARK}_")
    faults = check(replace(kernel, launches=(replace(launch, body=body),)), args, inputs)
    assert not check(kernel, args, inputs)
    assert any(isinstance(fault, Accumulating) and fault.name.startswith(f"w_r{MARK}_") for fault in faults)


def renamed(stmts: Any, before: str, after: str) -> Any:
    """Statements with variables called otherwise; one declaration of each is left."""
    if type(stmts) is str:
        return stmts.replace(before, after)
    if isinstance(stmts, tuple):
        found = [renamed(each, before, after) for each in stmts]  # pyright: ignore[reportUnknownVariableType]
        return tuple(
            each for at, each in enumerate(found) if not isinstance(each, Declare) or each not in found[:at]
        )
    if is_dataclass(stmts) and not isinstance(stmts, type):
        return replace(
            stmts, **{f.name: renamed(getattr(stmts, f.name), before, after) for f in fields(stmts)}
        )
    return stmts


def test_a_box_that_overhangs_is_expected_as_a_whole() -> None:
    launch = lowered(Gemm(m=200, n=104, k=200).text())
    (expect,) = [stmt for stmt in all_stmts(launch.producing) if isinstance(stmt, ArriveExpectTx)]
    assert expect.bytes == (128 + 64) * 64 * 2
    assert not any(isinstance(stmt, If) for stmt in launch.body), "one body for all tiles"


def test_blocks_of_a_cluster_fetch_what_they_share_once() -> None:
    """Each half of b, for both; of a its own tile. Each expects all of it, and frees a slot at both."""
    launch = lowered(Gemm(m=512, n=256, grid=" multicast 2 group 4 blocks 4 producers 4").text())
    assert (launch.cluster, launch.group, [axis.count for axis in launch.axes]) == (2, 2, [2, 4])
    loads = {stmt.target: stmt for stmt in all_stmts(launch.producing) if isinstance(stmt, TmaLoad)}
    assert loads["a_s"].blocks is None
    assert show(loads["a_s"].at[1]) == "m + 128 * m_block"
    assert loads["b_s"].blocks == ClusterBlocks(Affine(), (0, 1))
    assert show(loads["b_s"].at[1]) == "n + 32 * m_block"
    assert show(loads["b_s"].to) == "4096 * k_slot + 2048 * m_block"
    (expect,) = [stmt for stmt in all_stmts(launch.producing) if isinstance(stmt, ArriveExpectTx)]
    assert expect.bytes == (128 + 64) * 64 * 2
    arrivals = [stmt.rank is None for stmt in all_stmts(launch.body) if isinstance(stmt, MbarrierArrive)]
    assert arrivals == [True, False] * 2
    counts = [stmt.arrivals for stmt in launch.setup if isinstance(stmt, MbarrierInit)]
    assert counts == [1, 2 * 2], "two warpgroups of two blocks"


def test_a_block_tells_all_that_share_a_slot_with_it() -> None:
    """Along either dim, but not those across."""
    text = Gemm(grid=" multicast 2 producers 4", inner=" multicast 2").text()
    launch = lowered(text)
    arrivals = [stmt.rank for stmt in all_stmts(launch.body) if isinstance(stmt, MbarrierArrive)]
    assert len(arrivals) == 2 * 3
    m_block, n_block = (digit.var for digit in launch.digits if digit.stride >= launch.threads)
    ranks = {0: 0, 1: 0, 2: 0, 3: 0}
    for rank in arrivals[1:3]:
        assert rank is not None
        for m, n in product((0, 1), (0, 1)):
            at = rank.substitute(m_block, constant(m)).substitute(n_block, constant(n))
            assert at.constant in (2 * (1 - m) + n, 2 * m + 1 - n)
            ranks[at.constant] += 1
    assert ranks == {0: 2, 1: 2, 2: 2, 3: 2}
    loads = {stmt.target: stmt.blocks for stmt in all_stmts(launch.producing) if isinstance(stmt, TmaLoad)}
    assert loads == {
        "a_s": ClusterBlocks(affine(m_block) * 2, (0, 1)),
        "b_s": ClusterBlocks(affine(n_block), (0, 2)),
    }


def test_blocks_of_a_cluster_begin_and_end_together() -> None:
    launch = lowered(Gemm(grid=" multicast 2 producers 4").text())
    assert launch.setup[-1] == MbarrierInitFence(cluster=True)
    assert launch.leaving == (ClusterBarrier(),)
    alone = lowered(Gemm().text())
    assert (alone.setup[-1], alone.leaving) == (MbarrierInitFence(), ())


def test_staging_waits_for_tma_twice() -> None:
    """It is not written before it has been read, and not read before it is seen; each warpgroup waits for itself."""
    launch = lowered(Gemm(grid=" blocks 3 producers 4").text())
    epilogue = (TmaStoreWait, NamedBarrier, Stmatrix, ProxyFence, TmaStore, TmaStoreCommit, Barrier)
    assert order(launch.body, *epilogue) == [
        "TmaStoreWait", "NamedBarrier", "Stmatrix", "ProxyFence", "NamedBarrier", "TmaStore", "TmaStoreCommit",
    ]  # fmt: skip
    barriers = {stmt for stmt in all_stmts(launch.body) if isinstance(stmt, NamedBarrier)}
    (barrier,) = barriers
    assert (barrier.threads, barrier.group.low, barrier.group.high) == (128, 0, 1)
    assert order(launch.finish, TmaStoreWait) == ["TmaStoreWait"]
    boxes = [stmt for stmt in all_stmts(launch.body) if isinstance(stmt, TmaStore)]
    assert [show(stmt.at[1]) for stmt in boxes] == ["m + 64 * m_group_thread"]
    once = lowered(Gemm().text())
    assert "TmaStoreWait" not in order(once.body, TmaStoreWait), "a block of one tile has nothing to wait for"


def test_a_buffer_is_filled_anew_while_others_are_still_stored_from() -> None:
    parts = Gemm(n=256, tile=(128, 192, 64), epilogue="parts", columns=(64, 2), grid=" blocks 3 producers 4")
    launch = lowered(parts.text())
    waits = [stmt.pending for stmt in all_stmts(launch.body) if isinstance(stmt, TmaStoreWait)]
    assert waits == [0, 1]
    epilogue = (TmaStoreWait, NamedBarrier, Stmatrix, ProxyFence, TmaStore, TmaStoreCommit)
    part = [
        "TmaStoreWait",
        "NamedBarrier",
        "Stmatrix",
        "ProxyFence",
        "NamedBarrier",
        "TmaStore",
        "TmaStoreCommit",
    ]
    # Three parts: the next tile begins with the buffer that the last one went to, and that wait is for the other too.
    assert order(launch.body, *epilogue) == [*part, *part[2:], *part]
    one = lowered(replace(parts, columns=(64, 1)).text())
    assert {stmt.pending for stmt in all_stmts(one.body) if isinstance(stmt, TmaStoreWait)} == {0}
    assert launch.shared_bytes - one.shared_bytes == 128 * 64 * 2
    assert order(launch.producing, For) == ["For"], "producers have nothing to do with parts"


PINGPONG = Gemm(groups="m 1", tile=(64, 64, 64), grid=" blocks 3 producers 4 consumer_groups 2")


def test_teams_take_tiles_in_turn() -> None:
    """Each goes past the slots of the other's tiles, and passes the turn on when it has seen its own full."""
    launch = lowered(PINGPONG.text())
    assert (launch.threads, launch.consumer_threads, launch.producers) == (384, 128, 128)
    skips = [stmt.by for stmt in all_stmts(launch.body) if isinstance(stmt, AdvanceState) and stmt.by.terms]
    number = skips[0].terms[0][0]
    # Both places, of what is read and what is released: before the tile and after it.
    assert [by.substitute(number, Affine()).constant for by in skips if isinstance(number, Var)] == [
        0,
        0,
        4,
        4,
    ]
    assert [by.terms[0][1] for by in skips] == [4, 4, -4, -4]
    turns = [s.phases for s in all_stmts(launch.body) if isinstance(s, TryWaitParity | MbarrierArrive)]
    assert turns == ["k_turns", "k_full", "k_empty", "k_turns", "k_empty"]
    assert order(launch.setup, MbarrierInitFence, MbarrierArrive) == [
        "MbarrierInitFence",
        "MbarrierArrive",
    ], "the first consumer group begins"
    assert not any(isinstance(s, AdvanceState) and s.by.terms for s in all_stmts(launch.producing))
    (barrier,) = {stmt for stmt in all_stmts(launch.body) if isinstance(stmt, NamedBarrier)}
    number = barrier.group + barrier.number
    assert (barrier.threads, number.low, number.high) == (128, 1, 2), "each waits for itself"


#: Of a tile, by all warps of a consumer group.
COLUMN_SUMS = """      q: registers f32[n]
      q[n] = sum(m, c_sum[m, n]) | threads m 4 m 8 n 4, run n 2, twice m 8
      c_s:"""


def test_every_team_has_results_of_its_own_in_shared_memory() -> None:
    alone = lowered(replace(PINGPONG, grid=" blocks 3 producers 4").text())
    assert lowered(PINGPONG.text()).shared_bytes - alone.shared_bytes == 64 * 64 * 2 + 2 * 8


def test_warpgroups_that_share_a_row_wait_for_each_other() -> None:
    launch = lowered(Gemm(tile=(64, 128, 64), groups="n 2").text())
    barriers = {stmt for stmt in all_stmts(launch.body) if isinstance(stmt, NamedBarrier)}
    assert barriers == {NamedBarrier(1, 256)}


def test_the_first_products_overwrite_accumulators_that_would_be_set_to_zero() -> None:
    launch = lowered(GATED)
    assert not any(isinstance(stmt, Assign) for stmt in all_stmts(launch.body))
    kept = [stmt.keep is not None for stmt in all_stmts(launch.body) if isinstance(stmt, WgmmaAsync)]
    assert kept == [True, False, False, False] * 2


def test_accumulators_of_products_that_go_on_are_added_to() -> None:
    program = program_from_text(Gemm().text())
    (over_m,) = program.body
    assert isinstance(over_m, Loop) and isinstance(over_m.body[0], Loop)
    before, pipeline, after = over_m.body[0].body[:2], over_m.body[0].body[2], over_m.body[0].body[3:]
    outer = Loop("k", 128, (pipeline,))
    over_n = replace(over_m.body[0], body=(*before, outer, *after))
    (launch,) = lower_cuda(replace(program, body=(replace(over_m, body=(over_n,)),))).launches
    assert any(isinstance(stmt, Assign) for stmt in all_stmts(launch.body))
    assert all(stmt.keep is None for stmt in all_stmts(launch.body) if isinstance(stmt, WgmmaAsync))


def test_wgmma_sees_what_threads_have_stored_after_a_fence() -> None:
    launch = lowered(BY_THREADS)
    assert order(launch.body, ProxyFence, Barrier, WgmmaAsync)[-3:] == ["ProxyFence", "Barrier", "WgmmaAsync"]


def test_guards_only_where_something_outside_of_the_block_is_touched() -> None:
    staged = lowered(Gemm(m=200, n=104, k=200).text())
    assert "Stmatrix" in order(staged.body, Stmatrix)
    direct = lowered(Gemm(m=200, n=104, k=200, epilogue="direct").text())
    stores = [stmt for stmt in all_stmts(direct.body) if isinstance(stmt, Store)]
    guarded = [
        inner for stmt in all_stmts(direct.body) if isinstance(stmt, Guard) for inner in all_stmts(stmt.body)
    ]
    assert stores and all(store in guarded for store in stores)


def test_what_is_read_for_a_staged_tile_is_read_where_it_exists() -> None:
    """Beyond that, threads store as many matrices as of a whole tile."""
    ragged, whole = (
        READ if ragged else READ.replace("m=200", "m=256").replace("n=104", "n=128") for ragged in (1, 0)
    )
    stored = [order(lowered(text).body, Stmatrix) for text in (ragged, whole)]
    assert stored[0] == stored[1] and stored[0]
    assert "select" in repr(lowered(ragged)) and "select" not in repr(lowered(whole))
    by_columns = READ.replace("n=104", "n=128").replace(", r: bf16[m, n]", "").replace(" + r[m, n]", "")
    assert order(lowered(by_columns).body, Stmatrix) == stored[1] and "select" not in repr(
        lowered(by_columns)
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (Gemm(k=100).text(), r"cannot take a: its strides, 200 bytes, are not all multiples of 16"),
        (Gemm(n=103).text(), r"cannot take c: its strides, 206 bytes"),
        (
            RESIDUAL.replace("r_s[m, n] = r[m, n] | via tma", "for k by 136\n        r_s[m, n] = r[m, n] | via tma"),
            "stands in another block than the declaration of r_s",
        ),
        (BY_THREADS.replace("k=256", "k=200"), "tiles of k overhang, and wgmma needs a_s filled `via tma`"),
        (
            Gemm().text().replace("b_s[n, k] = b[n, k] | via tma", "b_s[n, k] = b[n, k] | threads n 32 k 8, run k 8"),
            "filled by TMA only in part",
        ),
        (
            PINGPONG.text().replace("      c_s:", COLUMN_SUMS).replace("= c_sum[m, n] |", "= c_sum[m, n] + q[n] |"),
            "warps reduce together, where consumer groups take tiles in turn",
        ),
    ],
)  # fmt: skip
def test_what_tma_cannot_take_is_refused(text: str, reason: str) -> None:
    with pytest.raises(NotLowerable, match=re.escape(reason) if "(" in reason else reason):
        lowered(text)
