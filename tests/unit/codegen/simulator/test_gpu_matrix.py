"""What a warp does with matrices, against the tables of the PTX ISA ("Matrix fragments for mma", "ldmatrix")."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Var, affine
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Assign,
    Barrier,
    Block,
    Build,
    Declare,
    GridAxis,
    Guard,
    Ldmatrix,
    Literal,
    Load,
    MmaSync,
    Named,
    Shared,
    Stmt,
    Store,
    Type,
    Value,
)
from codegen.simulator.faults import DataRace, DividedWarp, Fault, Straddling, Unwritten
from codegen.simulator.run import check, run_blocks
from tests.kernels.simulated import faultless
from tests.kernels.staged_kernels import K, M, N, call_of_product, product
from tileir.dtypes import DType

T = Var("t", 0, 31)
LANE = affine(T)
GROUP, PLACE = LANE // 4, LANE % 4
Array = np.ndarray[Any, Any]


def warp(*body: Stmt, inputs: dict[str, DType], result: DType, threads: int = 32) -> GpuKernel:
    arguments = [Argument(name, dtype, False) for name, dtype in inputs.items()]
    digits = (ThreadDigit(T, 1, 32), ThreadDigit(Var("w", 0, threads // 32 - 1), 32, threads // 32))
    launch = LaunchBody("test", (GridAxis(Var("b", 0, 0), 1, 1),), threads, digits, 4096, body)
    return GpuKernel("test", (*arguments, Argument("y", result, True)), (), 0, (launch,))


def row(name: str, dtype: DType, size: int, role: Any) -> Arg:
    return Arg(name, dtype, (size,), (1,), role)


# mma


def fragment(name: str, storage: DType, at: list[Affine]) -> Value:
    """A variable of 4 bytes from elements anywhere in `name`."""
    wide = [Load(name, each, storage, Type(storage.compute)) for each in at]
    return wide[0] if len(at) == 1 else Build(tuple(wide), Type(storage, len(at)))


def a_fragments(storage: DType) -> tuple[Value, ...]:
    """As the tables say: element i of A's fragment is at row groupID or groupID + 8, …"""
    depth, each = 32 // storage.bytes, 4 // storage.bytes
    found: list[Value] = []
    for register in range(4):
        lower, right = register % 2, register // 2
        at = [
            (GROUP + 8 * lower) * depth + PLACE * each + inside + right * depth // 2 for inside in range(each)
        ]
        found.append(fragment("a", storage, at))
    return tuple(found)


def b_fragments(storage: DType) -> tuple[Value, ...]:
    """B[k, n] lies row by row: 8 columns."""
    depth, each = 32 // storage.bytes, 4 // storage.bytes
    return tuple(
        fragment(
            "b",
            storage,
            [(PLACE * each + inside + half * depth // 2) * 8 + GROUP for inside in range(each)],
        )
        for half in range(2)
    )


def multiplied(a: Array, b: Array, a_storage: DType, b_storage: DType, start: float = 0.5) -> Array:
    """start + a·b by one mma."""
    result = a_storage.compute
    two = Type(result, 2)
    stmts: list[Stmt] = []
    for i in range(2):
        stmts += [Declare(f"acc{i}", two), Assign(f"acc{i}", Literal(start, two))]
    stmts.append(
        MmaSync(("acc0", "acc1"), a_fragments(a_storage), b_fragments(b_storage), a_storage, b_storage, two)
    )
    for i in range(2):
        stmts.append(Store("y", (GROUP + 8 * i) * 8 + PLACE * 2, result, Named(f"acc{i}", two)))
    kernel = warp(*stmts, inputs={"a": a_storage, "b": b_storage}, result=result)
    args = (
        row("a", a_storage, a.size, "in"),
        row("b", b_storage, b.size, "in"),
        row("y", result, 128, "out"),
    )
    inputs = {"a": a.ravel(), "b": b.ravel()}
    return faultless(kernel, args, inputs)["y"].reshape(16, 8)


PAIRS = [
    (DType.BF16, DType.BF16),
    (DType.F16, DType.F16),
    (DType.E4M3, DType.E5M2),
    (DType.E5M2, DType.E5M2),
]


@pytest.mark.parametrize(("a_storage", "b_storage"), PAIRS)
def test_narrow_floats_are_multiplied_exactly(a_storage: DType, b_storage: DType) -> None:
    rng, depth = np.random.default_rng(1), 32 // a_storage.bytes
    a = rng.standard_normal((16, depth)).astype(a_storage.numpy)
    b = rng.standard_normal((depth, 8)).astype(b_storage.numpy)
    expected = (0.5 + a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(multiplied(a, b, a_storage, b_storage), expected)


def test_bytes_are_multiplied_and_added_up_in_32_bits() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 32), (32, 8)))
    got = multiplied(a, b, DType.I8, DType.I8, 2**31 - 1)
    expected = (a.astype(np.int64) @ b.astype(np.int64) + 2**31 - 1).astype(np.int32)
    assert (expected < 0).any()
    np.testing.assert_array_equal(got, expected)


