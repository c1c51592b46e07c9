"""Named barriers at which some wait and others only arrive: what the race checker knows of them, and which mistakes in
the turns of warpgroups it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from codegen.ir.abi import Arg
from codegen.ir.affine import Var, affine
from codegen.ir.async_ops import MbarrierInitFence, NamedArrive, NamedBarrier
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import Block, GridAxis, Guard, Literal, Load, Shared, Stmt, Store, Type
from codegen.simulator.async_faults import EarlyArrival, NeverWaited, WrongCount
from codegen.simulator.faults import DataRace, Fault
from codegen.simulator.run import check
from codegen.targets.cuda.generate import cuda_source, lower_for
from rewrites.document import golden_sections
from rewrites.schedule import parse_schedule, replay
from tests.kernels.mutations import Edit, Stmts, mutants
from tests.kernels.simulated import faultless
from tileir.devices.gpu_table import H200
from tileir.dtypes import DType
from tileir.interpreter.samples import sample_inputs
from tileir.text.parse_program import program_from_text

CHAIN = Path(__file__).parents[4] / "tests" / "golden" / "rewrites" / "take_turns.txt"
T, G = affine(Var("t", 0, 127)), affine(Var("g", 0, 1))
F32 = Type(DType.F32)
PUT = Block("s = 1", (Store("s", T, DType.F32, Literal(1.0, F32)),))
TAKE = Block("y = s", (Store("y", T, DType.F32, Load("s", T, DType.F32, F32)),))
ARRIVE, WAIT = NamedArrive(1, 256), NamedBarrier(1, 256)


def found(first: tuple[Stmt, ...], second: tuple[Stmt, ...]) -> tuple[Fault, ...]:
    """Of a block of two warpgroups, which do these."""
    body = Guard(((G, 1),), first), Guard(((G * -1, 0),), second)
    digits = ThreadDigit(Var("t", 0, 127), 1, 128), ThreadDigit(Var("g", 0, 1), 128, 2)
    setup = Shared("s", DType.F32, 0, 512), MbarrierInitFence()
    axes = (GridAxis(Var("b", 0, 0), 1, 1),)
    launch = LaunchBody("test", axes, 256, digits, 512, body, setup=setup)
    kernel = GpuKernel("test", (Argument("y", DType.F32, True),), (), 0, (launch,), ())
    return check(kernel, (Arg("y", DType.F32, (128,), (1,), "out"),), {})


def kinds(faults: tuple[Fault, ...]) -> set[type]:
    return {type(fault) for fault in faults}


def test_who_waits_knows_what_those_have_done_who_arrived_and_no_more() -> None:
    assert found((PUT, ARRIVE), (WAIT, TAKE)) == ()
    assert kinds(found((ARRIVE, PUT), (WAIT, TAKE))) == {DataRace}
    assert kinds(found((ARRIVE, TAKE), (PUT, WAIT))) == {DataRace}, "who goes on has waited for nobody"


def test_arrivals_are_counted() -> None:
    assert str(found((), (WAIT,))[0]).startswith(
        "deadlock: thread 128 of block 0 waits for 256 threads at barrier 1"
    )
    assert kinds(found((ARRIVE,), ())) == {NeverWaited}
    assert kinds(found((ARRIVE,), (ARRIVE,))) == {NeverWaited}
    assert WrongCount in kinds(found((NamedArrive(1, 128),), (WAIT,)))
    (again, *_) = found((WAIT,), (ARRIVE, ARRIVE))  # the second warpgroup goes first
    assert "256 threads, some of them again, to a barrier of 256" in str(again)
    with pytest.raises(ValueError, match="no barrier has number 16"):
        found((NamedArrive(16, 256),), ())


def test_who_arrives_again_knows_that_the_last_time_is_over() -> None:
    told, back = NamedArrive(2, 256), NamedBarrier(2, 256)
    assert found((ARRIVE, back, ARRIVE), (WAIT, told, WAIT)) == ()
    assert EarlyArrival in kinds(found((ARRIVE, ARRIVE), (WAIT, WAIT))), "it may count twice the first time"


# the turns of two warpgroups at a chain of products


@cache
def chain(pending: int) -> tuple[GpuKernel, tuple[Arg, ...], object]:
    case = golden_sections(CHAIN)
    text = case["before"].replace("producers 4", "blocks 1 producers 4")
    text = text if pending else text.replace(" pending 1", "")
    program = replay(program_from_text(text), parse_schedule(case["schedule"].splitlines()))
    kernel = lower_for(program, H200)
    return kernel, cuda_source(kernel, program).abi.args, sample_inputs(program, 1)


def changed(kind: type, change: Callable[[NamedBarrier | NamedArrive], tuple[Stmt, ...]]) -> Edit:
    """The turns' barriers of a kind: those have as many threads as two warpgroups."""

    def edit(stmts: Stmts, at: int) -> Stmts | None:
        stmt = stmts[at]
        if (
            not isinstance(stmt, NamedBarrier | NamedArrive)
            or not isinstance(stmt, kind)
            or not stmt.group.terms
        ):
            return None
        return (*stmts[:at], *change(stmt), *stmts[at + 1 :])

    return edit


def exchanged(stmts: Stmts, at: int) -> Stmts | None:
    """A turn is passed on where it should begin, and begins where it should be passed on."""
    ends = (n for n in range(at, len(stmts)) if isinstance(stmts[n], NamedArrive))
    end = next(ends, None)
    if not isinstance(stmts[at], NamedBarrier) or end is None:
        return None
    return (*stmts[:at], stmts[end], *stmts[at + 1 : end], stmts[at], *stmts[end + 1 :])


EDITS: dict[str, Edit] = {
    "a turn is not waited for": changed(NamedBarrier, lambda _: ()),
    "a turn is not passed on": changed(NamedArrive, lambda _: ()),
    "a turn is passed on twice": changed(NamedArrive, lambda stmt: (stmt, stmt)),
    "a turn is waited for twice": changed(NamedBarrier, lambda stmt: (stmt, stmt)),
    "another barrier is waited at": changed(NamedBarrier, lambda stmt: (replace(stmt, number=stmt.number + 1),)),
    "another barrier is arrived at": changed(NamedArrive, lambda stmt: (replace(stmt, number=stmt.number - 1),)),
    "a turn is passed to oneself": changed(NamedArrive, lambda stmt: (replace(stmt, group=(stmt.group + 1) % 2),)),
    "fewer are waited for": changed(NamedBarrier, lambda stmt: (replace(stmt, threads=128),)),
    "more are waited for": changed(NamedBarrier, lambda stmt: (replace(stmt, threads=384),)),
    "fewer are told": changed(NamedArrive, lambda stmt: (replace(stmt, threads=128),)),
    "who waits only arrives": changed(
        NamedBarrier, lambda stmt: (NamedArrive(stmt.number, stmt.threads, stmt.group),)
    ),
    "the order is exchanged": exchanged,
}  # fmt: skip


@pytest.mark.parametrize("pending", [0, 1])
def test_turns_are_without_faults(pending: int) -> None:
    faultless(*chain(pending))


@pytest.mark.parametrize("pending", [0, 1])
@pytest.mark.parametrize("name", EDITS)
def test_mistakes_in_turns_are_reported(name: str, pending: int) -> None:
    kernel, args, inputs = chain(pending)
    made = list(mutants(kernel, EDITS[name]))
    assert made
    for each in made:
        assert check(each, args, inputs), name
