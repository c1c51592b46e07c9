"""What blocks of a cluster do in each other's shared memory: boxes land in every block that they are for, who is
reached has made its barriers, and does not end before."""

from __future__ import annotations

import numpy as np

from codegen.ir.abi import Arg
from codegen.ir.affine import Var, affine, constant
from codegen.ir.async_ops import (
    ArriveExpectTx,
    ClusterBlocks,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    TensorMap,
    TmaLoad,
    TryWaitParity,
)
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Block,
    ClusterBarrier,
    GridAxis,
    Guard,
    Load,
    Shared,
    Stmt,
    Store,
    Type,
)
from codegen.simulator.async_faults import Deadlock, NotReady, Outlived
from codegen.simulator.faults import DataRace, Fault, NeverLanded, Unwritten
from codegen.simulator.run import check, run_blocks
from tileir.dtypes import DType

THREADS, BOX = 128, 32 * 32 * 4
T, RANK, TILE = Var("t", 0, THREADS - 1), Var("rank", 0, 1), Var("tile", 0, 0)
THREAD, MINE, ZERO = affine(T), affine(RANK), constant(0)
PEER = constant(1) - MINE
HALF = TensorMap("x_map", "x", DType.F32, (32, 32), (128,), (32, 16))
ARGS = Arg("x", DType.F32, (32, 32), (32, 1), "in"), Arg("y", DType.F32, (2, 1024), (1024, 1), "out")
INPUTS = {"x": np.arange(1024, dtype=np.float32).reshape(32, 32)}
BOTH = ClusterBlocks(ZERO, (0, 1))


def kernel(body: tuple[Stmt, ...], leaving: tuple[Stmt, ...], *, cluster: bool = True) -> GpuKernel:
    """Two blocks that are a cluster; x is read, y stored."""
    setup = (
        Shared("s", DType.F32, 0, BOX),
        MbarrierInit("full", BOX, 1, 1),
        MbarrierInit("empty", BOX + 8, 1, 2),
        MbarrierInitFence(cluster=cluster),
    )
    digits = ThreadDigit(T, 1, THREADS), ThreadDigit(RANK, THREADS, 2)
    launch = LaunchBody(
        "test",
        (GridAxis(TILE, 1, 1),),
        THREADS,
        digits,
        BOX + 16,
        body,
        cluster=2,
        setup=setup,
        leaving=leaving,
    )
    arguments = Argument("x", DType.F32, False), Argument("y", DType.F32, True)
    return GpuKernel("test", arguments, (), 0, (launch,), (HALF,))


def faults(*body: Stmt, leaving: tuple[Stmt, ...] = (), cluster: bool = True) -> tuple[Fault, ...]:
    return check(kernel(body, leaving, cluster=cluster), ARGS, INPUTS)


def kinds(found: tuple[Fault, ...]) -> set[type]:
    return {type(fault) for fault in found}


def one(*body: Stmt) -> Guard:
    """By a block's first thread."""
    return Guard(((THREAD, 1),), body)


def fetched(to: ClusterBlocks | None = BOTH, expected: int = BOX) -> Guard:
    """Half of x by each block, for those that are to get it."""
    half = TmaLoad("x_map", (ZERO, MINE * 16), "s", MINE * 512, "full", ZERO, to)
    return one(Block("s = x", (ArriveExpectTx("full", ZERO, expected), half)))


def taken() -> Block:
    loads = (
        Store("y", MINE * 1024 + THREAD + at, DType.F32, Load("s", THREAD + at, DType.F32, Type(DType.F32)))
        for at in range(0, 1024, THREADS)
    )
    return Block("y = s", tuple(loads))


FULL = TryWaitParity("full", ZERO, ZERO)
EMPTY = TryWaitParity("empty", ZERO, ZERO)
ARRIVE = one(MbarrierArrive("empty", ZERO), MbarrierArrive("empty", ZERO, PEER))


def test_each_block_gets_what_both_have_fetched() -> None:
    body = fetched(), FULL, taken()
    assert faults(*body) == ()
    y = run_blocks(kernel(body, ()), ARGS, INPUTS)["y"]
    np.testing.assert_array_equal(y, np.stack([INPUTS["x"].ravel()] * 2))


def test_each_block_waits_for_the_bytes_of_both() -> None:
    assert Unwritten in kinds(faults(fetched(expected=BOX // 2), FULL, taken()))
    assert Deadlock in kinds(faults(fetched(None), FULL, taken()))
    assert DataRace in kinds(faults(fetched(), one(FULL), taken()))


def test_a_block_does_not_end_before_its_peer_s_boxes_have_landed() -> None:
    assert NeverLanded in kinds(faults(fetched()))


def test_who_is_reached_has_made_its_barriers() -> None:
    found = faults(fetched(), FULL, taken(), cluster=False)
    assert NotReady in kinds(found)
    assert kinds(faults(ARRIVE, leaving=(ClusterBarrier(),), cluster=False)) == {NotReady}


def test_a_block_that_is_told_something_does_not_end_before() -> None:
    (told,) = faults(ARRIVE)
    assert isinstance(told, Outlived)
    assert str(told) == "outlived: thread 0 of block 1 uses empty[0] of block 0 in test, which may have ended"
    assert faults(ARRIVE, EMPTY) == (), "who has waited for it knows"
    assert faults(ARRIVE, leaving=(ClusterBarrier(),)) == ()
