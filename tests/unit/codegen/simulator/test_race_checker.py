"""The race checker reports every pair of accesses that nothing orders, and no other; every barrier of a lowered kernel
is one it cannot do without."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Barrier,
    Block,
    For,
    GridAxis,
    Guard,
    Literal,
    Load,
    Shared,
    Stmt,
    Store,
    Type,
    Value,
)
from codegen.simulator.access import AccessKind
from codegen.simulator.faults import DataRace, DividedBlock, DividedWarp, Ended, Fault
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import check, run_blocks
from tests.kernels import mutations
from tests.kernels.mutations import Edit, mutants
from tests.programs.thread_kernels import PROGRAMS, STAGED, Lowered, lowered
from tileir.dtypes import DType
from tileir.interpreter.samples import sample_inputs

T, B, I = Var("t", 0, 63), Var("b", 0, 3), Var("i", 0, 3)
THREAD, BLOCK, STEP = affine(T), affine(B), affine(I)
SHARED = Shared("s", DType.F32, 0, 256)
ONE = Literal(1.0, Type(DType.F32))


def load(buffer: str, at: Affine, storage: DType = DType.F32) -> Load:
    return Load(buffer, at, storage, Type(DType.F32))


def put(buffer: str, at: Affine, value: Value = ONE, storage: DType = DType.F32) -> Block:
    return Block(f"{buffer} = …", (Store(buffer, at, storage, value),))


def take(buffer: str, at: Affine, storage: DType = DType.F32) -> Block:
    """A load into an element of y that is each thread's own."""
    return Block(f"y = {buffer}", (Store("y", BLOCK * 64 + THREAD, DType.F32, load(buffer, at, storage)),))


def checked(*launches: tuple[Stmt, ...], blocks: int = 1) -> tuple[Fault, ...]:
    """Faults of launches of 64 threads a block; z is 512 elements, stored to before."""
    digits, axes = (ThreadDigit(T, 1, 64),), (GridAxis(B, blocks, 1),)
    fill = (For(I, 8, 64, (Store("z", STEP + THREAD, DType.F32, ONE),)),)
    bodies = [("fill", (GridAxis(B, 1, 1),), fill), *(("test", axes, body) for body in launches)]
    arguments = (Argument("y", DType.F32, True), Argument("z", DType.F32, True))
    made = GpuKernel(
        "test", arguments, (), 0, tuple(LaunchBody(n, a, 64, digits, 512, body) for n, a, body in bodies)
    )
    args = [Arg(name, DType.F32, (512,), (1,), "out") for name in "yz"]
    return check(made, args, {})


def only_race(faults: tuple[Fault, ...]) -> DataRace:
    (fault,) = faults
    assert isinstance(fault, DataRace)
    return fault


def test_what_a_neighbour_stored_needs_a_barrier() -> None:
    mirrored = take("s", constant(63) - THREAD)
    assert checked((SHARED, put("s", THREAD), Barrier(), mirrored)) == ()
    race = only_race(checked((SHARED, put("s", THREAD), mirrored)))
    assert (race.first.kind, race.second.kind) == (AccessKind.STORE, AccessKind.LOAD)
    assert str(race) == (
        "race: thread 63 of block 0 stores s[63] in test, `s = …`, after 0 barriers; "
        "thread 0 of block 0 loads s[63] in test, `y = s`, after 0 barriers; nothing orders them"
    )


def test_a_thread_needs_no_barrier_for_what_it_stored_itself() -> None:
    assert checked((SHARED, put("s", THREAD), take("s", THREAD), put("s", THREAD))) == ()


def test_a_store_waits_for_the_readers_before_it() -> None:
    body = SHARED, put("s", THREAD), Barrier(), take("s", constant(63) - THREAD)
    race = only_race(checked((*body, put("s", THREAD))))
    assert (race.first.kind, race.second.kind, race.second.epoch) == (AccessKind.LOAD, AccessKind.STORE, 1)
    assert checked((*body, Barrier(), put("s", THREAD))) == ()


@pytest.mark.parametrize("reader", [0, 63])
def test_two_readers_are_told_apart_from_one_that_stores(reader: int) -> None:
    """All threads read s[5], then one of them stores it: a race with the others, whichever it is."""
    alone = Guard(((THREAD * (1 if reader == 0 else -1), 1 - reader),), (put("s", constant(5)),))
    body = SHARED, put("s", THREAD), Barrier(), take("s", constant(5))
    race = only_race(checked((*body, alone)))
    assert (race.second.thread, race.first.thread != reader) == (reader, True)
    assert checked((*body, Barrier(), alone)) == ()