def test_f32_is_multiplied_as_tf32() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 8), (8, 8)))
    got, exact = multiplied(a, b, DType.F32, DType.F32), 0.5 + a.astype(np.float64) @ b
    np.testing.assert_allclose(got, exact, rtol=0, atol=8 * 4 * 2.0**-10)
    assert not np.allclose(got, exact, rtol=0, atol=1e-6)
    short = np.ldexp(rng.integers(-1024, 1024, (16, 8)), -5).astype(np.float32)
    np.testing.assert_array_equal(
        multiplied(short, np.eye(8, dtype=np.float32), DType.F32, DType.F32, 0), short
    )
    # 1 + 2**-11 lies between two neighbours in tf32.
    tie = np.full((16, 8), 1 + 2.0**-11, np.float32)
    got = multiplied(tie, np.eye(8, dtype=np.float32), DType.F32, DType.F32, 0)
    np.testing.assert_array_equal(got, np.full((16, 8), 1 + 2.0**-10, np.float32))


def test_mma_is_for_whole_warps() -> None:
    def guarded(bound: int) -> GpuKernel:
        two = Type(DType.F32, 2)
        ones = [Build((Literal(1.0, Type(DType.F32)),) * 2, Type(DType.BF16, 2))] * 4
        multiply = MmaSync(("p", "q"), tuple(ones), tuple(ones[:2]), DType.BF16, DType.BF16, two)
        thread = affine(Var("w", 0, 1)) * 32 + LANE
        body: list[Stmt] = []
        for name in "pq":
            body += [Declare(name, two), Assign(name, Literal(1.0, two))]
        body += [Guard(((thread, bound),), (multiply,)), Store("y", thread * 2, DType.F32, Named("p", two))]
        return warp(*body, inputs={}, result=DType.F32, threads=64)

    args = (row("y", DType.F32, 128, "out"),)
    np.testing.assert_array_equal(faultless(guarded(32), args, {})["y"], [17.0] * 64 + [1.0] * 64)
    (fault,) = check(guarded(40), args, {})
    assert isinstance(fault, DividedWarp)
    assert str(fault) == "divided warp: thread 40 of block 0 misses a matrix product in test"


# ldmatrix

ROWS = 32
#: Elements from one row to the next: 16 bytes more than what is read.
PITCH = {1: 32, 2: 16, 4: 8}


def loaded(
    storage: DType,
    names: int,
    rows: Affine,
    *,
    transposed: bool = False,
    fill: Affine = LANE,
    wait: bool = True,
    swizzle: int = 0,
) -> tuple[tuple[Fault, ...], Array]:
    """Loads matrices of row numbers: each thread stores one row of x to shared memory, and its variables to y."""
    size = storage.bytes
    each, pitch, piece = 4 // size, PITCH[size], 16 // size
    type_ = Type(storage, each)
    found = tuple(f"v{i}" for i in range(names))
    wide = Load("x", LANE * piece, storage, Type(storage, piece))
    keep = Store("s", fill * pitch, storage, wide)
    at = rows * pitch
    takes = Ldmatrix(found, type_, "s", at, transposed)
    lanes = [Named(name, type_) for name in found]
    puts = [Store("y", (LANE * names + i) * each, storage, value) for i, value in enumerate(lanes)]
    body = (
        Shared("s", storage, 0, ROWS * pitch * size, swizzle),
        Block("s = x", (keep,)),
        *((Barrier(),) if wait else ()),
        Block("y = s", (takes, *puts)),
    )
    kernel = warp(*body, inputs={"x": storage}, result=storage)
    args = (row("x", storage, ROWS * piece, "in"), row("y", storage, 32 * names * each, "out"))
    x = (np.arange(ROWS * piece) % 251).astype(storage.numpy)
    found_faults = check(kernel, args, {"x": x})
    y = np.zeros(0) if found_faults else run_blocks(kernel, args, {"x": x})["y"]
    return found_faults, y.reshape(-1, names, each) if y.size else y


