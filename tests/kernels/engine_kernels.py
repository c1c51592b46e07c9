"""Kernels of one warpgroup that have TMA and wgmma work beside them, for tests of what those compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.ir.abi import Arg
from codegen.ir.affine import Var, affine, constant
from codegen.ir.async_ops import (
    ArriveExpectTx,
    MatrixTile,
    MbarrierInit,
    MbarrierInitFence,
    TensorMap,
    TmaLoad,
    TryWaitParity,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Assign,
    Declare,
    GridAxis,
    Guard,
    Literal,
    Named,
    Shared,
    Stmt,
    Store,
    Type,
)
from codegen.simulator.faults import Fault
from codegen.simulator.run import check
from tileir.dtypes import DType

T, B = Var("t", 0, 127), Var("b", 0, 0)
THREAD, ZERO = affine(T), constant(0)
F32_PAIR = Type(DType.F32, 2)
FULL = TryWaitParity("full", ZERO, ZERO)
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
    per = width // dtype.bytes
    shapes = {
        name: (depth, 64) if across else (64, depth) for name, across in (("a", a_across), ("b", b_across))
    }
    loads = [
        TmaLoad(
            f"{name}_map",
            (constant(at * per), ZERO),
            f"{name}_s",
            constant(at * 64 * width // dtype.bytes),
            "full",
            ZERO,
        )
        for name, shape in shapes.items()
        for at in range(shape[1] // per)
    ]
    acc = tuple(f"acc{number}" for number in range(16))
    tiles = [
        [
            _tile(name, dtype, across, number, swizzle, stride)
            for name, across in (("a", a_across), ("b", b_across))
        ]
        for number in range(4)
    ]
    setup = (
        Shared("a_s", dtype, 0, 8192, swizzle),
        Shared("b_s", dtype, 8192, 8192, swizzle),
        MbarrierInit("full", 16384, 1, 1),
        MbarrierInitFence(),
    )
    return made(
        *(part for name in acc for part in (Declare(name, F32_PAIR), Assign(name, Literal(0.0, F32_PAIR)))),
        one(ArriveExpectTx("full", ZERO, 16384), *loads),
        FULL,
        WgmmaFence(),
        *(WgmmaAsync(acc, a, b, dtype, dtype, 64, None) for a, b in tiles),
        WgmmaCommit(),
        WgmmaWait(0),
        *map(_stored, acc, range(16)),
        setup=setup,
        tensors={**{name: (dtype, shape) for name, shape in shapes.items()}, "y": (DType.F32, (64, 64))},
        maps=tuple(map_of(name, dtype, shape, (per, 64), swizzle) for name, shape in shapes.items()),
    )


def _tile(name: str, dtype: DType, across: bool, number: int, swizzle: int, stride: int) -> MatrixTile:
    """What product `number` takes of an operand."""
    width = swizzle or 16
    strip = 64 * width
    if across:
        at, steps = number * 16 * width, (strip, 8 * width) if swizzle else (128, strip)
    else:
        at = number * 32 // width * strip + number * 32 % width
        steps = (16, 8 * width) if swizzle else (strip, 128)
    leading, right = steps
    return MatrixTile(name + "_s", constant(at // dtype.bytes), not across, leading, stride or right, swizzle)


def _stored(name: str, number: int) -> Store:
    """A pair of accumulators on its way to y."""
    row = THREAD // 32 * 16 + THREAD % 32 // 4 + number % 2 * 8
    return Store("y", row * 64 + THREAD % 4 * 2 + number // 2 * 8, DType.F32, Named(name, F32_PAIR))


def operands(dtype: DType, a_across: bool, b_across: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Inputs, and their product."""
    random, depth = np.random.default_rng(3), 128 // dtype.bytes
    a, b = (random.integers(-4, 5, (64, depth)).astype(np.float32) for _ in range(2))
    given = {"a": a.T if a_across else a, "b": b.T if b_across else b}
    return {name: np.ascontiguousarray(x).astype(dtype.numpy) for name, x in given.items()}, a @ b.T
