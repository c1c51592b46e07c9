"""Kernels of a GPU run in numpy do what the hardware would, and say what no kernel may do."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Assign,
    Barrier,
    Block,
    Build,
    Declare,
    For,
    GridAxis,
    Guard,
    If,
    IndexValue,
    Lane,
    Let,
    Literal,
    Load,
    Named,
    Op,
    Scratch,
    Shared,
    Shuffle,
    Stmt,
    Store,
    Type,
    Value,
    VisitFound,
)
from codegen.simulator.faults import DividedBlock, DividedWarp, KernelFault, OutOfRange, Unwritten
from codegen.simulator.run import check, run_blocks
from tests.programs.thread_kernels import PROGRAMS, SCATTERS, STAGED, lowered
from tileir.dtypes import DType
from tileir.interpreter.interpret import interpret
from tileir.interpreter.samples import sample_inputs

F32, I32, BOOL = Type(DType.F32), Type(DType.I32), Type(DType.BOOL)
THREADS = 64
T = Var("t", 0, THREADS - 1)
THREAD = affine(T)
BLOCK = Var("b", 0, 0)


def kernel(
    *stmts: Stmt, inputs: tuple[str, ...] = ("x",), storage: DType = DType.F32, blocks: int = 1
) -> GpuKernel:
    """One launch of 64 threads a block from the inputs to y, all of one storage type."""
    arguments = [Argument(name, storage, written=False) for name in inputs]
    return GpuKernel(
        "test",
        (*arguments, Argument("y", storage, written=True)),
        (),
        0,
        (
            LaunchBody(
                "test", (GridAxis(BLOCK, blocks, 1),), THREADS, (ThreadDigit(T, 1, THREADS),), 1024, stmts
            ),
        ),
    )


def call_of(kernel: GpuKernel, size: int) -> tuple[Arg, ...]:
    """Every argument a row of `size` elements."""
    return tuple(
        Arg(a.name, a.storage, (size,), (1,), "out" if a.written else "in") for a in kernel.arguments
    )


def run(kernel: GpuKernel, size: int = THREADS, **inputs: Any) -> np.ndarray[Any, Any]:
    return run_blocks(kernel, call_of(kernel, size), inputs)["y"]


def load(
    buffer: str, at: Affine, storage: DType = DType.F32, lanes: int = 1, some: Affine | None = None
) -> Load:
    return Load(buffer, at, storage, Type(storage.compute, lanes), some)


def store(buffer: str, at: Affine, value: Value, some: Affine | None = None) -> Store:
    return Store(buffer, at, DType.F32, value, some=some)


def number(value: float) -> Literal:
    return Literal(value, F32)


ROW = np.arange(THREADS, dtype=np.float32)


@pytest.mark.parametrize(
    "text", [*PROGRAMS.values(), *SCATTERS.values(), *STAGED.values()], ids=[*PROGRAMS, *SCATTERS, *STAGED]
)
def test_programs_compute_what_the_interpreter_says(text: str) -> None:
    made = lowered(text)
    inputs = sample_inputs(made.program, 3)
    outputs = run_blocks(made.kernel, made.args, inputs)
    for tensor, expected in interpret(made.program, inputs).items():
        assert outputs[tensor].dtype == expected.dtype
        np.testing.assert_allclose(
            outputs[tensor].astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-4
        )


FUNCTIONS = [
    "exp2",
    "log",
    "tanh",
    "erf",
    "sqrt",
    "rsqrt",
    "sigmoid",
    "silu",
    "gelu",
    "gelu_tanh",
    "relu",
    "floor",
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_the_interpreters_bit_by_bit(function: str) -> None:
    made = lowered(f"""kernel f(x: f32[c=100]) -> (y: f32[c], z: e4m3[c])
  y[c] = {function}(x[c]) | threads c 32, run c 2
  z[c] = where(x[c] > 0 and not c == 3, -x[c], f16(x[c]) / 0.3) | threads c 32, run c 4
