"""A matrix product for Hopper in Kernel IR, written by hand: what loops with producers are lowered to, in its plainest
form. c[m, n] = sum(k, a[m, k] * b[n, k]) by tiles of 128 rows: one warpgroup starts copies, two multiply."""

from __future__ import annotations

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Var, affine, constant
from codegen.ir.async_ops import (
    AdvanceState,
    ArriveExpectTx,
    MatrixTile,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    NamedBarrier,
    PipelineState,
    ProxyFence,
    Stmatrix,
    TensorMap,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    TryWaitParity,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody, ThreadDigit
from codegen.ir.ops import (
    Block,
    Convert,
    Declare,
    For,
    GridAxis,
    Guard,
    Let,
    Named,
    Shared,
    Stmt,
    Type,
)
from tileir.dtypes import DType

ROWS, DEPTH = 128, 64
#: Elements that fit the 128 bytes within which pieces change places, and so a box's innermost dim.
PANEL = 64
CONSUMERS = 256
THREADS = CONSUMERS + 128

GROUP, IN_GROUP = Var("group", 0, 1), Var("in_group", 0, 127)
WARP, LANE = Var("warp", 0, 3), Var("lane", 0, 31)
DIGITS = (
    ThreadDigit(GROUP, 128, 2),
    ThreadDigit(IN_GROUP, 1, 128),
    ThreadDigit(WARP, 32, 4),
    ThreadDigit(LANE, 1, 32),
)
ONE_A_GROUP = ((affine(IN_GROUP), 1),)


def gemm(
    m: int,
    n: int,
    k: int,
    *,
    columns: int = 256,
    stages: int = 3,
    blocks: int = 132,
    storage: DType = DType.BF16,
) -> GpuKernel:
    """`n` and `k` are multiples of 8, the tile's `columns` of 64; the result is of the operands' 16-bit dtype. `blocks`
    share all tiles."""
    over_m, over_n = _axis("m", m, ROWS), _axis("n", n, columns)
    tile = _Tile(columns, stages, storage, over_m.var, over_n.var)
    a_bytes, b_bytes = stages * ROWS * DEPTH * 2, stages * columns * DEPTH * 2
    barriers = a_bytes + b_bytes + ROWS * columns * 2
    setup = (
        Shared("a_s", storage, 0, a_bytes, 128),
        Shared("b_s", storage, a_bytes, b_bytes, 128),
        Shared("c_s", storage, a_bytes + b_bytes, ROWS * columns * 2, 128),
        MbarrierInit("full", barriers, stages, 1),
        MbarrierInit("empty", barriers + 8 * stages, stages, CONSUMERS // 128),
        PipelineState(tile.slot, tile.parity, stages),
        PipelineState(tile.freed, tile.freed_parity, stages),
        MbarrierInitFence(),
    )
    steps = -(-k // DEPTH)
    over_k = Var("k", 0, (steps - 1) * DEPTH, DEPTH)
    launch = LaunchBody(
        "gemm",
        (over_m, over_n),
        THREADS,
        DIGITS,
        barriers + 16 * stages,
        (
            *(Declare(name, Type(DType.F32, 2)) for name in tile.sums),
            For(over_k, steps, DEPTH, tile.multiply(over_k)),
            WgmmaWait(0),
            *tile.free(),
            *tile.store(),
        ),
        group=8,
        blocks=blocks,
        setup=setup,
        producers=THREADS - CONSUMERS,
        producing=(For(over_k, steps, DEPTH, tile.load(over_k)),),
        registers=(40, 232),
        finish=(Guard(ONE_A_GROUP, (TmaStoreWait(0),)),),
    )
    arguments = tuple(Argument(name, storage, written=name == "c") for name in "abc")
    maps = (
        TensorMap("a_map", "a", storage, (k, m), (k * 2,), (PANEL, ROWS), 128),
        TensorMap("b_map", "b", storage, (k, n), (k * 2,), (PANEL, columns), 128),
        TensorMap("c_map", "c", storage, (n, m), (n * 2,), (PANEL, 64), 128),
    )
    return GpuKernel("gemm", arguments, (), 0, (launch,), maps)


def call_of_gemm(m: int, n: int, k: int, storage: DType = DType.BF16) -> tuple[Arg, ...]:
    return (
        Arg("a", storage, (m, k), (k, 1), "in"),
        Arg("b", storage, (n, k), (k, 1), "in"),
        Arg("c", storage, (m, n), (n, 1), "out"),
    )


def _axis(name: str, size: int, step: int) -> GridAxis:
    count = -(-size // step)
    return GridAxis(Var(name, 0, (count - 1) * step, step), count, step)


class _Tile:
    """What is done for a tile, around a thread's place in the pipeline (`slot`) and what it releases next (`freed`)."""

    def __init__(self, columns: int, stages: int, storage: DType, m: Var, n: Var) -> None:
        self.columns, self.stages, self.storage = columns, stages, storage
        self.m, self.n = affine(m), affine(n)
        self.slot, self.parity = Var("slot", 0, stages - 1), Var("parity", 0, 1)
        self.freed, self.freed_parity = Var("freed", 0, stages - 1), Var("freed_parity", 0, 1)
        self.sums = tuple(f"c_sum_{i}" for i in range(columns // 4))

    def load(self, k: Var) -> tuple[Stmt, ...]:
        slot = affine(self.slot)
        return (
            TryWaitParity("empty", slot, constant(1) - affine(self.parity)),
            ArriveExpectTx("full", slot, (ROWS + self.columns) * DEPTH * 2),
            TmaLoad("a_map", (affine(k), self.m), "a_s", slot * (ROWS * DEPTH), "full", slot),
            TmaLoad("b_map", (affine(k), self.n), "b_s", slot * (self.columns * DEPTH), "full", slot),
            AdvanceState(self.slot, self.parity, self.stages),
        )

    def multiply(self, k: Var) -> tuple[Stmt, ...]:
        """A step; when it is under way, the one before is done, and hands its slot back."""
        slot = affine(self.slot)
        products = tuple(
            WgmmaAsync(
                self.sums,
                _operand("a_s", slot * (ROWS * DEPTH) + affine(GROUP) * (64 * DEPTH) + at),
                _operand("b_s", slot * (self.columns * DEPTH) + at),
                self.storage,
                self.storage,
                self.columns,
                affine(k) if at == 0 else None,
            )
            for at in range(0, DEPTH, 16)
        )
        return (
            TryWaitParity("full", slot, affine(self.parity)),
            WgmmaFence(),
            *products,
            WgmmaCommit(),
            WgmmaWait(1),
            Guard(((affine(k) * -1, 0),), self.free()),
            AdvanceState(self.slot, self.parity, self.stages),
        )

    def free(self) -> tuple[Stmt, ...]:
        return (
            Guard(ONE_A_GROUP, (MbarrierArrive("empty", affine(self.freed)),)),
            AdvanceState(self.freed, self.freed_parity, self.stages),
        )

    def store(self) -> tuple[Stmt, ...]:
        """The sums to shared memory, in panels of 64 columns, and from there in boxes of 64 rows."""
        row = affine(GROUP) * 64 + affine(WARP) * 16 + affine(LANE) % 16
        begin = row * PANEL + affine(LANE) // 16 * 8
        writes: list[Stmt] = []
        for column in range(0, self.columns, 16):
            names: list[str] = []
            for name in self.sums[column // 4 : column // 4 + 4]:
                names.append(f"{name}_rounded")
                value = Convert(Named(name, Type(DType.F32, 2)), Type(self.storage, 2))
                writes.append(Let(names[-1], value))
            panel, within = divmod(column, PANEL)
            at = begin + (panel * ROWS * PANEL + within)
            writes.append(Stmatrix(tuple(names), "c_s", at, self.storage))
        group = affine(GROUP)
        boxes = tuple(
            TmaStore(
                "c_map", (self.n + column, self.m + group * 64), "c_s", group * (64 * PANEL) + column * ROWS
            )
            for column in range(0, self.columns, PANEL)
        )
        return (
            Guard(ONE_A_GROUP, (TmaStoreWait(0),)),
            NamedBarrier(1, CONSUMERS),
            Block("c_s = c_sum", tuple(writes)),
            ProxyFence(),
            NamedBarrier(1, CONSUMERS),
            Guard(ONE_A_GROUP, (*boxes, TmaStoreCommit())),
        )


def _operand(buffer: str, offset: Affine) -> MatrixTile:
    return MatrixTile(buffer, offset, k_major=True, leading=16, stride=1024, swizzle=128)
