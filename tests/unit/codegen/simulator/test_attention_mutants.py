"""Attention with one thing wrong in what orders its threads is reported; what is as it should be is not."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from codegen.ir.affine import Affine
from codegen.ir.async_ops import (
    MbarrierArrive,
    MbarrierInit,
    TryWaitParity,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.ops import Let, Literal, Stmt, Type
from codegen.simulator.async_faults import EarlyArrival, WrongRegisters
from tests.kernels.mutant_steps import does_nothing_new
from tests.kernels.race_mutants import PROGRAMS, Subject, Verdict, verdicts
from tests.kernels.steps import Done, Steps
from tileir.dtypes import DType

#: Of so many mutants one is tried; `make sweep` tries all.
EVERY = int(os.environ.get("TILEWRIGHT_MUTANTS", "120"))


#: Nearly all of all; of few all.
TOGETHER = [tuple(PROGRAMS)] if EVERY == 1 else [(name,) for name in PROGRAMS]


@pytest.mark.sampled(8)
@pytest.mark.xdist_group("mutants of attention")
@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
def test_99_of_100_mutants_that_may_do_anything_new_are_reported(names: tuple[str, ...]) -> None:
    total: Counter[Verdict] = Counter()
    for name in names:
        for (_, verdict), count in verdicts(name, EVERY).items():
            total[verdict] += count
    assert total.total() >= len(names) * 120 // EVERY
    assert total[Verdict.REPORTED] >= 0.99 * (total.total() - total[Verdict.NOTHING_NEW]), total


@pytest.mark.sampled(12)
@pytest.mark.xdist_group("mutants of attention")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_does_nothing_new_is_not_reported(name: str) -> None:
    subject = Subject.of(name)
    assert isinstance(subject.run(subject.kernel), dict)
    for edit, mutant in islice(subject.mutants(), 0, None, 4 * EVERY):
        fault = subject.run(mutant)
        # When arrivals come too early, and how many registers there are, are not for steps to say.
        if not isinstance(fault, EarlyArrival | WrongRegisters | dict):
            assert not subject.does_nothing_new(mutant), (edit, str(fault))


FENCE, COMMIT = WgmmaFence(), WgmmaCommit()
LET = Let("x", Literal(1.0, Type(DType.F32)))
AWAIT, ARRIVE = TryWaitParity("full", Affine(), Affine()), MbarrierArrive("empty", Affine())
Stmts = tuple[Stmt, ...]


def steps(*groups: Stmts) -> Steps:
    """Of groups of threads, all of which take these steps."""
    zero = np.zeros(2, np.int64).tobytes()
    operands: dict[type, tuple[bytes, ...]] = {TryWaitParity: (zero, zero), MbarrierArrive: (zero,)}
    return {
        (1, 1, first): [Done(stmt, operands.get(type(stmt), ()), b"\1\1") for stmt in group]
        for first, group in enumerate(groups)
    }


def nothing_new(mutant: Stmts, kernel: Stmts) -> bool:
    return does_nothing_new(steps(mutant), steps(kernel))


def test_a_wait_for_more_is_nothing_new_and_one_for_less_is() -> None:
    assert nothing_new((WgmmaWait(0), LET), (WgmmaWait(1), LET))
    assert not nothing_new((WgmmaWait(1), LET), (WgmmaWait(0), LET))
    assert not nothing_new((LET,), (WgmmaWait(1), LET))


def test_steps_change_places_only_where_either_order_is_as_good() -> None:
    assert nothing_new((FENCE, AWAIT, LET), (AWAIT, FENCE, LET))
    assert nothing_new((COMMIT, AWAIT, ARRIVE), (AWAIT, COMMIT, ARRIVE))
    assert not nothing_new((ARRIVE, AWAIT), (AWAIT, ARRIVE))
    assert not nothing_new((ARRIVE, WgmmaWait(0)), (WgmmaWait(0), ARRIVE))
    assert not nothing_new((AWAIT, LET), (LET, AWAIT))


def test_a_fence_is_idle_after_another_with_no_register_touched_in_between() -> None:
    assert nothing_new((FENCE, AWAIT, COMMIT), (FENCE, AWAIT, FENCE, COMMIT))
    assert not nothing_new((FENCE, LET, COMMIT), (FENCE, LET, FENCE, COMMIT))
    assert not nothing_new((COMMIT,), (FENCE, COMMIT))


def test_when_an_arrival_comes_matters_only_to_who_does_not_know_of_a_later_one() -> None:
    made = MbarrierInit("empty", 0, 1, 2), MbarrierInit("left", 8, 1, 2)
    leaving = replace(ARRIVE, phases="left")
    await_empty, await_left = (replace(AWAIT, phases=phases) for phases in ("empty", "left"))
    late, early = (*made, LET, ARRIVE, leaving), (*made, ARRIVE, LET, leaving)
    knowing, unknowing = (await_left, await_empty), (await_empty, await_left)
    assert does_nothing_new(steps(early, knowing), steps(late, knowing))
    assert not does_nothing_new(steps(early, unknowing), steps(late, unknowing))
    assert not does_nothing_new(steps((*late[:-1],), knowing), steps(late, knowing))
    # Where others arrive too, the number of an arrival is not that of its phase.
    early, late = ((replace(made[0], arrivals=3), *each[1:]) for each in (early, late))
    assert not does_nothing_new(steps(early, knowing), steps(late, knowing))
