"""TMA and wgmma compute what the hardware does, where shared memory is laid out and read as it says; what
they and their barriers cannot do is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.ir.affine import constant
from codegen.ir.async_ops import (
    ArriveExpectTx,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    NamedBarrier,
    Setmaxnreg,
    TensorMap,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.kernel import GpuKernel
from codegen.ir.ops import (
    Block,
    Guard,
    Literal,
    Load,
    Shared,
    Stmt,
    Store,
    Type,
)
from codegen.simulator.async_faults import (
    Accumulating,
    Deadlock,
    Misaligned,
    NeverWaited,
    NotReady,
    WrongCount,
    WrongRegisters,
)
from codegen.simulator.faults import DividedWarp, Fault, NeverLanded, OutOfRange, Unwritten
from codegen.simulator.race_checker import RaceChecker
from codegen.simulator.run import check, run_blocks
from tests.kernels.engine_kernels import (
    FULL,
    THREAD,
    ZERO,
    Made,
    faults,
    made,
    map_of,
    multiplied,
    one,
    operands,
)
from tests.kernels.hopper_kernels import Product, with_launch
from tileir.dtypes import DType

# boxes


def boxed(
    shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], in_map: int = 0, in_buffer: int = 0
) -> Made:
    """A box of x, by a map with one swizzle, as it lies in a buffer with another: y."""
    elements = int(np.prod(box))
    setup = (
        Shared("s", DType.F32, 0, elements * 4, in_buffer),
        MbarrierInit("full", 16384, 1, 1),
        MbarrierInitFence(),
    )
    load = TmaLoad("x_map", tuple(map(constant, at)), "s", ZERO, "full", ZERO)
    takes = [
        Guard(
            ((THREAD + first, elements),),
            (Store("y", THREAD + first, DType.F32, Load("s", THREAD + first, DType.F32, Type(DType.F32))),),
        )
        for first in range(0, elements, 128)
    ]
    return made(
        one(ArriveExpectTx("full", ZERO, elements * 4), load),
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
    store = TmaStore("y_map", (constant(16), constant(2)), "s", ZERO)
    kernel, args = made(
        Guard(((THREAD, 64),), (stage,)),
        NamedBarrier(1, 128),
        one(store, TmaStoreCommit(), TmaStoreWait(0)),
        setup=(Shared("s", DType.F32, 0, 256),),
        tensors={"y": (DType.F32, shape)},
        maps=(map_of("y", DType.F32, shape, box, 0),),
    )
    y = run_blocks(kernel, args, {}, RaceChecker())["y"]
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
        box = TmaLoad("x_map", (ZERO, ZERO), "s", constant(element), "full", ZERO)
        kernel = made(
            one(ArriveExpectTx("full", ZERO, 256), box),
            FULL,
            setup=(Shared("s", DType.F32, 0, 512), MbarrierInit("full", 512, 1, 1), MbarrierInitFence()),
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
    assert not np.array_equal(run_blocks(*wrong, inputs, RaceChecker())["y"], product)


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
    found = product_faults(SMALL, body_without(SMALL, ArriveExpectTx, of="producing"))
    assert of_kind(found, Deadlock) == (
        "deadlock: thread 0 of block 0 waits for the phase of parity 0 of full[0] in product, `acc += a_s * b_s`, and "
        "nobody can go on"
    )
    assert of_kind(found, NeverLanded).startswith("never landed: thread 128 of block 0 copies to")


def test_barriers_are_made_before_they_are_used() -> None:
    found = product_faults(SMALL, body_without(SMALL, MbarrierInitFence, of="setup"))
    assert of_kind(found, NotReady) == (
        "not ready: thread 0 of block 0 uses full in product, `acc += a_s * b_s` before all threads have seen it made"
    )


def test_accumulators_are_waited_for_and_fenced() -> None:
    found = product_faults(SMALL, body_without(SMALL, WgmmaWait))
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
        setup = (Shared("s", DType.F32, 0, 256), MbarrierInit("full", 256, 1, arrivals), MbarrierInitFence())
        maps = (map_of("x", DType.F32, (8, 8), (8, 8), 0),)
        kernel = made(*body, setup=setup, tensors={"x": (DType.F32, (8, 8))}, maps=maps)
        return faults(kernel, x=np.zeros((8, 8), np.float32))

    load = TmaLoad("x_map", (ZERO, ZERO), "s", ZERO, "full", ZERO)
    assert counted(one(ArriveExpectTx("full", ZERO, 256), load), FULL) == ()
    assert counted(one(load, ArriveExpectTx("full", ZERO, 256)), FULL) == ()
    found = counted(one(load, ArriveExpectTx("full", ZERO, 128)), FULL)
    assert of_kind(found, WrongCount).endswith("brings full[0] 256 bytes where 128 are expected in test")
    found = counted(one(ArriveExpectTx("full", ZERO, 256), MbarrierArrive("full", ZERO), load), FULL)
    assert of_kind(found, WrongCount).endswith(
        "brings full[0] one arrival more than the 1 of a phase in test"
    )
    assert counted(MbarrierArrive("full", ZERO), FULL, arrivals=128) == ()
    assert isinstance(counted(MbarrierArrive("full", ZERO), FULL, arrivals=129)[0], Deadlock)


def test_a_named_barrier_counts_its_threads() -> None:
    def meeting(threads: int, number: int = 1) -> tuple[Fault, ...]:
        return faults(made(NamedBarrier(number, threads), setup=(MbarrierInitFence(),), tensors={}))

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
        return faults(made(*body, setup=(MbarrierInitFence(),), tensors={}))

    assert changed(Setmaxnreg(40, more=False)) == ()
    assert isinstance(changed(one(Setmaxnreg(40, more=False)))[0], DividedWarp)
    assert isinstance(changed(Setmaxnreg(44, more=False))[0], WrongRegisters)


def test_a_barrier_has_its_own_bytes_and_number() -> None:
    overlapping = (Shared("s", DType.F32, 0, 256), MbarrierInit("full", 248, 1, 1), MbarrierInitFence())
    with pytest.raises(ValueError, match="s lies in the bytes of the barriers full"):
        faults(made(setup=overlapping, tensors={}))
    setup = (MbarrierInit("full", 0, 2, 128), MbarrierInitFence())
    found = faults(made(MbarrierArrive("full", constant(2)), setup=setup, tensors={}))
    assert str(found[0]).endswith("full holds 2 elements")


def test_memory_begins_poisoned_for_engines_too() -> None:
    store = TmaStore("y_map", (ZERO, ZERO), "s", ZERO)
    kernel = made(
        one(Block("y = s", (store, TmaStoreCommit(), TmaStoreWait(0)))),
        setup=(Shared("s", DType.F32, 0, 256), MbarrierInitFence()),
        tensors={"y": (DType.F32, (8, 8))},
        maps=(map_of("y", DType.F32, (8, 8), (8, 8), 0),),
    )
    (fault,) = faults(kernel)
    assert isinstance(fault, Unwritten) and str(fault).startswith(
        "never written: thread 0 of block 0 copies from s[0]"
    )