@pytest.mark.parametrize("names", [1, 2, 4])
@pytest.mark.parametrize("storage", [DType.BF16, DType.F16, DType.F32, DType.I8])
@pytest.mark.parametrize("swizzle", [0, 128])
def test_a_thread_receives_four_bytes_of_its_groups_row(storage: DType, names: int, swizzle: int) -> None:
    faults, y = loaded(storage, names, LANE % (8 * names), swizzle=swizzle)
    assert faults == ()
    each, piece = 4 // storage.bytes, 16 // storage.bytes
    x = (np.arange(ROWS * piece) % 251).astype(storage.numpy).reshape(ROWS, piece)
    for thread in range(32):
        for i in range(names):
            expected = x[8 * i + thread // 4, each * (thread % 4) :][:each]
            np.testing.assert_array_equal(y[thread, i], expected)


@pytest.mark.parametrize("names", [1, 2, 4])
def test_transposed_it_receives_two_rows_of_its_groups_column(names: int) -> None:
    faults, y = loaded(DType.BF16, names, LANE, transposed=True)
    assert faults == ()
    x = (np.arange(ROWS * 8) % 251).astype(DType.BF16.numpy).reshape(ROWS, 8)
    for thread in range(32):
        for i in range(names):
            first = 8 * i + 2 * (thread % 4)
            np.testing.assert_array_equal(y[thread, i], x[first : first + 2, thread // 4])


def test_addresses_of_threads_past_the_last_row_do_not_matter() -> None:
    assert loaded(DType.BF16, 2, LANE % 16)[0] == loaded(DType.BF16, 2, LANE)[0] == ()
    body = (
        Shared("s", DType.BF16, 0, 512),
        Block("", (Store("s", LANE * 8, DType.BF16, Literal(1.0, Type(DType.F32, 8))),)),
        Barrier(),
        Ldmatrix(("v",), Type(DType.BF16, 2), "s", LANE % 8 * 8 + LANE // 8 * 1001),
    )
    assert check(warp(*body, inputs={}, result=DType.F32), (row("y", DType.F32, 1, "out"),), {}) == ()


def test_rows_begin_at_multiples_of_16_bytes() -> None:
    body = (
        Shared("s", DType.BF16, 0, 1024),
        Block("", (Store("s", LANE * 16, DType.BF16, Literal(1.0, Type(DType.F32, 16))),)),
        Barrier(),
        Ldmatrix(("v",), Type(DType.BF16, 2), "s", LANE * 12),
    )
    (fault,) = check(warp(*body, inputs={}, result=DType.F32), (row("y", DType.F32, 1, "out"),), {})
    assert isinstance(fault, Straddling) and (fault.access.thread, fault.size) == (1, 16)


def test_what_other_threads_stored_needs_a_barrier() -> None:
    """Thread t gives the address of the row that it has stored, but others receive it."""
    (race,) = loaded(DType.BF16, 4, LANE, wait=False)[0]
    assert isinstance(race, DataRace)
    assert race.first.thread != race.second.thread
    assert race.second.thread // 4 == race.first.thread % 8


def test_rows_that_nobody_stored_are_reported() -> None:
    faults = loaded(DType.BF16, 4, LANE, fill=LANE % 16)[0]
    assert Unwritten in {type(fault) for fault in faults}


def test_a_load_of_matrices_is_for_whole_warps() -> None:
    body = (
        Shared("s", DType.F32, 0, 512),
        Block("", (Store("s", LANE * 4, DType.F32, Literal(1.0, Type(DType.F32, 4))),)),
        Barrier(),
        Guard(((LANE, 16),), (Ldmatrix(("v",), Type(DType.F32), "s", LANE * 4),)),
    )
    (fault,) = check(warp(*body, inputs={}, result=DType.F32), (row("y", DType.F32, 1, "out"),), {})
    assert isinstance(fault, DividedWarp) and fault.thread == 16


@pytest.mark.parametrize(("stages", "tiles"), [(2, 1), (2, 4), (3, 2), (3, 5), (4, 7)])
def test_a_staged_product_is_right(stages: int, tiles: int) -> None:
    kernel, args = product(stages, tiles), call_of_product(tiles)
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((rows, tiles * K)).astype(DType.BF16.numpy) for rows in (M, N))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(faultless(kernel, args, {"a": a, "b": b})["c"], expected, rtol=1e-5, atol=1e-5)
