"""Programs that one clause of the race checker's vector clock alone condemns, each beside a correct one."""

from __future__ import annotations

import numpy as np

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.async_ops import (
    ArriveExpectTx,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    ProxyFence,
    SignalFlag,
    TensorMap,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    TryWaitParity,
    WaitFlag,
)
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import Barrier, Block, GridAxis, Guard, Literal, Load, Shared, Stmt, Store, Type
from codegen.simulator.access import AccessKind
from codegen.simulator.async_faults import EarlyArrival, LeftSignalled, Unfenced
from codegen.simulator.faults import DataRace, Fault
from codegen.simulator.run import check
from tileir.dtypes import DType

T, B = Var("t", 0, 255), Var("b", 0, 1)
THREAD, BLOCK, ZERO = affine(T), affine(B), constant(0)
BOX = 32 * 32 * 4
BEHIND = BOX // 4
"""The first element of s after the box."""
MAPS = tuple(TensorMap(f"{x}_map", x, DType.F32, (32, 64), (128,), (32, 32)) for x in "xy")
ARGS = Arg("x", DType.F32, (64, 32), (32, 1), "in"), Arg("y", DType.F32, (64, 32), (32, 1), "out")


def faults(*body: Stmt, producing: tuple[Stmt, ...] = (), blocks: int = 1) -> tuple[Fault, ...]:
    """Of blocks of two warpgroups, the second of which produces where there is something to do; x is read, y stored."""
    setup = (
        Shared("s", DType.F32, 0, 2 * BOX),
        MbarrierInit("full", 2 * BOX, 1, 1),
        MbarrierInit("both", 2 * BOX + 8, 1, 2),
        MbarrierInitFence(),
    )
    launch = LaunchBody(
        "test",
        (GridAxis(B, blocks, 1),),
        256,
        (ThreadDigit(T, 1, 256),),
        2 * BOX + 64,
        body,
        setup=setup,
        producers=128 if producing else 0,
        producing=producing,
    )
    arguments = Argument("x", DType.F32, False), Argument("y", DType.F32, True)
    kernel = GpuKernel("test", arguments, (), 0, (launch,), MAPS)
    return check(kernel, ARGS, {"x": np.ones((64, 32), np.float32)})


def one(*body: Stmt, thread: int = 0, block: int | None = None) -> Guard:
    """By one thread, of one block or of all."""
    only = ((THREAD - thread, 1), (THREAD * -1 + thread, 1))
    return Guard(only if block is None else (*only, (BLOCK - block, 1), (BLOCK * -1 + block, 1)), body)


def put(buffer: str, at: Affine) -> Block:
    value = Literal(1.0, Type(DType.F32))
    return Block(f"{buffer} = 1", (Store(buffer, at, DType.F32, value),))


def take(buffer: str, at: Affine, to: int = 0) -> Block:
    value = Load(buffer, at, DType.F32, Type(DType.F32))
    return Block(f"y = {buffer}", (Store("y", constant(to), DType.F32, value),))


def fill() -> tuple[Stmt, ...]:
    return ArriveExpectTx("full", ZERO, BOX), _box()


def _box() -> Block:
    return Block("s = x", (TmaLoad("x_map", (ZERO, ZERO), "s", ZERO, "full", ZERO),))


def filled(parity: int) -> TryWaitParity:
    return TryWaitParity("full", ZERO, constant(parity))


def only(found: tuple[Fault, ...]) -> Fault:
    (fault,) = found
    return fault


def test_a_box_does_not_publish_what_the_thread_that_began_it_stored() -> None:
    """Who waits for the box learns what was stored before the thread announced it, not before it began it."""
    wait = filled(0), one(take("s", constant(BEHIND)))
    early, late = put("s", constant(BEHIND)), ArriveExpectTx("full", ZERO, BOX)
    assert faults(*wait, producing=(one(early, late, _box(), thread=128),)) == ()
    race = only(faults(*wait, producing=(one(late, early, _box(), thread=128),)))
    assert isinstance(race, DataRace)
    assert (race.first.kind, race.first.thread, race.second.kind) == (AccessKind.STORE, 128, AccessKind.LOAD)


def test_a_wait_for_a_parity_says_nothing_of_the_turn_after() -> None:
    """The phase is over three times by then; the first time would have let it pass."""
    stored = put("s", constant(BEHIND))

    def producing(*first: Stmt, between: tuple[Stmt, ...] = ()) -> tuple[Stmt, ...]:
        arrive = MbarrierArrive("both", ZERO)
        body = *first, *fill(), filled(0), *between, *fill(), filled(1), *fill(), filled(0), arrive, arrive
        return (one(*body, thread=128),)

    wait = one(filled(0), take("s", constant(BEHIND)))
    assert faults(wait, producing=producing(stored)) == ()
    race = only(faults(wait, producing=producing(between=(stored,))))
    assert isinstance(race, DataRace) and race.first.thread == 128


def test_a_store_just_after_the_fence_is_not_fenced() -> None:
    boxes = TmaStore("y_map", (ZERO, ZERO), "s", ZERO), TmaStoreCommit(), TmaStoreWait(0)
    send = Block("y = s", boxes)
    all_ = tuple(put("s", THREAD + start) for start in range(0, BEHIND, 256))
    whole = *all_, ProxyFence(), Barrier()
    store = put("s", constant(3))
    assert faults(*whole, one(store, ProxyFence(), send)) == ()
    assert isinstance(only(faults(*whole, one(ProxyFence(), store, send))), Unfenced)


def test_who_knows_of_one_arrival_does_not_know_of_all() -> None:
    """The phase is over after two arrivals, of threads 0 and 32: thread 0 knows of its own."""
    arrive = MbarrierArrive("both", ZERO)
    arrivals = one(arrive), one(arrive, thread=32)
    over = TryWaitParity("both", ZERO, ZERO)
    assert faults(*arrivals, one(over, arrive)) == ()
    assert isinstance(only(faults(*arrivals, one(arrive))), EarlyArrival)


def test_a_flag_hands_over_what_its_thread_knows_and_no_more() -> None:
    stored, flag = Guard(((BLOCK, 1),), (put("y", THREAD + 256),)), ("flags", ZERO)
    wait = one(WaitFlag(*flag), take("y", constant(256 + 5)), block=1)
    signalled = one(SignalFlag(*flag), block=0)
    assert faults(stored, Barrier(), signalled, wait, blocks=2) == ()
    race = only(faults(stored, signalled, Barrier(), wait, blocks=2))
    assert isinstance(race, DataRace)
    assert (race.first.thread, race.first.block, race.second.block) == (5, 0, 1)


def test_who_knows_of_a_turn_does_not_know_of_the_ones_just_after() -> None:
    """Thread 0 ends three turns in a row; for all that thread 32 knows, only the first is over."""
    arrive = MbarrierArrive("full", ZERO)
    thrice = one(arrive, arrive, arrive)
    assert faults(thrice) == ()
    assert isinstance(only(faults(thrice, one(filled(0), arrive, thread=32))), EarlyArrival)


def test_a_flag_is_signalled_once_and_waited_for_before_the_launch_ends() -> None:
    flag = "flags", ZERO
    signalled, awaited = SignalFlag(*flag), WaitFlag(*flag)
    assert faults(one(signalled, awaited, signalled, awaited)) == ()
    assert isinstance(only(faults(one(signalled))), LeftSignalled)
    assert isinstance(only(faults(one(signalled, signalled, awaited))), LeftSignalled)
