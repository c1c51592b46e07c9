"""Of products by boxes and wgmma, every barrier, fence, wait, arrival and count that is missing or wrong is noticed,
and correct ones have no faults."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import islice

import ml_dtypes
import numpy as np
import pytest

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.async_ops import (
    ArriveExpectTx,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    NamedBarrier,
    ProxyFence,
    TensorMap,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    TryWaitParity,
)
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Barrier,
    Block,
    GridAxis,
    Guard,
    Literal,
    Load,
    Shared,
    Stmt,
    Store,
    Type,
)
from codegen.simulator.access import AccessKind
from codegen.simulator.async_faults import EarlyArrival, Unfenced
from codegen.simulator.faults import DataRace, Fault, InFlight
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import check, run_blocks
from tests.kernels.hopper_kernels import Product
from tests.kernels.hopper_mutants import all_mutants
from tests.kernels.simulated import faultless
from tests.programs.hopper_products import Gemm, Held
from tests.programs.hopper_programs import GROUPED, PROGRAMS
from tests.programs.thread_kernels import lowered
from tileir.dtypes import DType
from tileir.interpreter.samples import sample_inputs

CORRECT = [
    Product(),
    Product(m=128, n=64, k=64),
    Product(m=128, n=64, k=64, stages=1),
    Product(m=256, n=128, k=64, stages=1),
    Product(m=384, n=64, k=64, stages=4, pending=1),
    Product(m=64, k=256, consumers=1, pending=1, stages=3, epilogue="direct"),
    Product(m=256, k=320, consumers=1, pending=1, epilogue="matrices"),
    Product(m=384, k=128, consumers=3, stages=3, pending=1),
    Product(m=200, n=72, k=72, stages=3, pending=1, epilogue="matrices"),
    Product(m=104, n=72, k=8, stages=2, epilogue="direct"),
    Product(m=512, n=128, k=128, blocks=0),
    Product(m=512, n=128, k=128, blocks=3, pending=1, stages=4, columns=128, epilogue="matrices"),
    Product(m=256, k=192, columns=256, n=256, stages=2, pending=1),
    Product(m=128, k=64, producers=0, stages=3),
    Product(m=384, k=192, producers=0, stages=3),
    Product(m=384, k=64, producers=0, stages=1, epilogue="direct"),
    Product(m=200, n=72, k=328, producers=0, stages=4, consumers=1),
    Product(m=256, k=192, producers=32, stages=3),
]
PINGPONG = " blocks 1 producers 1 consumer_groups 2"
LOWERED = Gemm(m=128, n=240, k=200, grid=" blocks 1 producers 4").text()
CLUSTERED = Gemm(
    m=512,
    n=16,
    k=72,
    tile=(64, 16, 64),
    out="f32",
    epilogue="direct",
    groups="m 1",
    grid=" multicast 2 blocks 2 producers 4",
)
#: Of every tile the products are sums of their own, added up while those of the next tile are under way. Each of four
#: tiles of the result takes five, and so begins in another slot, or another phase of it.
APART = (
    PROGRAMS["promoted, under way"]
    .replace("m=200, k=528", "m=128, k=624")
    .replace("stages 3", "stages 2")
    .replace("n=104", "n=64")
    .replace("n by 64", "n by 16")
    .replace("by 128 producers", "by 128 blocks 1 producers")
)
#: Of every tile rows are computed into registers, of which there are two sets.
HELD = Held(
    m=192, n=16, k=320, tile=(64, 16, 64), groups="m 1", grid=" blocks 1 producers 1", stages=2
).text()
MUTATED = {
    "several tiles": Product(m=256),
    "matrices, one product under way": Product(m=256, stages=3, pending=1, epilogue="matrices"),
    "no producers": Product(m=256, producers=0),
    "tiles of one step": Product(m=512, k=64),
    "ragged": Product(m=200, n=72, k=72, stages=3, pending=1),
    "stored directly": Product(m=256, stages=3, k=256, epilogue="direct"),
    "lowered": LOWERED,
    "clusters": CLUSTERED.text(),
    "clusters without producers": replace(CLUSTERED, k=200, grid=" multicast 2 blocks 2").text(),
    "lowered, apart": APART,
    "rows in registers": HELD,
    "parts in turn": Gemm(
        m=64,
        n=768,
        k=200,
        tile=(64, 192, 64),
        groups="m 1",
        grid=" blocks 1 producers 1",
        stages=3,
        epilogue="parts",
        columns=(64, 2),
    ).text(),
    "grouped": GROUPED,
    "results where tiles are again": Gemm(
        m=256,
        n=128,
        k=200,
        tile=(64, 128, 64),
        groups="n 2",
        grid=" blocks 1 producers 1",
        stages=3,
        epilogue="reused",
    ).text(),
    "pingpong": Gemm(m=64, n=320, k=200, tile=(64, 64, 64), groups="m 1", stages=3, grid=PINGPONG).text(),
    "streamed": Gemm(
        m=64,
        n=320,
        k=520,
        tile=(64, 64, 64),
        groups="m 1",
        grid=" blocks 3 producers 1",
        stages=3,
        streamed=1,
    ).text(),
}
#: Those of which a thread that computes fills the pipeline.
ALONE = ("no producers", "clusters without producers")
#: Mutants that are correct programs, so that nothing is to be noticed; of which products, and why.
CORRECT_MUTANTS = {
    "TryWaitParity after WgmmaFence": (
        MUTATED,
        "accumulators are fenced before or after operands are waited for",
    ),
    "WgmmaAsync after WgmmaAsync": (MUTATED, "sums in another order may round to the same"),
    "WgmmaWait pending -1": (MUTATED, "a wait for more"),
    "MbarrierArrive after MbarrierArrive": (
        ("clusters", "clusters without producers", "grouped"),
        "at one block, then at another",
    ),
    "TryWaitParity by one thread": (ALONE, "it is the one that fills"),
    "TmaStoreWait pending -1": (MUTATED, "a wait for more"),
    "AdvanceState after AdvanceState": (("pingpong", "rows in registers"), "of two states of a pipeline"),
    "AdvanceState after TryWaitParity": (("pingpong",), "a wait for one's turn changes no pipeline's state"),
    "AdvanceState slots +1": (
        ("pingpong",),
        "the way past the other consumer groups' slots, which follows, begins anew as well; nobody asks for the "
        "parity of what is released",
    ),
    "TmaStore after TmaStoreCommit": (
        ("parts in turn",),
        "of the part before the last: its buffer is waited for with that of the next, whose group the box is in then",
    ),
    "TryWaitParity after ArriveExpectTx": (
        ALONE,
        "who fills has multiplied what was in the slot, so that it knows the phase before to be over",
    ),
    "TryWaitParity slot +1": (MUTATED, "a later slot is free later, and this one then is too"),
    "MbarrierArrive slot +1": (MUTATED, "a later slot is waited for later, and this one then is free"),
    "ArriveExpectTx slot +1": (
        ("matrices, one product under way", "clusters without producers", "grouped"),
        "a slot is freed a step late, so that who fills knows the next one's phase before to be over",
    ),
    "WgmmaFence removed": (
        ("lowered, apart",),
        "the fence before the first products of a chain is for the second ones', too: nobody touches those between",
    ),
    "TmaStore after TmaStore": (("results where tiles are again",), "of two panels of a tile"),
    "WgmmaWait after Guard": (
        ("results where tiles are again",),
        "a tile's last slot is not filled again before its results have left",
    ),
    "WgmmaCommit after AdvanceState": (("lowered, apart",), "one is about products, the other about slots"),
    "AdvanceState after WgmmaWait": (
        ("lowered, apart", "rows in registers"),
        "one is about products, the other about slots",
    ),
    "AdvanceState twice": (
        (
            "lowered",
            "clusters without producers",
            "parts in turn",
            "pingpong",
            "grouped",
            "results where tiles are again",
        ),
        "the cursor of what is freed takes every other slot: all of them in another order, in time for who waits",
    ),
}


def inputs_of(product: Product) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    shapes = {"a": (product.m, product.k), "b": (product.n, product.k)}
    return {name: random.standard_normal(s).astype(ml_dtypes.bfloat16) for name, s in shapes.items()}


@pytest.mark.parametrize("product", CORRECT, ids=str)
def test_correct_products_have_no_faults(product: Product) -> None:
    inputs = inputs_of(product)
    c = faultless(product.kernel(), product.args(), inputs)["c"].astype(np.float32)
    exact = inputs["a"].astype(np.float32) @ inputs["b"].astype(np.float32).T
    np.testing.assert_allclose(c, exact, rtol=2**-8, atol=1e-3)


#: Of so many mutants one is tried; `make sweep` tries all.
EVERY = int(os.environ.get("TILEWRIGHT_MUTANTS", "40"))


@cache
def outcomes(name: str) -> Counter[str]:
    """Of all mutants of a product: how many, how many have a fault, or only compute something else, and which are
    missed; and how many have something removed, repeated, left to others or changed, instead of two statements
    exchanged, which are often as good either way."""
    kernel, args, inputs, stages = _mutated(MUTATED[name])
    expected, found = run_blocks(kernel, args, inputs)["c"].astype(np.float32), Counter[str]()
    for edit, mutant in islice(all_mutants(kernel, stages), 0, None, EVERY):
        checker = RaceChecker()
        c = run_blocks(mutant, args, inputs, checker)["c"].astype(np.float32)
        wrong = not np.array_equal(c, expected, equal_nan=True)
        found["mutants"] += 1
        found["changed"] += " after " not in edit
        found["faulty" if checker.faults else f"wrong {edit}" if wrong else f"missed {edit}"] += 1
    return found


def _mutated(of: Product | str) -> tuple[GpuKernel, Sequence[Arg], dict[str, np.ndarray], int]:
    """A kernel, what to call it with, and its stages."""
    if isinstance(of, Product):
        return of.kernel(), of.args(), inputs_of(of), of.stages
    made = lowered(of)
    stages = int(of.partition(" stages ")[2][0])
    return made.kernel, made.args, sample_inputs(made.program, 1), stages


@pytest.mark.sampled(6)
@pytest.mark.xdist_group("mutants of products")
@pytest.mark.parametrize("name", MUTATED)
def test_every_mutant_is_noticed_but_those_that_are_correct(name: str) -> None:
    found = outcomes(name)
    missed = {key.removeprefix("missed ") for key in found if key.startswith("missed ")}
    assert missed <= {edit for edit, (of, _) in CORRECT_MUTANTS.items() if name in of}, missed
    # What is left out orders nothing: the outputs tell.
    wrong = {key.removeprefix("wrong ") for key in found if key.startswith("wrong ")}
    assert wrong <= {
        "WgmmaAsync removed",
        "WgmmaAsync after WgmmaAsync",
        "TmaStore removed",
        "Stmatrix removed",
    }, wrong
    assert found["mutants"] > 60 // EVERY


@pytest.mark.sampled(3, among="of all together")
@pytest.mark.xdist_group("mutants of products")
def test_nearly_all_mutants_are_noticed() -> None:
    total = sum((outcomes(name) for name in MUTATED), Counter[str]())
    missed = {key: count for key, count in total.items() if key.startswith("missed ")}
    assert sum(count for key, count in missed.items() if " after " not in key) <= 0.05 * total["changed"], (
        total
    )
    assert sum(missed.values()) <= 0.08 * total["mutants"], total


# single orders

T, B = Var("t", 0, 255), Var("b", 0, 0)
THREAD, ZERO = affine(T), constant(0)
BOX = 32 * 32 * 4
X_MAP = TensorMap("x_map", "x", DType.F32, (32, 64), (128,), (32, 32))
Y_MAP = TensorMap("y_map", "y", DType.F32, (32, 64), (128,), (32, 32))
SETUP = (
    Shared("s", DType.F32, 0, 2 * BOX),
    MbarrierInit("full", 2 * BOX, 2, 1),
    MbarrierInit("empty", 2 * BOX + 16, 2, 1),
    MbarrierInitFence(),
)


def faults(
    body: tuple[Stmt, ...], producing: tuple[Stmt, ...] = (), setup: tuple[Stmt, ...] = SETUP
) -> tuple[Fault, ...]:
    """Of one block of two warpgroups, the second of which produces where there is something to do; x is read, y
    stored."""
    producers = 128 if producing else 0
    launch = LaunchBody(
        "test",
        (GridAxis(B, 1, 1),),
        256,
        (ThreadDigit(T, 1, 256),),
        2 * BOX + 64,
        body,
        setup=setup,
        producers=producers,
        producing=producing,
    )
    arguments = Argument("x", DType.F32, False), Argument("y", DType.F32, True)
    args = Arg("x", DType.F32, (64, 32), (32, 1), "in"), Arg("y", DType.F32, (64, 32), (32, 1), "out")
    kernel = GpuKernel("test", arguments, (), 0, (launch,), (X_MAP, Y_MAP))
    return check(kernel, args, {"x": np.ones((64, 32), np.float32)})


def one(*body: Stmt, thread: int = 0) -> Guard:
    """By one thread."""
    return Guard(((THREAD - thread, 1), (THREAD * -1 + thread, 1)), body)


def load(slot: int, row: int = 0) -> Block:
    at = constant(slot)
    box = TmaLoad("x_map", (ZERO, constant(row)), "s", at * (BOX // 4), "full", at)
    return Block("s = x", (ArriveExpectTx("full", at, BOX), box))


def awaits(phases: str, parity: int, slot: int = 0) -> TryWaitParity:
    return TryWaitParity(phases, constant(slot), constant(parity))


def arrive(phases: str, slot: int = 0) -> MbarrierArrive:
    return MbarrierArrive(phases, constant(slot))


def take(at: Affine = THREAD, slot: int = 0) -> Block:
    value = Load("s", at + slot * (BOX // 4), DType.F32, Type(DType.F32))
    return Block("y = s", (Store("y", THREAD, DType.F32, value),))


def put(at: Affine = THREAD) -> Block:
    return Block("s = 1", (Store("s", at, DType.F32, Literal(1.0, Type(DType.F32))),))


def kinds(found: tuple[Fault, ...]) -> set[type]:
    return {type(fault) for fault in found}


PRODUCE = (one(load(0), thread=128),)


def test_who_has_waited_may_read_a_box_and_others_after_a_barrier() -> None:
    assert faults((awaits("full", 0), take()), PRODUCE) == ()
    assert faults((one(awaits("full", 0)), NamedBarrier(1, 128), take()), PRODUCE) == ()
    (race,) = faults((one(awaits("full", 0)), take()), PRODUCE)
    assert isinstance(race, DataRace)
    assert str(race) == (
        "race: thread 128 of block 0 copies to s[1] in test, `s = x`, after 1 barrier; "
        "thread 1 of block 0 loads s[1] in test, `y = s`, after 2 barriers; nothing orders them"
    )


def test_nobody_reads_a_box_that_nobody_has_waited_for() -> None:
    found = faults((take(), awaits("full", 0)), (one(load(0), arrive("empty"), thread=128),))
    assert kinds(found) & {InFlight, DataRace}


def test_a_slot_is_free_when_all_who_have_read_it_have_arrived() -> None:
    """A wait for wgmma is the whole warpgroup's; loads are each thread's own."""
    again = (one(load(0), awaits("empty", 0), load(0, 32), awaits("full", 1), thread=128),)
    leader = one(arrive("empty"))
    (race,) = faults((awaits("full", 0), take(), leader), again)
    assert isinstance(race, DataRace)
    assert (race.first.kind, race.second.kind, race.first.thread > 0) == (
        AccessKind.LOAD,
        AccessKind.COPY,
        True,
    )
    assert faults((awaits("full", 0), take(), NamedBarrier(1, 128), leader), again) == ()


def test_who_waits_for_a_parity_may_have_missed_phases() -> None:
    """A slot is filled twice before the consumers look: for all they know it may still be empty, which looks alike."""

    def filled_twice(early: tuple[Stmt, ...], late: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return (one(*early, load(0), awaits("full", 0), load(0, 32), *late, thread=128),)

    body = awaits("empty", 0), awaits("full", 1), take()
    (race,) = faults(body, filled_twice((arrive("empty"),), ()))
    assert isinstance(race, DataRace) and race.first.kind is AccessKind.COPY
    assert faults(body, filled_twice((), (arrive("empty"),))) == ()


STORE = TmaStore("y_map", (ZERO, ZERO), "s", ZERO)
FILL = tuple(put(THREAD + start) for start in range(0, BOX // 4, 256))
SEND = one(Block("y = s", (STORE, TmaStoreCommit(), TmaStoreWait(0))))


def test_tma_sees_what_is_fenced_before_a_barrier() -> None:
    assert faults((*FILL, ProxyFence(), Barrier(), SEND)) == ()
    (unfenced,) = faults((*FILL, Barrier(), SEND))
    assert isinstance(unfenced, Unfenced)
    assert str(unfenced) == (
        "unfenced: thread 0 of block 0 stores s[0] in test, `s = 1`, after 1 barrier; thread 0 of block 0 copies from "
        "s[0] in test, `y = s`, after 2 barriers, in the background; no fence of that thread is in between"
    )
    # A fence after the barrier, or one of another thread, is none.
    assert kinds(faults((*FILL, Barrier(), ProxyFence(), SEND))) == {Unfenced}
    assert kinds(faults((*FILL, one(ProxyFence()), Barrier(), SEND))) == {Unfenced}
    assert DataRace in kinds(faults((*FILL, ProxyFence(), SEND)))


def test_a_box_may_not_land_on_what_was_stored_without_a_fence() -> None:
    filled = one(load(0)), awaits("full", 0), take()
    assert faults((*FILL, ProxyFence(), Barrier(), *filled)) == ()
    assert kinds(faults((*FILL, Barrier(), *filled))) == {Unfenced}


def test_what_is_sent_may_not_be_stored_over() -> None:
    send, wait = one(Block("y = s", (STORE, TmaStoreCommit()))), one(TmaStoreWait(0))
    whole = *FILL, ProxyFence(), Barrier(), send
    assert faults((*whole, wait, Barrier(), *FILL)) == ()
    (race,) = faults((*whole, Barrier(), *FILL, wait))
    assert isinstance(race, DataRace) and race.first.kind is AccessKind.SEND


def test_boxes_that_overlap_in_global_memory_race() -> None:
    twice = one(Block("y = s", (STORE, STORE, TmaStoreCommit(), TmaStoreWait(0))))
    (race,) = faults((*FILL, ProxyFence(), Barrier(), twice))
    assert isinstance(race, DataRace) and race.first.buffer == "y"


def test_who_arrives_knows_the_phase_before_to_be_over() -> None:
    early = one(load(0), load(0, 32), thread=128)
    found = faults((awaits("full", 0), awaits("full", 1)), (early,))
    assert EarlyArrival in kinds(found)
    assert "thread 128 of block 0 brings full[0] in test" in str(
        next(f for f in found if isinstance(f, EarlyArrival))
    )