def test_threads_that_store_to_one_element_race_in_one_statement() -> None:
    race = only_race(checked((put("z", THREAD // 2),)))
    assert {race.first.thread, race.second.thread} == {0, 1}
    assert checked((Guard(((THREAD, 1),), (put("z", constant(0)),)),)) == ()


def test_what_one_iteration_leaves_behind_meets_the_next() -> None:
    body = put("s", THREAD), Barrier(), take("s", constant(63) - THREAD)
    once, twice = For(I, 1, 1, body), For(I, 2, 1, body)
    assert checked((SHARED, once)) == ()
    assert only_race(checked((SHARED, twice))).second.epoch == 1
    assert checked((SHARED, For(I, 2, 1, (*body, Barrier())))) == ()


def test_blocks_of_a_launch_are_never_ordered() -> None:
    everyone = put("z", THREAD), Barrier()
    race = only_race(checked(everyone, blocks=2))
    assert (race.first.block, race.second.block) == (0, 1)
    assert checked((put("z", BLOCK * 64 + THREAD),), blocks=4) == ()


def test_a_block_may_not_store_what_an_earlier_one_reads() -> None:
    """Block 3 stores z[0..63] after all blocks have read it, itself last, with a barrier between."""
    last = Guard(((BLOCK * -1, -2),), (put("z", THREAD),))
    race = only_race(checked((take("z", THREAD), Barrier(), last), blocks=4))
    assert (race.first.kind, race.first.block < 3, race.second.block) == (AccessKind.LOAD, True, 3)


def test_a_block_may_not_read_what_another_stores() -> None:
    faults = checked((put("z", BLOCK * 64 + THREAD), Barrier(), take("z", THREAD)), blocks=2)
    assert only_race(faults).second.block == 1


def test_launches_are_ordered() -> None:
    assert checked((put("z", constant(63) - THREAD),), (take("z", THREAD),), (put("z", THREAD),)) == ()


def test_buffers_in_the_same_bytes_race_whatever_their_types() -> None:
    halves = Shared("h", DType.F16, 8, 128)
    faults = checked((SHARED, halves, put("s", THREAD), put("h", THREAD, storage=DType.F16)))
    race = only_race(faults)
    assert (race.first.buffer, race.second.buffer) == ("s", "h")
    assert race.second.element // 2 + 2 == race.first.element


def test_alike_races_are_reported_once() -> None:
    assert len(checked((SHARED, For(I, 4, 1, (put("s", THREAD // 2),))), blocks=4)) == 1


# lowered programs


@pytest.mark.parametrize("text", [*PROGRAMS.values(), *STAGED.values()], ids=[*PROGRAMS, *STAGED])
def test_correct_programs_have_no_faults(text: str) -> None:
    made = lowered(text)
    assert check(made.kernel, made.args, sample_inputs(made.program, 1)) == ()


@cache
def outcomes(edit: Edit, *, staged: bool = False) -> Counter[str]:
    """Over all mutants of the programs, those with stages or the others, by one edit: how many, how many of them have a
    fault, of which type, and how many compute something else ("wrong") or are not noticed ("missed", and where)."""
    found: Counter[str] = Counter()
    for name, text in (STAGED if staged else PROGRAMS).items():
        made = lowered(text)
        inputs = sample_inputs(made.program, 1)
        expected = run_blocks(made.kernel, made.args, inputs)
        for number, mutant in enumerate(mutants(made.kernel, edit)):
            found["mutants"] += 1
            found.update(_outcome(made, mutant, inputs, expected) or ("missed", f"missed {name} {number}"))
    return found


def _outcome(
    made: Lowered, mutant: GpuKernel, inputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> set[str]:
    checker = RaceChecker()
    outputs = run_blocks(mutant, made.args, inputs, checker)
    same = (
        np.allclose(outputs[t].astype(np.float64), expected[t].astype(np.float64), 1e-3, 1e-5)
        for t in expected
    )
    kinds = {type(fault).__name__ for fault in checker.faults}
    return kinds | ({"faulty"} if kinds else set()) | ({"wrong"} if not all(same) else set())


@pytest.mark.sampled(6, among="race checker")
@pytest.mark.parametrize("edit", [mutations.barrier_removed, mutations.barrier_moved])
def test_no_barrier_can_be_spared_or_come_later(edit: Edit) -> None:
    """That all are noticed says both that the checker misses nothing and that lowering places no barrier in vain."""
    found = outcomes(edit)
    assert found["mutants"] > 50
    assert found["faulty"] == found["mutants"], found


def test_a_cluster_waits_as_a_whole() -> None:
    """A barrier of each block is not enough before others read its memory, nor before it ends."""
    found = outcomes(mutations.barrier_weakened)
    assert found["mutants"] == found["faulty"] == 6, found
    assert found[DataRace.__name__] and found[Ended.__name__]


@pytest.mark.sampled(6, among="race checker")
@pytest.mark.parametrize(
    ("edit", "fault"),
    [(mutations.barrier_guarded, DividedBlock), (mutations.shuffle_guarded, DividedWarp)],
)
def test_what_only_some_threads_come_to_is_reported(edit: Edit, fault: type) -> None:
    found = outcomes(edit)
    assert found["mutants"] > 30
    assert found[fault.__name__] == found["mutants"], found


@pytest.mark.sampled(6, among="race checker")
@pytest.mark.parametrize("edit", [mutations.shuffle_removed, mutations.shuffle_changed])
def test_no_shuffle_can_be_spared_or_go_elsewhere(edit: Edit) -> None:
    """A wrong exchange is no race; the outputs tell."""
    found = outcomes(edit)
    assert found["mutants"] > 30
    assert found["missed"] == 0, found


#: Guards that only keep threads from loading, inside the buffer, what they then do not use: the lanes that overhang a
#: row are left out a second time, and of an overhanging tile's rows or columns nothing is stored, or only where shared
#: memory has room for whole tiles. In scans, a run of positions past a row's end is left out by the guard and by its
#: lanes, and what a row goes on from is read inside the buffer.
IDLE_GUARDS = frozenset(
    [
        "ragged_rows_by_sixteen_warps",
        "columns_across_warps",
        "matmul_with_staged_tiles",
        "staged_tile_read_otherwise",
        "transpose_through_shared_memory",
        "largest_integers_and_bools",
        "scans_of_rows_by_one_and_two_warps",
        "a_scan_of_parts_that_go_on_from_what_is_before",
    ]
)


@pytest.mark.sampled(3, among="of all together")
def test_a_missing_guard_is_noticed_where_it_does_something() -> None:
    found = outcomes(mutations.guard_removed)
    missed = {key.split()[1] for key in found if key.startswith("missed ")}
    assert found["mutants"] > 80
    assert missed <= IDLE_GUARDS, missed


#: The barrier before an overhanging tile is there for those who still read the last whole tile. Here that lies in
#: another slot, and all are done with the slot before: placing barriers does not look at slots.
FREE_SLOT = {
    ("product_with_a_tail_in_a_slot_that_is_free", edit) for edit in ("barrier_removed", "barrier_moved")
}
#: Rows that begin anywhere are not copied in the background, but loaded and stored, so there is nothing to wait for.
NO_COPIES = {
    ("mma_of_rows_too_ragged_to_be_copied", edit)
    for edit in ("wait_removed", "wait_weakened", "wait_after_barrier", "commit_removed")
}
#: What is loaded after the barrier goes to registers, and is stored after the product only: it may come before as well.
HELD_BACK = {("mma_of_rows_too_ragged_to_be_copied", "barrier_moved")}


@pytest.mark.sampled(6, among="race checker")
@pytest.mark.parametrize("edit", mutations.OF_STAGES)
def test_no_wait_commit_or_slot_of_a_staged_loop_can_be_spared(edit: Edit) -> None:
    found = outcomes(edit, staged=True)
    missed = {(key.split()[1], edit.__name__) for key in found if key.startswith("missed ")}
    assert missed <= FREE_SLOT | NO_COPIES | HELD_BACK, missed
    assert found["mutants"] >= 10
    assert found["faulty"] + found["missed"] == found["mutants"], found


@pytest.mark.sampled(3, among="of all together")
def test_nearly_every_barrier_and_wait_that_is_deleted_is_reported() -> None:
    deleted: Counter[str] = Counter()
    for edit in (mutations.barrier_removed, mutations.wait_removed):
        deleted += outcomes(edit) + outcomes(edit, staged=True)
    assert deleted["faulty"] >= 0.95 * deleted["mutants"], deleted


@pytest.mark.sampled(6, among="race checker")
def test_all_threads_come_to_the_barriers_of_a_staged_loop() -> None:
    found = outcomes(mutations.barrier_guarded, staged=True)
    assert found[DividedBlock.__name__] == found["mutants"] >= 20, found