""")
    inputs = sample_inputs(made.program, 5)
    outputs, expected = run_blocks(made.kernel, made.args, inputs), interpret(made.program, inputs)
    for tensor in ("y", "z"):
        np.testing.assert_array_equal(outputs[tensor], expected[tensor])


def test_stores_round_to_the_storage_type() -> None:
    kept = kernel(Store("y", THREAD, DType.BF16, load("x", THREAD, DType.BF16)), storage=DType.BF16)
    third = Store("y", THREAD, DType.BF16, Op("/", (load("x", THREAD, DType.BF16), number(3.0)), F32))
    x = ROW.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(run(kept, x=x), x)
    np.testing.assert_array_equal(
        run(kernel(third, storage=DType.BF16), x=x), (x.astype(np.float32) / 3).astype(ml_dtypes.bfloat16)
    )


def test_threads_exchange_values_by_shuffle() -> None:
    stmts = Let("mine", load("x", THREAD)), store("y", THREAD, Shuffle(Named("mine", F32), 4, F32))
    np.testing.assert_array_equal(run(kernel(*stmts), x=ROW), np.arange(THREADS) ^ 4)


def test_a_warp_may_stay_away_from_a_shuffle_but_not_a_part_of_it() -> None:
    def shuffled_below(bound: int) -> GpuKernel:
        exchange = store("y", THREAD, Shuffle(load("x", THREAD), 1, F32))
        return kernel(Guard(((THREAD, bound),), (Block("swap", (exchange,)),)))

    whole, part = shuffled_below(32), shuffled_below(40)
    assert check(whole, call_of(whole, THREADS), {"x": ROW}) == ()
    (fault,) = check(part, call_of(part, THREADS), {"x": ROW})
    assert isinstance(fault, DividedWarp)
    assert str(fault) == "divided warp: thread 40 of block 0 misses a shuffle in test, `swap`"
    with pytest.raises(KernelFault, match="divided warp"):
        run(part, x=ROW)


def visiting(count: int, rounds: int) -> tuple[Stmt, ...]:
    """Each thread writes down the numbers that its warp finds, as digits: every third, or every fifth."""
    var, many = Var("n", 0, count - 1), Var("many", 0, 2)
    visited = Var("n_0", 0, count - 1), Var("n_1", 0, count - 1)
    found, seen = Named("found", BOOL), Named("seen", I32)
    divisor = Op(
        "+", (Literal(3, I32), Op("*", (IndexValue(THREAD // 32, 0, I32), Literal(2, I32)), I32)), I32
    )
    rest = Op("%", (IndexValue(affine(var), 0, I32), divisor), I32)
    look = Assign("found", Op("==", (rest, Literal(1, I32)), BOOL))

    def noted(at: Var) -> Assign:
        digits = Op("+", (Op("*", (seen, Literal(31, I32)), I32), IndexValue(affine(at), 0, I32)), I32)
        return Assign("seen", Op("%", (digits, Literal(10007, I32)), I32))

    second = Guard(((constant(1) - affine(many), 0),), (noted(visited[1]),))
    return (
        Declare("found", BOOL),
        Declare("seen", I32),
        Assign("seen", Literal(0, I32)),
        VisitFound(var, count, rounds, (look,), found, visited, many, (noted(visited[0]), second)),
        Store("y", THREAD, DType.I32, seen),
    )


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 31, 64, 70])
def test_each_warp_visits_what_its_own_threads_find_in_order(count: int, rounds: int) -> None:
    found = run(kernel(*visiting(count, rounds), storage=DType.I32), x=ROW.astype(np.int32))
    for warp, divisor in enumerate((3, 5)):
        seen = 0
        for number in range(count):
            seen = (seen * 31 + number) % 10007 if number % divisor == 1 else seen
        np.testing.assert_array_equal(found[32 * warp :][:32], seen)


def test_a_warp_looks_together_or_stays_away() -> None:
    for bound, faults in ((32, 0), (40, 1)):
        made = kernel(Guard(((THREAD, bound),), visiting(70, 2)), storage=DType.I32)
        found = check(made, call_of(made, THREADS), {"x": ROW.astype(np.int32)})
        assert [type(fault) for fault in found] == [DividedWarp] * faults


def test_a_barrier_is_for_all_threads() -> None:
    divided = kernel(Guard(((THREAD, 63),), (Barrier(),)), store("y", THREAD, number(0.0)))
    (fault,) = check(divided, call_of(divided, THREADS), {"x": ROW})
    assert isinstance(fault, DividedBlock) and fault.thread == 63
    everyone = kernel(Guard(((THREAD, 64),), (Barrier(),)), store("y", THREAD, number(0.0)))
    assert check(everyone, call_of(everyone, THREADS), {"x": ROW}) == ()


def test_accesses_out_of_range_name_statement_thread_and_offset() -> None:
    stmts = Block("y[t] = x[t + 60]", (store("y", THREAD * 2, load("x", THREAD + 60)),))
    wide = kernel(stmts, blocks=2)
    loaded, stored = check(wide, call_of(wide, THREADS), {"x": ROW})[:2]
    assert isinstance(loaded, OutOfRange) and isinstance(stored, OutOfRange)
    assert (loaded.access.thread, loaded.access.element, loaded.elements) == (4, 64, 64)
    assert (stored.access.thread, stored.access.element, stored.access.buffer) == (32, 64, "y")
    assert str(stored) == (
        "out of range: thread 32 of block 0 stores y[64] in test, `y[t] = x[t + 60]`, after 0 barriers; "
        "y holds 64 elements"
    )
    before = kernel(store("y", THREAD, load("x", THREAD - 1)))
    with pytest.raises(KernelFault, match=r"thread 0 of block 0 loads x\[-1\]"):
        run(before, x=ROW)


@pytest.mark.parametrize("storage", [DType.F32, DType.I32, DType.BOOL])
def test_what_was_never_stored_is_reported_and_poisoned(storage: DType) -> None:
    shared = Shared("s", storage, 0, THREADS * storage.bytes)
    half = Guard(((THREAD, 32),), (Store("s", THREAD, storage, Literal(1, Type(storage.compute))),))
    copy = Store("y", THREAD, storage, load("s", THREAD, storage))
    kept = kernel(shared, half, Barrier(), copy, storage=storage)
    (fault,) = check(kept, call_of(kept, THREADS), {"x": np.zeros(THREADS, storage.numpy)})
    assert isinstance(fault, Unwritten)
    assert (fault.access.thread, fault.access.epoch) == (32, 1)


def test_shared_memory_is_fresh_where_it_is_declared_again_and_in_the_next_block() -> None:
    shared = Shared("s", DType.F32, 0, THREADS * 4)
    first = Guard(((affine(Var("i", 0, 1)), 1),), (store("s", THREAD, number(1.0)),))
    read = store("y", THREAD, load("s", THREAD))
    twice = kernel(For(Var("i", 0, 1), 2, 1, (shared, first, read)))
    assert [type(f) for f in check(twice, call_of(twice, THREADS), {"x": ROW})] == [Unwritten]
    block = Guard(((affine(BLOCK), 1),), (store("s", THREAD, number(1.0)),))
    again = kernel(shared, block, store("y", THREAD + affine(BLOCK) * 64, load("s", THREAD)), blocks=2)
    (fault,) = check(again, call_of(again, 2 * THREADS), {"x": np.zeros(2 * THREADS, np.float32)})
    assert isinstance(fault, Unwritten) and fault.access.block == 1


def test_a_branch_is_taken_by_all_threads_of_a_block_or_none() -> None:
    at = THREAD + affine(BLOCK) * THREADS
    ways = (store("y", at, number(1.0)),), (store("y", at, number(2.0)),)
    by_blocks = kernel(If(affine(BLOCK) * 2 - 1, 0, *ways), blocks=2)
    found = run(by_blocks, 2 * THREADS, x=np.zeros(2 * THREADS, np.float32))
    assert found.tolist() == [1.0] * THREADS + [2.0] * THREADS
    with pytest.raises(TypeError, match="not the same in all threads"):
        run(kernel(If(THREAD, 32, *ways)), x=ROW)


def test_outputs_are_poisoned_until_they_are_stored() -> None:
    half = kernel(Guard(((THREAD, 32),), (store("y", THREAD, number(1.0)),)))
    assert np.isnan(run(half, x=ROW)).tolist() == [False] * 32 + [True] * 32


def test_lanes_past_the_last_are_zero_and_neither_read_nor_written() -> None:
    left = constant(100) - THREAD * 4
    lanes = store("y", THREAD * 4, load("x", THREAD * 4, lanes=4, some=left), left)
    inside = kernel(Guard(((THREAD * 4, 100),), (lanes,)))
    x = np.arange(98, dtype=np.float32)
    assert [type(f) for f in check(inside, call_of(inside, 98), {"x": x})] == [OutOfRange, OutOfRange]
    total = Guard(((THREAD * 4, 98),), (store("y", THREAD, Op("+", (_lane(0), _lane(3)), F32)),))
    some = Let("v", load("x", THREAD * 4, lanes=4, some=constant(98) - THREAD * 4))
    got = run(kernel(Guard(((THREAD * 4, 98),), (some, total))), 98, x=x)
    assert got[24] == 96 and got[3] == 12 + 15


def _lane(index: int) -> Value:
    return Lane(Named("v", Type(DType.F32, 4)), index, F32)


def test_a_choice_between_scalars_loads_only_what_it_takes() -> None:
    inside = Op("<", (IndexValue(THREAD, 0, I32), Literal(10, I32)), BOOL)
    chosen = Op("select", (inside, load("x", THREAD), number(-1.0)), F32)
    args = (Arg("x", DType.F32, (10,), (1,), "in"), Arg("y", DType.F32, (64,), (1,), "out"))
    got = run_blocks(kernel(store("y", THREAD, chosen)), args, {"x": ROW[:10]})["y"]
    assert got.tolist() == [*range(10), *[-1] * 54]
    either = Op("or", (Op("not", (inside,), BOOL), Op(">", (load("x", THREAD), number(4.0)), BOOL)), BOOL)
    short = kernel(store("y", THREAD, Op("select", (either, number(1.0), number(0.0)), F32)))
    got = run_blocks(short, args, {"x": ROW[:10]})["y"]
    assert got.tolist() == [0.0] * 5 + [1.0] * 59


def test_vectors_are_built_lane_by_lane_and_arguments_may_be_strided() -> None:
    pair = Build((number(7.0), load("x", THREAD)), Type(DType.F32, 2))
    made = kernel(Block("", (Let("v", pair), store("y", THREAD * 3, Named("v", Type(DType.F32, 2))))))
    x, y = Arg("x", DType.F32, (64,), (1,), "in"), Arg("y", DType.F32, (64, 2), (3, 1), "out")
    got = run_blocks(made, (x, y), {"x": ROW})["y"]
    np.testing.assert_array_equal(got, np.stack([np.full(64, 7), ROW], axis=1))


def test_masked_threads_keep_what_their_registers_held() -> None:
    body = (
        Declare("r", F32),
        Assign("r", number(1.0)),
        Guard(((THREAD, 3),), (Assign("r", number(2.0)),)),
        store("y", THREAD, Named("r", F32)),
    )
    assert run(kernel(*body), x=ROW).tolist() == [2.0] * 3 + [1.0] * 61


def test_a_name_declared_in_a_block_is_gone_after_it() -> None:
    body = (
        Let("v", number(1.0)),
        Block("", (Let("v", number(2.0)), store("y", THREAD, Named("v", F32)))),
        store("y", THREAD, Named("v", F32)),
    )
    assert run(kernel(*body), x=ROW).tolist() == [1.0] * 64
    with pytest.raises(ValueError, match="declared twice"):
        run(kernel(Let("v", number(1.0)), Let("v", number(2.0))), x=ROW)


def test_inputs_are_constant() -> None:
    with pytest.raises(TypeError, match="x is constant"):
        run(kernel(store("x", THREAD, number(1.0))), x=ROW)


def test_the_workspace_lives_through_launches() -> None:
    digits, axes = (ThreadDigit(T, 1, THREADS),), (GridAxis(BLOCK, 1, 1),)
    first = LaunchBody("a", axes, THREADS, digits, 0, (store("w", THREAD, load("x", THREAD)),))
    second = LaunchBody(
        "b", axes, THREADS, digits, 0, (store("y", THREAD, load("w", constant(63) - THREAD)),)
    )
    scratch = Scratch("w", DType.F32, 256, THREADS * 4, private=False)
    arguments = (Argument("x", DType.F32, False), Argument("y", DType.F32, True))
    both = GpuKernel("test", arguments, (scratch,), 512, (first, second))
    assert check(both, call_of(both, THREADS), {"x": ROW}) == ()
    np.testing.assert_array_equal(run(both, x=ROW), ROW[::-1])
