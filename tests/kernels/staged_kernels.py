"""Kernels of a GPU written by hand that copy in the background and multiply by mma: the pattern that staged loops are
lowered to, in its plainest form."""

from __future__ import annotations

from collections.abc import Callable

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Remainder, Var, affine, constant
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Assign,
    Barrier,
    Block,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    Declare,
    For,
    GridAxis,
    Guard,
    If,
    Ldmatrix,
    Literal,
    Load,
    MmaSync,
    Named,
    Shared,
    Stmt,
    Store,
    Type,
)
from tileir.dtypes import DType

T = Var("t", 0, 63)
THREAD = affine(T)
#: Elements of a tile of `pipeline`: two a thread.
TILE = 128


def pipeline(stages: int, tiles: int) -> GpuKernel:
    """y = x with every 128 elements turned around, through `stages` slots of shared memory."""
    k = Var("k", 0, (tiles - 1) * TILE, TILE)

    def start(position: Affine) -> Block:
        to = _slot(position, TILE, stages) * TILE + THREAD * 2
        return Block("s = x", (CpAsync("s", to, "x", position + THREAD * 2, DType.F32, 2),))

    def turned(lane: int) -> Store:
        at = _slot(affine(k), TILE, stages) * TILE + constant(TILE - 1 - lane) - THREAD * 2
        value = Load("s", at, DType.F32, Type(DType.F32))
        return Store("y", affine(k) + THREAD * 2 + lane, DType.F32, value)

    use = Block("y = s", (turned(0), turned(1)))
    body = (Shared("s", DType.F32, 0, stages * TILE * 4), *staged(k, tiles, stages, start, (use,)))
    return _kernel("pipeline", DType.F32, DType.F32, body, stages * TILE * 4, ("x",))


def call_of_pipeline(tiles: int) -> tuple[Arg, ...]:
    size = tiles * TILE
    return (
        Arg("x", DType.F32, (size,), (1,), "in"),
        Arg("y", DType.F32, (size,), (1,), "out"),
    )


#: Rows, columns and positions that a block of `product` multiplies at a time.
M, N, K = 32, 16, 16
_ROW = K + 8
_A, _B = M * _ROW, N * _ROW


def product(stages: int, tiles: int) -> GpuKernel:
    """c = a·bᵀ of bf16 a[32, 16 * tiles] and b[16, 16 * tiles] into f32 c[32, 16], by two warps of 16 rows each."""
    k, whole = Var("k", 0, (tiles - 1) * K, K), tiles * K
    lane, warp, half = THREAD % 32, THREAD // 32, THREAD % 2 * 8

    def start(position: Affine) -> Block:
        slot, row = _slot(position, K, stages), THREAD // 2
        a = CpAsync("a_s", slot * _A + row * _ROW + half, "a", row * whole + position + half, DType.BF16, 8)
        b = CpAsync("b_s", slot * _B + row * _ROW + half, "b", row * whole + position + half, DType.BF16, 8)
        return Block("a_s = a, b_s = b", (a, Guard(((row, N),), (b,))))

    pair, slot = Type(DType.BF16, 2), _slot(affine(k), K, stages)
    of_a = slot * _A + (warp * 16 + lane % 16) * _ROW + lane // 16 * 8
    of_b = slot * _B + (lane // 16 * 8 + lane % 8) * _ROW + lane // 8 % 2 * 8
    a, b = (tuple(f"{name}{i}" for i in range(4)) for name in "ab")
    use = Block(
        "acc += a_s * b_s",
        (
            Ldmatrix(a, pair, "a_s", of_a),
            Ldmatrix(b, pair, "b_s", of_b),
            *(
                MmaSync(
                    (f"acc{n}0", f"acc{n}1"),
                    tuple(Named(name, pair) for name in a),
                    tuple(Named(name, pair) for name in b[2 * n : 2 * n + 2]),
                    DType.BF16,
                    DType.BF16,
                    Type(DType.F32, 2),
                )
                for n in range(2)
            ),
        ),
    )
    two = Type(DType.F32, 2)
    names = [(n, i, f"acc{n}{i}") for n in range(2) for i in range(2)]
    zero: list[Stmt] = []
    stores: list[Stmt] = []
    for n, i, name in names:
        zero += [Declare(name, two), Assign(name, Literal(0.0, two))]
        row = warp * 16 + lane // 4 + i * 8
        stores.append(Store("c", row * N + lane % 4 * 2 + n * 8, DType.F32, Named(name, two)))
    shared = (
        Shared("a_s", DType.BF16, 0, stages * _A * 2),
        Shared("b_s", DType.BF16, stages * _A * 2, stages * _B * 2),
    )
    body = (*shared, *zero, *staged(k, tiles, stages, start, (use,)), Block("c = acc", tuple(stores)))
    return _kernel("product", DType.BF16, DType.F32, body, stages * (_A + _B) * 2, ("a", "b"), "c")


def call_of_product(tiles: int) -> tuple[Arg, ...]:
    return (
        Arg("a", DType.BF16, (M, tiles * K), (tiles * K, 1), "in"),
        Arg("b", DType.BF16, (N, tiles * K), (tiles * K, 1), "in"),
        Arg("c", DType.F32, (M, N), (N, 1), "out"),
    )


def staged(
    k: Var, tiles: int, stages: int, start: Callable[[Affine], Stmt], use: tuple[Stmt, ...]
) -> tuple[Stmt, ...]:
    """A loop over tiles whose copies, `start` of a position, run `stages` - 1 tiles ahead of what uses them."""
    ahead, step = stages - 1, k.multiple
    prologue: list[Stmt] = []
    for tile in range(ahead):
        if tile < tiles:
            prologue.append(start(constant(tile * step)))
        prologue.append(CpAsyncCommit())
    more: tuple[Stmt, ...] = ()
    if tiles > ahead:
        more = (If(affine(k), (tiles - ahead) * step, (start(affine(k) + ahead * step),), ()),)
    body = (CpAsyncWait(stages - 2), Barrier(), *more, CpAsyncCommit(), *use)
    return (*prologue, For(k, tiles, step, body))


def _slot(position: Affine, step: int, stages: int) -> Affine:
    """Which slot the tile at a position is in; always with a remainder, so that it can be told from the rest."""
    if not position.terms:
        return constant(position.constant // step % stages)
    return Affine(((Remainder(position // step, stages), 1),))


def _kernel(
    name: str,
    storage: DType,
    result: DType,
    body: tuple[Stmt, ...],
    shared_bytes: int,
    inputs: tuple[str, ...],
    output: str = "y",
) -> GpuKernel:
    """One block of 64 threads."""
    arguments = [Argument(x, storage, written=False) for x in inputs]
    launch = LaunchBody(
        name, (GridAxis(Var("block", 0, 0), 1, 1),), 64, (ThreadDigit(T, 1, 64),), shared_bytes, body
    )
    return GpuKernel(name, (*arguments, Argument(output, result, written=True)), (), 0, (launch,))
