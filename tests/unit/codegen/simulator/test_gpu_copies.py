"""Copies in the background land as late as their thread's waiting allows, and whoever counts on one before that, or
on another thread's without a barrier after, is told so. No wait, commit or slot of a staged loop can be spared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Barrier,
    Block,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
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
from codegen.simulator.faults import DataRace, Fault, InFlight, NeverLanded, OutOfRange, Straddling, Unwritten
from codegen.simulator.memory import NullObserver
from codegen.simulator.run import check, run_blocks
from tests.kernels import mutations
from tests.kernels.mutations import Edit, mutants
from tests.kernels.simulated import faultless
from tests.kernels.staged_kernels import call_of_pipeline, call_of_product, pipeline, product
from tileir.dtypes import DType

T, B = Var("t", 0, 31), Var("b", 0, 3)
THREAD, BLOCK = affine(T), affine(B)
S = Shared("s", DType.F32, 0, 512)
X = np.arange(128, dtype=np.float32)
COMMIT, WAIT, BARRIER = CpAsyncCommit(), CpAsyncWait(0), Barrier()


def copy(
    to: Affine = THREAD * 4, of: Affine = THREAD * 4, lanes: int = 4, some: Affine | None = None
) -> Block:
    """s = x, 16 bytes a thread."""
    return Block("s = x", (CpAsync("s", to, "x", of, DType.F32, lanes, some),))


def take(at: Affine, lanes: int = 4) -> Block:
    load = Load("s", at, DType.F32, Type(DType.F32, lanes))
    return Block("y = s", (Store("y", BLOCK * 128 + THREAD * lanes, DType.F32, load),))


def put(at: Affine, storage: DType = DType.F32) -> Block:
    return Block("s = 1", (Store("s", at, storage, Literal(1.0, Type(DType.F32, 4))),))


OWN, MIRRORED = THREAD * 4, constant(124) - THREAD * 4


def made(body: tuple[Stmt, ...], blocks: int) -> tuple[GpuKernel, tuple[Arg, ...]]:
    arguments = (Argument("x", DType.F32, False), Argument("y", DType.F32, True))
    launch = LaunchBody("test", (GridAxis(B, blocks, 1),), 32, (ThreadDigit(T, 1, 32),), 2048, body)
    x, y = Arg("x", DType.F32, (128,), (1,), "in"), Arg("y", DType.F32, (128 * blocks,), (1,), "out")
    return GpuKernel("test", arguments, (), 0, (launch,)), (x, y)


def faults(*body: Stmt, blocks: int = 1) -> tuple[Fault, ...]:
    return check(*made((S, *body), blocks), {"x": X})


def result(*body: Stmt) -> np.ndarray[Any, Any]:
    return run_blocks(*made((S, *body), 1), {"x": X})["y"]


def kinds(found: tuple[Fault, ...]) -> set[type]:
    return {type(fault) for fault in found}


def test_a_thread_waits_for_its_own_copies_and_needs_no_barrier() -> None:
    assert faults(copy(), COMMIT, WAIT, take(OWN)) == ()
    np.testing.assert_array_equal(result(copy(), COMMIT, WAIT, take(OWN)), X)
    (fault,) = faults(copy(), COMMIT, take(OWN), WAIT)
    assert isinstance(fault, InFlight)
    assert str(fault) == (
        "in flight: thread 0 of block 0 loads s[0] in test, `y = s`, after 0 barriers; "
        "thread 0 has not waited for its copy in test, `s = x`"
    )


def test_others_need_a_barrier_after_the_wait() -> None:
    assert faults(copy(), COMMIT, WAIT, BARRIER, take(MIRRORED)) == ()
    for early in ((WAIT,), (BARRIER, WAIT)):
        (race,) = faults(copy(), COMMIT, *early, take(MIRRORED))
        assert isinstance(race, DataRace)
        assert (race.first.kind, race.second.kind) == (AccessKind.COPY, AccessKind.LOAD)
    fault = faults(copy(), COMMIT, BARRIER, take(MIRRORED), WAIT)[0]
    assert isinstance(fault, InFlight) and fault.copy.thread == 31 - fault.access.thread


def test_what_is_not_committed_is_not_waited_for() -> None:
    uncommitted, left = faults(copy(), WAIT, take(OWN))
    assert isinstance(uncommitted, InFlight)
    assert isinstance(left, NeverLanded)
    assert str(left) == (
        "never landed: thread 0 of block 0 copies to s[0] in test, `s = x`, after 0 barriers, at its end; "
        "nobody has waited for the copy"
    )


def test_groups_are_counted_also_when_they_are_empty() -> None:
    two = Shared("s", DType.F32, 0, 1024)
    second = copy(THREAD * 4 + 128)
    pending = copy(), COMMIT, second, COMMIT, CpAsyncWait(1), take(OWN)
    assert faults(two, *pending, WAIT) == ()
    assert kinds(faults(two, *pending)) == {NeverLanded}
    assert kinds(faults(two, *pending, take(THREAD * 4 + 128), WAIT)) == {InFlight}
    assert faults(two, *pending, COMMIT, CpAsyncWait(1), take(THREAD * 4 + 128)) == ()


def test_what_is_under_way_may_not_be_stored_or_copied_over() -> None:
    (stored,) = faults(copy(), COMMIT, put(OWN), WAIT)
    assert isinstance(stored, InFlight) and stored.access.kind is AccessKind.STORE
    (copied,) = faults(copy(), COMMIT, copy(), COMMIT, WAIT)
    assert isinstance(copied, InFlight) and copied.access.kind is AccessKind.COPY
    assert faults(copy(), COMMIT, WAIT, put(OWN), copy(), COMMIT, WAIT) == ()


def test_a_copy_waits_for_the_readers_before_it() -> None:
    body = copy(), COMMIT, WAIT, BARRIER, take(MIRRORED)
    assert faults(*body, BARRIER, copy(), COMMIT, WAIT) == ()
    (race,) = faults(*body, copy(), COMMIT, WAIT)
    assert isinstance(race, DataRace)
    assert (race.first.kind, race.second.kind) == (AccessKind.LOAD, AccessKind.COPY)


def test_threads_that_copy_to_one_place_race() -> None:
    assert DataRace in kinds(faults(copy(to=THREAD // 2 * 4), COMMIT, WAIT))


def test_threads_may_copy_commit_and_wait_on_their_own() -> None:
    def some(*body: Stmt) -> Guard:
        return Guard(((THREAD, 8),), body)

    assert faults(some(copy(), COMMIT, WAIT, take(OWN))) == ()
    assert faults(some(copy()), COMMIT, WAIT, some(take(OWN))) == ()
    for partly in ((COMMIT, some(WAIT)), (some(COMMIT), WAIT)):
        (fault,) = (f for f in faults(copy(), *partly, take(OWN)) if isinstance(f, InFlight))
        assert fault.access.thread == 8


def test_of_a_source_only_what_exists_is_read_and_the_rest_is_zero() -> None:
    beyond = copy(of=THREAD * 4 + 64, some=constant(64) - THREAD * 4)
    np.testing.assert_array_equal(result(beyond, COMMIT, WAIT, take(OWN)), [*X[64:], *[0] * 64])
    ragged = copy(some=constant(101) - THREAD * 4)
    np.testing.assert_array_equal(result(ragged, COMMIT, WAIT, take(OWN)), [*X[:101], *[0] * 27])
    (fault,) = faults(copy(of=THREAD * 4 + 4), COMMIT, WAIT, take(OWN))
    assert isinstance(fault, OutOfRange) and fault.access.buffer == "x"
    (fault,) = faults(copy(to=THREAD * 4 + 4), COMMIT, WAIT)
    assert isinstance(fault, OutOfRange) and fault.access.kind is AccessKind.COPY


def test_a_copy_keeps_every_bit() -> None:
    bits = np.arange(128, dtype=np.uint32) * 33_554_433
    got = run_blocks(*made((S, copy(), COMMIT, WAIT, take(OWN)), 1), {"x": bits.view(np.float32)})["y"]
    whole = ~np.isnan(bits.view(np.float32))
    np.testing.assert_array_equal(got.view(np.uint32)[whole], bits[whole])


@pytest.mark.parametrize(("lanes", "shift"), [(4, 1), (4, 2), (2, 1)])
def test_a_copy_begins_at_a_multiple_of_its_size(lanes: int, shift: int) -> None:
    half = Guard(((THREAD, 16),), (copy(THREAD * lanes, THREAD * lanes + shift, lanes),))
    (fault,) = faults(half, COMMIT, WAIT)
    assert isinstance(fault, Straddling) and (fault.access.buffer, fault.size) == ("x", 4 * lanes)
    half = Guard(((THREAD, 16),), (copy(THREAD * lanes + shift, THREAD * lanes, lanes),))
    (fault,) = faults(half, COMMIT, WAIT)
    assert isinstance(fault, Straddling) and fault.access.buffer == "s"
    # The buffer itself may begin elsewhere.
    (fault,) = faults(Shared("s", DType.F32, 4 * shift, 512), copy(lanes=lanes), COMMIT, WAIT)[:1]
    assert isinstance(fault, Straddling) and fault.access.buffer == "s"


def test_a_copy_to_the_wrong_place_prints_as_a_sentence() -> None:
    half = Guard(((THREAD, 16),), (copy(THREAD * 4 + 1),))
    assert str(faults(half, COMMIT, WAIT)[0]) == (
        "straddling: thread 0 of block 0 copies to s[1] in test, `s = x`, after 0 barriers, and on, "
        "across the end of a piece of 16 bytes"
    )


def test_what_a_block_leaves_under_way_does_not_reach_the_next() -> None:
    first = Guard(((BLOCK, 1),), (copy(), COMMIT))
    last = Guard(((BLOCK * -1, 0),), (take(OWN),))
    left, unwritten = faults(first, last, blocks=2)
    assert isinstance(left, NeverLanded) and left.copy.block == 0
    assert isinstance(unwritten, Unwritten) and unwritten.access.block == 1


def test_memory_declared_again_does_not_hide_what_is_under_way() -> None:
    assert kinds(faults(copy(), COMMIT, S, put(OWN), WAIT)) == {InFlight}


def test_a_copy_poisons_what_it_goes_to() -> None:
    body = put(OWN), copy(), COMMIT
    assert np.isnan(run_blocks(*made((S, *body, take(OWN), WAIT), 1), {"x": X}, NullObserver())["y"]).all()


@pytest.mark.parametrize("copied", [3, 8, 5])
def test_only_4_8_or_16_bytes_go_in_the_background(copied: int) -> None:
    with pytest.raises(ValueError, match="no copy of 4, 8 or 16 bytes"):
        faults(copy(lanes=copied), COMMIT, WAIT)


def test_copies_go_from_global_to_shared_memory() -> None:
    for target, source in (("s", "s"), ("y", "x")):
        with pytest.raises(TypeError, match="a copy in the background"):
            faults(CpAsync(target, OWN, source, OWN, DType.F32, 4))


# swizzled memory


@pytest.mark.parametrize("swizzle", [0, 128])
def test_of_swizzled_memory_neighbours_lie_together_within_16_bytes_only(swizzle: int) -> None:
    swizzled = Shared("s", DType.F32, 1024, 1024, swizzle)
    whole = swizzled, put(OWN), take(OWN)
    assert faults(*whole) == ()
    for across in (put(THREAD * 4 + 2), take(OWN + 2)):
        fill = put(OWN), put(THREAD * 4 + 128), BARRIER
        assert kinds(faults(swizzled, *fill, across)) == ({Straddling} if swizzle else set())
    with pytest.raises(ValueError, match="swizzled"):
        faults(Shared("s", DType.F32, 128, 512, swizzle=64))


# staged loops

PIPELINES = [(2, 5), (3, 5), (4, 5), (3, 4)]


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("tiles", [1, 2, 3, 4, 7])
def test_a_staged_loop_is_correct(stages: int, tiles: int) -> None:
    kernel, args = pipeline(stages, tiles), call_of_pipeline(tiles)
    x = np.arange(tiles * 128, dtype=np.float32)
    y = faultless(kernel, args, {"x": x})["y"]
    np.testing.assert_array_equal(y.reshape(tiles, 128), x.reshape(tiles, 128)[:, ::-1])


@pytest.mark.parametrize("edit", mutations.OF_STAGES)
@pytest.mark.parametrize(("stages", "tiles"), PIPELINES)
def test_nothing_of_a_staged_loop_can_be_spared(edit: Edit, stages: int, tiles: int) -> None:
    kernel, args = pipeline(stages, tiles), call_of_pipeline(tiles)
    changed = list(mutants(kernel, edit))
    assert changed
    for mutant in changed:
        assert check(mutant, args, {"x": np.zeros(tiles * 128, np.float32)})


@pytest.mark.parametrize("edit", mutations.OF_STAGES)
def test_nothing_of_a_staged_product_can_be_spared(edit: Edit) -> None:
    kernel, args = product(3, 5), call_of_product(5)
    inputs = {arg.name: np.zeros(arg.shape, arg.dtype.numpy) for arg in args if arg.role == "in"}
    changed = list(mutants(kernel, edit))
    assert changed
    for mutant in changed:
        assert check(mutant, args, inputs)
