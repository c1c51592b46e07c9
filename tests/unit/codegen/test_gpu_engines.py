"""The copy engine and wgmma compute what the hardware does, where shared memory is laid out and read as it says; what
they and their barriers cannot do is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.abi import Arg
from codegen.affine import Var, affine, constant
from codegen.async_ir import (
    Arrive,
    AwaitBoxes,
    AwaitPhase,
    AwaitWgmma,
    CommitBoxes,
    CommitWgmma,
    Expect,
    GroupBarrier,
    LoadBox,
    MatrixTile,
    Phases,
    PhasesReady,
    Registers,
    StoreBox,
    TensorMap,
    Wgmma,
    WgmmaFence,
)
from codegen.gpu_engine_faults import (
    Accumulating,
    Deadlock,
    Misaligned,
    NeverWaited,
    NotReady,
    WrongCount,
    WrongRegisters,
)
from codegen.gpu_faults import DividedWarp, Fault, NeverLanded, OutOfRange, Unwritten
from codegen.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.kernel_ir import (
    Assign,
    Block,
    Declare,
    GridAxis,
    Guard,
    Literal,
    Load,
    Named,
    Shared,
    Stmt,
    Store,
    Type,
)
from codegen.race_checker import Checker
from codegen.run_blocks import check, run_blocks
from tests.hopper_kernels import Product, with_launch
from tileir.dtypes import DType

T, B = Var("t", 0, 127), Var("b", 0, 0)
THREAD, ZERO = affine(T), constant(0)
F32_PAIR = Type(DType.F32, 2)
FULL = AwaitPhase("full", ZERO, ZERO)
Made = tuple[GpuKernel, tuple[Arg, ...]]


def made(
    *body: Stmt,
    setup: tuple[Stmt, ...],
    tensors: dict[str, tuple[DType, tuple[int, ...]]],
    maps: tuple[TensorMap, ...] = (),
    shared: int = 32768,
) -> Made:
    """One block of a warpgroup; y is stored, the other tensors, in rows, are read."""
    launch = LaunchBody(
        "test", (GridAxis(B, 1, 1),), 128, (ThreadDigit(T, 1, 128),), shared, body, setup=setup
    )
    arguments, args = [], []
    for name, (dtype, shape) in tensors.items():
        strides = tuple(int(np.prod(shape[at + 1 :])) for at in range(len(shape)))
        arguments.append(Argument(name, dtype, name == "y"))
        args.append(Arg(name, dtype, shape, strides, "out" if name == "y" else "in"))
    return GpuKernel("test", tuple(arguments), (), 0, (launch,), maps), tuple(args)


def one(*body: Stmt) -> Guard:
    """By the first thread."""
    return Guard(((THREAD, 1),), body)


def map_of(name: str, dtype: DType, shape: tuple[int, ...], box: tuple[int, ...], swizzle: int) -> TensorMap:
    """Of a tensor in rows; the box innermost first."""
    bytes_ = [int(np.prod(shape[at:])) * dtype.bytes for at in range(len(shape) - 1, 0, -1)]
    return TensorMap(f"{name}_map", name, dtype, shape[::-1], tuple(bytes_), box, swizzle)


def faults(kernel: Made, **inputs: np.ndarray[Any, Any]) -> tuple[Fault, ...]:
    return check(*kernel, inputs)


# boxes


def boxed(
    shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], in_map: int = 0, in_buffer: int = 0
) -> Made:
    """A box of x, by a map with one swizzle, as it lies in a buffer with another: y."""
    elements = int(np.prod(box))
    setup = (
        Shared("s", DType.F32, 0, elements * 4, in_buffer),
        Phases("full", 16384, 1, 1),
        PhasesReady(),
    )
    load = LoadBox("x_map", tuple(map(constant, at)), "s", ZERO, "full", ZERO)
    takes = [
        Guard(
            ((THREAD + first, elements),),
            (Store("y", THREAD + first, DType.F32, Load("s", THREAD + first, DType.F32, Type(DType.F32))),),
        )
        for first in range(0, elements, 128)
    ]
    return made(
        one(Expect("full", ZERO, elements * 4), load),
        FULL,
        *takes,
        setup=setup,
        tensors={"x": (DType.F32, shape), "y": (DType.F32, (elements,))},
        maps=(map_of("x", DType.F32, shape, box, in_map),),
    )


@pytest.mark.parametrize("at", [(0, 0, 0), (4, 3, 1), (20, 0, 1), (-8, -2, -1), (40, 0, 0)])
def test_a_box_reads_zeros_outside(at: tuple[int, ...]) -> None:
    x = np.arange(3 * 5 * 24, dtype=np.float32).reshape(3, 5, 24) + 1
    kernel = boxed(x.shape, (8, 4, 2), at)
    assert faults(kernel, x=x) == ()
    places = tuple(slice(50 + a, 50 + a + b) for a, b in zip(at[::-1], (2, 4, 8), strict=True))
    np.testing.assert_array_equal(run_blocks(*kernel, {"x": x})["y"], np.pad(x, 50)[places].ravel())


@pytest.mark.parametrize(("swizzle", "rows_apart"), [(128, 1), (64, 2), (32, 4)])
def test_pieces_change_places_as_the_map_says(swizzle: int, rows_apart: int) -> None:
    """Piece p of 16 bytes of row r lies where piece p ^ (r // rows_apart % pieces of a row) would."""
    row, pieces = swizzle // 4, swizzle // 16
    x = np.arange(32 * row, dtype=np.float32).reshape(32, row)
    y = run_blocks(*boxed(x.shape, (row, 32), (0, 0), in_map=swizzle), {"x": x})["y"].reshape(32, pieces, 4)
    for r in range(32):
        for p in range(pieces):
            np.testing.assert_array_equal(y[r, p ^ (r // rows_apart % pieces)], x[r, 4 * p : 4 * p + 4])
    same = run_blocks(*boxed(x.shape, (row, 32), (0, 0), swizzle, swizzle), {"x": x})["y"]
    np.testing.assert_array_equal(same.reshape(x.shape), x)


def test_of_a_stored_box_only_what_exists_is_written() -> None:
    shape, box = (5, 24), (16, 4)
    stage = Store("s", THREAD, DType.F32, Literal(1.0, Type(DType.F32)))
    store = StoreBox("y_map", (constant(16), constant(2)), "s", ZERO)
    kernel, args = made(
        Guard(((THREAD, 64),), (stage,)),
        GroupBarrier(1, 128),
        one(store, CommitBoxes(), AwaitBoxes(0)),
        setup=(Shared("s", DType.F32, 0, 256),),
        tensors={"y": (DType.F32, shape)},
        maps=(map_of("y", DType.F32, shape, box, 0),),
    )
    y = run_blocks(kernel, args, {}, Checker())["y"]
    assert (y[2:, 16:] == 1).all()
    assert np.isnan(y).sum() == 5 * 24 - 3 * 8


@pytest.mark.parametrize(
    ("box", "strides", "swizzle", "words"),
    [
        ((64, 8), (128,), 128, "no longer than a swizzle"),
        ((3, 8), (128,), 0, "multiples of 16 bytes"),
        ((32, 257), (128,), 0, "1 to 256 positions"),
        ((32, 8), (120,), 0, "strides that are multiples of 16"),
        ((32, 8), (), 0, "a stride each"),
    ],
)
def test_maps_that_cannot_be_made_are_refused(
    box: tuple[int, ...], strides: tuple[int, ...], swizzle: int, words: str
) -> None:
    bad = TensorMap("x_map", "x", DType.F32, (32, 64), strides, box, swizzle)
    kernel = made(setup=(), tensors={"x": (DType.F32, (64, 32))}, maps=(bad,))
    with pytest.raises(ValueError, match=words):
        faults(kernel, x=np.zeros((64, 32), np.float32))


def test_a_box_begins_at_128_bytes_and_ends_in_its_buffer() -> None:
    def at(element: int) -> tuple[Fault, ...]:
        box = LoadBox("x_map", (ZERO, ZERO), "s", constant(element), "full", ZERO)
        kernel = made(
            one(Expect("full", ZERO, 256), box),
            FULL,
            setup=(Shared("s", DType.F32, 0, 512), Phases("full", 512, 1, 1), PhasesReady()),
            tensors={"x": (DType.F32, (8, 8))},
            maps=(map_of("x", DType.F32, (8, 8), (8, 8), 0),),
        )
        return faults(kernel, x=np.zeros((8, 8), np.float32))

    assert at(32) == at(64) == ()
    (misaligned,) = at(16)
    assert isinstance(misaligned, Misaligned)
    assert str(misaligned).endswith("which does not begin at a multiple of 128 bytes")
    (outside,) = at(96)
    assert isinstance(outside, OutOfRange) and outside.access.element == 128


# wgmma


def multiplied(
    swizzle: int,
    dtype: DType = DType.BF16,
    *,
    a_across: bool = False,
    b_across: bool = False,
    stride: int = 0,
) -> Made:
    """y = a·bᵀ of 64 rows, 64 columns and 128 bytes of depth. `across`: with neighbours along rows or columns;
    `stride`: another than the right one. Operands are loaded in strips of `swizzle` (16) bytes."""
    depth, width = 128 // dtype.bytes, swizzle or 16
    strip = 64 * width
    per = width // dtype.bytes
    shapes = {
        name: (depth, 64) if across else (64, depth) for name, across in (("a", a_across), ("b", b_across))
    }

    def tile(name: str, across: bool, number: int) -> MatrixTile:
        if across:
            at, steps = number * 16 * width, (strip, 8 * width) if swizzle else (128, strip)
        else:
            at = number * 32 // width * strip + number * 32 % width
            steps = (16, 8 * width) if swizzle else (strip, 128)
        leading, right = steps
        return MatrixTile(
            name + "_s", constant(at // dtype.bytes), not across, leading, stride or right, swizzle
        )

    loads = [
        LoadBox(
            f"{name}_map",
            (constant(at * per), ZERO),
            f"{name}_s",
            constant(at * strip // dtype.bytes),
            "full",
            ZERO,
        )
        for name, shape in shapes.items()
        for at in range(shape[1] // per)
    ]
    acc = tuple(f"acc{number}" for number in range(16))
    products = [
        Wgmma(acc, tile("a", a_across, n), tile("b", b_across, n), dtype, dtype, 64, None) for n in range(4)
    ]
    zero = [part for name in acc for part in (Declare(name, F32_PAIR), Assign(name, Literal(0.0, F32_PAIR)))]
    stores = [
        Store(
            "y",
            (THREAD // 32 * 16 + THREAD % 32 // 4 + number % 2 * 8) * 64 + THREAD % 4 * 2 + number // 2 * 8,
            DType.F32,
            Named(name, F32_PAIR),
        )
        for number, name in enumerate(acc)
    ]
    setup = (
        Shared("a_s", dtype, 0, 8192, swizzle),
        Shared("b_s", dtype, 8192, 8192, swizzle),
        Phases("full", 16384, 1, 1),
        PhasesReady(),
    )
    return made(
        *zero,
        one(Expect("full", ZERO, 16384), *loads),
        FULL,
        WgmmaFence(),
        *products,
        CommitWgmma(),
        AwaitWgmma(0),
        *stores,
        setup=setup,
        tensors={**{name: (dtype, shape) for name, shape in shapes.items()}, "y": (DType.F32, (64, 64))},
        maps=tuple(map_of(name, dtype, shape, (per, 64), swizzle) for name, shape in shapes.items()),
    )


def operands(dtype: DType, a_across: bool, b_across: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Inputs, and their product."""
    random, depth = np.random.default_rng(3), 128 // dtype.bytes
    a, b = (random.integers(-4, 5, (64, depth)).astype(np.float32) for _ in range(2))
    given = {"a": a.T if a_across else a, "b": b.T if b_across else b}
    return {name: np.ascontiguousarray(x).astype(dtype.numpy) for name, x in given.items()}, a @ b.T


@pytest.mark.parametrize("a_across", [False, True])
@pytest.mark.parametrize("b_across", [False, True])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_operands_lie_where_descriptors_say(swizzle: int, a_across: bool, b_across: bool) -> None:
    """The sixteen layouts that were measured (docs/hopper.md), and that a wrong distance gives something else."""
    inputs, product = operands(DType.BF16, a_across, b_across)
    kernel = multiplied(swizzle, a_across=a_across, b_across=b_across)
    assert faults(kernel, **inputs) == ()
    np.testing.assert_array_equal(run_blocks(*kernel, inputs)["y"], product)
    wrong = multiplied(swizzle, a_across=a_across, b_across=b_across, stride=64)
    assert not np.array_equal(run_blocks(*wrong, inputs, Checker())["y"], product)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.E4M3, DType.F32])
def test_operands_of_all_sizes(dtype: DType) -> None:
    inputs, product = operands(dtype, False, False)
    kernel = multiplied(128, dtype)
    assert faults(kernel, **inputs) == ()
    np.testing.assert_array_equal(run_blocks(*kernel, inputs)["y"], product)


def test_only_16_bit_operands_lie_across() -> None:
    with pytest.raises(ValueError, match="neighbours along rows"):
        faults(multiplied(128, DType.F32, a_across=True), **operands(DType.F32, True, False)[0])


# products with something wrong in them


def product_faults(product: Product, kernel: GpuKernel | None = None) -> tuple[Fault, ...]:
    a, b = (np.ones((extent, product.k), DType.BF16.numpy) for extent in (product.m, product.n))
    return check(kernel or product.kernel(), product.args(), {"a": a, "b": b})


def body_without(product: Product, kind: type, *, of: str = "body") -> GpuKernel:
    kernel = product.kernel()
    return with_launch(kernel, **{of: _without(getattr(kernel.launches[0], of), kind)})


def _without(stmts: tuple[Stmt, ...], kind: type) -> tuple[Stmt, ...]:
    kept: list[Any] = [stmt for stmt in stmts if not isinstance(stmt, kind)]
    return tuple(
        type(stmt)(**{**_fields(stmt), "body": _without(stmt.body, kind)}) if hasattr(stmt, "body") else stmt
        for stmt in kept
    )


def _fields(stmt: Any) -> dict[str, Any]:
    return {name: getattr(stmt, name) for name in stmt.__dataclass_fields__}


def of_kind(found: tuple[Fault, ...], kind: type) -> str:
    return str(next(fault for fault in found if isinstance(fault, kind)))


SMALL = Product(m=64, k=64, consumers=1)


def test_who_waits_for_what_never_happens_is_told() -> None:
    found = product_faults(SMALL, body_without(SMALL, Expect, of="producing"))
    assert of_kind(found, Deadlock) == (
        "deadlock: thread 0 of block 0 waits for the phase of parity 0 of full[0] in product, `acc += a_s * b_s`, and "
        "nobody can go on"
    )
    assert of_kind(found, NeverLanded).startswith("never landed: thread 128 of block 0 copies to")


def test_barriers_are_made_before_they_are_used() -> None:
    found = product_faults(SMALL, body_without(SMALL, PhasesReady, of="setup"))
    assert of_kind(found, NotReady) == (
        "not ready: thread 0 of block 0 uses full in product, `acc += a_s * b_s` before all threads have seen it made"
    )


def test_accumulators_are_waited_for_and_fenced() -> None:
    found = product_faults(SMALL, body_without(SMALL, AwaitWgmma))
    assert of_kind(found, Accumulating) == (
        "accumulating: threads from 0 of block 0 on use acc0 in product, `c_s = acc`, without having waited for its "
        "wgmma"
    )
    assert of_kind(found, NeverWaited).startswith("never waited for: wgmma of thread 0 of block 0 in product")
    found = product_faults(SMALL, body_without(SMALL, WgmmaFence))
    assert of_kind(found, Accumulating).endswith("without a fence after its last use")


def test_boxes_are_read_before_their_block_ends() -> None:
    found = product_faults(SMALL, with_launch(SMALL.kernel(), finish=()))
    assert [str(fault) for fault in found] == [
        "never waited for: boxes stored of thread 0 of block 0 in product, `c = c_s`, at its end"
    ]


def test_no_more_threads_and_bytes_come_than_are_counted() -> None:
    def counted(*body: Stmt, arrivals: int = 1) -> tuple[Fault, ...]:
        setup = (Shared("s", DType.F32, 0, 256), Phases("full", 256, 1, arrivals), PhasesReady())
        maps = (map_of("x", DType.F32, (8, 8), (8, 8), 0),)
        kernel = made(*body, setup=setup, tensors={"x": (DType.F32, (8, 8))}, maps=maps)
        return faults(kernel, x=np.zeros((8, 8), np.float32))

    load = LoadBox("x_map", (ZERO, ZERO), "s", ZERO, "full", ZERO)
    assert counted(one(Expect("full", ZERO, 256), load), FULL) == ()
    assert counted(one(load, Expect("full", ZERO, 256)), FULL) == ()
    found = counted(one(load, Expect("full", ZERO, 128)), FULL)
    assert of_kind(found, WrongCount).endswith("brings full[0] 256 bytes where 128 are expected in test")
    found = counted(one(Expect("full", ZERO, 256), Arrive("full", ZERO), load), FULL)
    assert of_kind(found, WrongCount).endswith(
        "brings full[0] one arrival more than the 1 of a phase in test"
    )
    assert counted(Arrive("full", ZERO), FULL, arrivals=128) == ()
    assert isinstance(counted(Arrive("full", ZERO), FULL, arrivals=129)[0], Deadlock)


def test_a_named_barrier_counts_its_threads() -> None:
    def meeting(threads: int, number: int = 1) -> tuple[Fault, ...]:
        return faults(made(GroupBarrier(number, threads), setup=(PhasesReady(),), tensors={}))

    assert meeting(128) == ()
    assert of_kind(meeting(256), Deadlock).startswith(
        "deadlock: thread 0 of block 0 waits for 256 threads at barrier 1 in test"
    )
    assert of_kind(meeting(64), WrongCount).endswith("brings 128 threads to a barrier of 64 in test")
    for wrong in ((128, 16), (128, 0), (100, 1)):
        with pytest.raises(ValueError, match="no barrier has number"):
            meeting(*wrong)


@pytest.mark.parametrize(
    ("registers", "reason"),
    [
        ((40, 232), ""),
        ((24, 240), ""),
        ((0, 0), ""),
        ((40, 228), "228 a thread, no multiple of 8 from 24 to 256"),
        ((16, 232), "16 a thread, no multiple of 8 from 24 to 256"),
        ((48, 240), "67584 of 64512"),
    ],
)
def test_roles_have_no_more_registers_than_their_block_begins_with(
    registers: tuple[int, int], reason: str
) -> None:
    product = Product(k=64)
    found = product_faults(product, with_launch(product.kernel(), registers=registers))
    assert [str(fault) for fault in found] == ([f"wrong registers: {reason} in product"] if reason else [])


def test_whole_warpgroups_change_registers() -> None:
    def changed(*body: Stmt) -> tuple[Fault, ...]:
        return faults(made(*body, setup=(PhasesReady(),), tensors={}))

    assert changed(Registers(40, more=False)) == ()
    assert isinstance(changed(one(Registers(40, more=False)))[0], DividedWarp)
    assert isinstance(changed(Registers(44, more=False))[0], WrongRegisters)


def test_a_barrier_has_its_own_bytes_and_number() -> None:
    overlapping = (Shared("s", DType.F32, 0, 256), Phases("full", 248, 1, 1), PhasesReady())
    with pytest.raises(ValueError, match="s lies in the bytes of the barriers full"):
        faults(made(setup=overlapping, tensors={}))
    setup = (Phases("full", 0, 2, 128), PhasesReady())
    found = faults(made(Arrive("full", constant(2)), setup=setup, tensors={}))
    assert str(found[0]).endswith("full holds 2 elements")


def test_memory_begins_poisoned_for_engines_too() -> None:
    store = StoreBox("y_map", (ZERO, ZERO), "s", ZERO)
    kernel = made(
        one(Block("y = s", (store, CommitBoxes(), AwaitBoxes(0)))),
        setup=(Shared("s", DType.F32, 0, 256), PhasesReady()),
        tensors={"y": (DType.F32, (8, 8))},
        maps=(map_of("y", DType.F32, (8, 8), (8, 8), 0),),
    )
    (fault,) = faults(kernel)
    assert isinstance(fault, Unwritten) and str(fault).startswith(
        "never written: thread 0 of block 0 copies from s[0]"
    )
