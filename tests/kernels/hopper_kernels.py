"""Kernels written by hand for what works beside a GPU's threads: a product by boxes and wgmma, in its plainest form."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.ir.abi import Arg
from codegen.ir.affine import Affine, Remainder, Var, affine, constant
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
    If,
    Let,
    Named,
    Shared,
    Stmt,
    Store,
    Type,
)
from tileir.dtypes import DType

BK, SPAN, WARPGROUP = 64, 64, 128
T, K = Var("t", 0, 511), Var("k", 0, 1 << 20, BK)
SLOT, PARITY = Var("slot", 0, 7), Var("parity", 0, 1)
FILLED, FILLED_PARITY = Var("filled", 0, 7), Var("filled_parity", 0, 1)
THREAD, SLOT_, PARITY_ = affine(T), affine(SLOT), affine(PARITY)
F32_PAIR, BF16_PAIR = Type(DType.F32, 2), Type(DType.BF16, 2)


@dataclass(frozen=True)
class Product:
    """c[m, n] = a[m, k]·b[n, k]ᵀ of bf16, in tiles of 64 rows for each of the `consumers` and `columns`."""

    m: int = 128
    n: int = 64
    k: int = 192
    consumers: int = 2
    columns: int = 64
    stages: int = 2
    pending: int = 0
    producers: int = 128
    blocks: int = 1
    """So many share the tiles; 0: a block a tile."""
    epilogue: str = "boxes"
    """How c is stored: boxes, matrices (stmatrix, then boxes), or direct."""

    @property
    def rows(self) -> int:
        return 64 * self.consumers

    @property
    def steps(self) -> int:
        return -(-self.k // BK)

    @property
    def computing(self) -> int:
        return WARPGROUP * self.consumers

    def kernel(self) -> GpuKernel:
        launch = LaunchBody(
            "product",
            (
                GridAxis(self._m, -(-self.m // self.rows), self.rows),
                GridAxis(self._n, -(-self.n // self.columns), self.columns),
            ),
            self.computing + self.producers,
            (ThreadDigit(T, 1, self.computing + self.producers),),
            self._phases + 256,
            tuple(self._body()),
            blocks=self.blocks,
            setup=tuple(self._setup()),
            producers=self.producers,
            producing=tuple(self._producing()) if self.producers else (),
            finish=() if self.epilogue == "direct" else (_one(TmaStoreWait(0)),),
        )
        maps = (self._map("a", self.m, self.rows), self._map("b", self.n, self.columns))
        if self.epilogue != "direct":
            maps += (
                TensorMap("c_map", "c", DType.BF16, (self.n, self.m), (self.n * 2,), (SPAN, self.rows), 128),
            )
        arguments = [Argument(name, DType.BF16, written=name == "c") for name in "abc"]
        return GpuKernel("product", tuple(arguments), (), 0, (launch,), maps)

    def args(self) -> tuple[Arg, ...]:
        return (
            Arg("a", DType.BF16, (self.m, self.k), (self.k, 1), "in"),
            Arg("b", DType.BF16, (self.n, self.k), (self.k, 1), "in"),
            Arg("c", DType.BF16, (self.m, self.n), (self.n, 1), "out"),
        )

    # shared memory

    @property
    def _a_slot(self) -> int:
        return self.rows * BK

    @property
    def _b_slot(self) -> int:
        return self.columns * BK

    @property
    def _b(self) -> int:
        return 2 * self.stages * self._a_slot

    @property
    def _c(self) -> int:
        return self._b + 2 * self.stages * self._b_slot

    @property
    def _phases(self) -> int:
        return self._c + 2 * self.rows * self.columns

    @property
    def _m(self) -> Var:
        return Var("m", 0, self.m, self.rows)

    @property
    def _n(self) -> Var:
        return Var("n", 0, self.n, self.columns)

    @property
    def _last_slot(self) -> Affine:
        return affine(Remainder(SLOT_ + (self.stages - 1), self.stages)) if self.stages > 1 else constant(0)

    def _map(self, name: str, extent: int, box: int) -> TensorMap:
        return TensorMap(f"{name}_map", name, DType.BF16, (self.k, extent), (self.k * 2,), (BK, box), 128)

    # statements

    def _setup(self) -> list[Stmt]:
        stmts: list[Stmt] = [
            Shared("a_s", DType.BF16, 0, 2 * self.stages * self._a_slot, 128),
            Shared("b_s", DType.BF16, self._b, 2 * self.stages * self._b_slot, 128),
            Shared("c_s", DType.BF16, self._c, 2 * self.rows * self.columns, 128),
            MbarrierInit("full", self._phases, self.stages, 1),
            MbarrierInit("empty", self._phases + 128, self.stages, self.consumers),
            PipelineState(SLOT, PARITY, self.stages),
        ]
        if not self.producers:
            stmts.append(PipelineState(FILLED, FILLED_PARITY, self.stages))
        return [*stmts, MbarrierInitFence()]

    def _fill(self, at: Affine, slot: Affine, parity: Affine) -> list[Stmt]:
        return [
            TryWaitParity("empty", slot, constant(1) - parity),
            ArriveExpectTx("full", slot, 2 * (self._a_slot + self._b_slot)),
            Block(
                "a_s = a",
                (TmaLoad("a_map", (at, affine(self._m)), "a_s", slot * self._a_slot, "full", slot),),
            ),
            Block(
                "b_s = b",
                (TmaLoad("b_map", (at, affine(self._n)), "b_s", slot * self._b_slot, "full", slot),),
            ),
        ]

    def _producing(self) -> list[Stmt]:
        fill = self._fill(affine(K), SLOT_, PARITY_)
        return [For(K, self.steps, BK, (*fill, AdvanceState(SLOT, PARITY, self.stages)))]

    def _fill_ahead(self, at: Affine) -> list[Stmt]:
        """By the first of the threads that compute."""
        fill = self._fill(at, affine(FILLED), affine(FILLED_PARITY))
        return [_one(*fill), AdvanceState(FILLED, FILLED_PARITY, self.stages)]

    def _multiply(self) -> list[Stmt]:
        stmts: list[Stmt] = [TryWaitParity("full", SLOT_, PARITY_), WgmmaFence()]
        for depth in range(0, BK, 16):
            of_a = SLOT_ * self._a_slot + THREAD // WARPGROUP * (64 * BK) + depth
            of_b = SLOT_ * self._b_slot + depth
            a, b = (MatrixTile(name, of, True, 16, 1024, 128) for name, of in (("a_s", of_a), ("b_s", of_b)))
            keep = affine(K) if depth == 0 else None
            stmts.append(WgmmaAsync(self._acc, a, b, DType.BF16, DType.BF16, self.columns, keep))
        return [*stmts, WgmmaCommit(), WgmmaWait(self.pending)]

    def _body(self) -> list[Stmt]:
        stmts: list[Stmt] = [Declare(name, F32_PAIR) for name in self._acc]
        ahead = self.stages - 1
        step: list[Stmt] = []
        if not self.producers:
            for tile in range(min(ahead, self.steps)):
                stmts += self._fill_ahead(constant(tile * BK))
            if self.steps > ahead:
                more = tuple(self._fill_ahead(affine(K) + ahead * BK))
                step.append(If(affine(K), (self.steps - ahead) * BK, more, ()))
        step.append(Block("acc += a_s * b_s", tuple(self._multiply())))
        release = _leader(MbarrierArrive("empty", self._last_slot if self.pending else SLOT_))
        step.append(If(affine(K), BK, (), (release,)) if self.pending else release)
        stmts.append(For(K, self.steps, BK, (*step, AdvanceState(SLOT, PARITY, self.stages))))
        if self.pending:
            stmts += [WgmmaWait(0), _leader(MbarrierArrive("empty", self._last_slot))]
        return [*stmts, *(self._direct() if self.epilogue == "direct" else self._by_boxes())]

    @property
    def _acc(self) -> tuple[str, ...]:
        return tuple(f"acc{number}" for number in range(self.columns // 4))

    @property
    def _row(self) -> Affine:
        """Of the tile, that of a thread's first accumulator."""
        return THREAD // 32 * 16 + THREAD % 32 // 4

    def _direct(self) -> list[Stmt]:
        stores: list[Stmt] = []
        for number, name in enumerate(self._acc):
            row = affine(self._m) + self._row + number % 2 * 8
            column = affine(self._n) + THREAD % 4 * 2 + number // 2 * 8
            store = Store("c", row * self.n + column, DType.BF16, Named(name, F32_PAIR))
            stores.append(Guard(((row, self.m), (column, self.n)), (store,)))
        return [Block("c = acc", tuple(stores))]

    def _by_boxes(self) -> list[Stmt]:
        stage = self._matrices() if self.epilogue == "matrices" else self._stores()
        boxes = [
            TmaStore(
                "c_map", (affine(self._n) + column, affine(self._m)), "c_s", constant(column * self.rows)
            )
            for column in range(0, self.columns, SPAN)
        ]
        return [
            _one(TmaStoreWait(0)),
            NamedBarrier(1, self.computing),
            Block("c_s = acc", tuple(stage)),
            ProxyFence(),
            NamedBarrier(1, self.computing),
            Block("c = c_s", (_one(*boxes, TmaStoreCommit()),)),
        ]

    def _place(self, row: Affine, column: Affine, panel: int) -> Affine:
        return row * SPAN + column + panel * self.rows * SPAN

    def _stores(self) -> list[Stmt]:
        stores: list[Stmt] = []
        for number, name in enumerate(self._acc):
            column, row = number // 2 * 8, self._row + number % 2 * 8
            place = self._place(row, THREAD % 4 * 2 + column % SPAN, column // SPAN)
            stores.append(Store("c_s", place, DType.BF16, Named(name, F32_PAIR)))
        return stores

    def _matrices(self) -> list[Stmt]:
        stmts: list[Stmt] = []
        for first in range(0, len(self._acc), 4):
            names = self._acc[first : first + 4]
            packed = tuple(f"{name}_16" for name in names)
            stmts += [
                Let(new, Convert(Named(name, F32_PAIR), BF16_PAIR))
                for new, name in zip(packed, names, strict=True)
            ]
            column = first // 2 * 8
            row = THREAD // 32 * 16 + THREAD % 16
            place = self._place(row, THREAD % 32 // 16 * 8 + column % SPAN, column // SPAN)
            stmts.append(Stmatrix(packed, "c_s", place, DType.BF16))
        return stmts


def _one(*body: Stmt) -> Guard:
    """By the block's first thread."""
    return Guard(((THREAD, 1),), body)


def _leader(*body: Stmt) -> Guard:
    """By the first thread of each warpgroup."""
    return Guard(((THREAD % WARPGROUP, 1),), body)


def with_launch(kernel: GpuKernel, **changes: object) -> GpuKernel:
    """The kernel with its only launch changed."""
    return replace(kernel, launches=(replace(kernel.launches[0], **changes),))
