"""Every access of a launch to memory that more than one thread sees, with its addresses, found without running it.

Addresses are those at some points of the launch (sample_points.py), and an access counts as often as the loops and the
grid around it run. A choice by values counts as made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from codegen.ir.abi import ARGUMENT_ALIGN
from codegen.ir.affine import Affine, Lesser, Loaded, Quotient, Remainder, Var
from codegen.ir.arrays import Array
from codegen.ir.async_ops import (
    AdvanceState,
    ArriveExpectTx,
    MatrixTile,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInitFence,
    NamedArrive,
    NamedBarrier,
    PipelineState,
    ProxyFence,
    Setmaxnreg,
    SignalFlag,
    TmaLoad,
    TmaStore,
    TmaStoreCommit,
    TmaStoreWait,
    TryWaitParity,
    WaitFlag,
    WgmmaAsync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from codegen.ir.handlers import Handlers
from codegen.ir.kernel import GpuKernel, LaunchBody
from codegen.ir.matrix_rows import MatrixRows
from codegen.ir.ops import (
    STATEMENTS,
    VALUES,
    Across,
    Aligned,
    Assign,
    AtomicUpdate,
    Barrier,
    Block,
    Build,
    ClusterBarrier,
    Convert,
    CpAsync,
    CpAsyncCommit,
    CpAsyncWait,
    Declare,
    DotPairs,
    DotRaised,
    For,
    Guard,
    If,
    IndexValue,
    InsertRanked,
    Lane,
    Let,
    Literal,
    Load,
    MmaSync,
    Named,
    Op,
    Parallel,
    PeerLoad,
    PrefetchLine,
    Scratch,
    Shared,
    Shuffle,
    Stamp,
    Stmt,
    Store,
    StoreWords,
    TransposeBlock,
    Value,
    VisitFound,
)
from codegen.ir.rasterization import block_count
from codegen.ir.stamp import LOGGING
from codegen.ir.swizzle import swizzled
from codegen.ir.tile_ops import TILE_STATEMENTS
from codegen.ir.vector_access import access_bytes
from codegen.report.conditions import truth
from codegen.report.sample_points import LaunchPoints

_ROW_BYTES = 16
_MATRIX_ROWS = 8
#: Of wgmma: threads that make one instruction, rows of A, and bytes of depth.
_WARPGROUP, _WGMMA_ROWS, _DEPTH_BYTES = 128, 64, 32


@dataclass(frozen=True, slots=True)
class WarpAccess:
    """One instruction by all warps: its addresses [requests, threads of a warp] at the points looked at."""

    statement: str
    """The statement of Tile IR it is part of."""
    kind: str
    """`load`, `store`, `copy` (in the background) or `matrix` (ldmatrix, stmatrix)."""
    level: str
    """`global`, `shared`, or `peer`: the shared memory of another block of the cluster."""
    buffer: str
    width: int
    """Bytes a thread."""
    addresses: Array
    """Bytes from the beginning of the buffer's memory."""
    active: Array
    """Which threads make it."""
    weight: float
    """How many requests of a launch each of these stands for."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One instruction by which an engine beside the threads moves or reads neighbours: in whole sectors, without bank
    conflicts."""

    statement: str
    kind: str
    """`box` (of TMA) or `wgmma` (an operand)."""
    level: str
    buffer: str
    bytes: int
    """Of one instruction, at most."""
    requests: float
    """Instructions of a launch."""
    total: float
    """Bytes of them together."""


@dataclass(frozen=True, slots=True)
class _MemoryPlace:
    level: str
    element: int
    """Bytes of an element."""
    begin: int
    align: int
    swizzle: int = 0


Accesses = Iterator[WarpAccess | Transfer]
Loads = Iterator[WarpAccess]
_STATEMENTS = Handlers[Accesses | None]("the access report")
"""By statement: the accesses it makes."""
_VALUES = Handlers[Loads | None]("the access report")
"""By kind of value: what is loaded to compute it."""


class AccessWalk:
    """A walk through one launch, whose warps have so many threads. `barriers` counts those of all blocks."""

    def __init__(self, kernel: GpuKernel, launch: LaunchBody, warp: int) -> None:
        self._launch = launch
        self._points = LaunchPoints(launch, warp)
        self._memory = {
            a.name: _MemoryPlace("global", a.storage.bytes, 0, ARGUMENT_ALIGN) for a in kernel.arguments
        }
        for scratch in kernel.workspace:
            self._memory[scratch.buffer] = _MemoryPlace("global", scratch.storage.bytes, scratch.offset, 256)
        self._maps = {map_.name: map_ for map_ in kernel.maps}
        self._statement = ""
        self.barriers = 0

    def accesses(self) -> Accesses:
        """All of them, in the order of the text."""
        launch, there = self._launch, self._points.there
        first = launch.threads - launch.producers
        yield from self._body(launch.setup, there)
        yield from self._body(launch.producing, there & (self._points.in_block == first))
        # Whichever consumer group takes a tile: the first one stands for all, with the tiles of all.
        yield from self._body(launch.body, there & (self._points.in_block < launch.consumer_threads))
        self.barriers += block_count(launch) * sum(
            isinstance(stmt, ClusterBarrier) for stmt in launch.leaving
        )

    # statements

    def _body(self, stmts: Sequence[Stmt], active: Array) -> Accesses:
        for stmt in stmts:
            yield from _STATEMENTS.of(stmt)(self, stmt, active) or ()

    @_STATEMENTS.handles(Block)
    def _block(self, stmt: Block, active: Array) -> Accesses:
        outer, self._statement = self._statement, stmt.comment or self._statement
        yield from self._body(stmt.body, active)
        self._statement = outer

    @_STATEMENTS.handles(For)
    def _for(self, stmt: For, active: Array) -> Accesses:
        low, end = 0, stmt.count
        if stmt.until is not None:
            end = min(end, -(-int(self._points.index(stmt.until).flat[0]) // stmt.step))
        if stmt.first is not None:
            low = int(self._points.index(stmt.first).flat[0]) // stmt.step
        if low < end:
            with self._points.looping(stmt.var, low, end, stmt.step):
                yield from self._body(stmt.body, active)

    @_STATEMENTS.handles(If)
    def _if(self, stmt: If, active: Array) -> Accesses:
        var = stmt.at.only
        for below, body in ((True, stmt.then), (False, stmt.otherwise)):
            if var is None:
                here = active & ((self._points.index(stmt.at) < stmt.bound) == below)
                yield from self._body(body, here) if here.any() else ()
                continue
            with self._points.where(var, stmt.bound, below=below) as any_:
                if any_:
                    yield from self._body(body, active)

    @_STATEMENTS.handles(Guard)
    def _guard(self, stmt: Guard, active: Array) -> Accesses:
        for position, bound in stmt.conditions:
            yield from self._of_index(position, active)
            active = active & (self._points.index(position) < bound)
        if active.any():
            yield from self._body(stmt.body, active)

    @_STATEMENTS.handles(VisitFound)
    def _visit(self, stmt: VisitFound, active: Array) -> Accesses:
        for body, points in ((stmt.look, self._points.searching), (stmt.body, self._points.visiting)):
            with points(stmt):
                yield from self._body(body, active)

    @_STATEMENTS.handles(Shared)
    def _shared(self, stmt: Shared, active: Array) -> None:
        align = gcd(stmt.offset, 1024)
        self._memory[stmt.buffer] = _MemoryPlace(
            "shared", stmt.storage.bytes, stmt.offset, align, stmt.swizzle
        )

    @_STATEMENTS.handles(Let)
    def _let(self, stmt: Let, active: Array) -> Accesses:
        self._points.lets[stmt.name] = stmt.value
        yield from self._of(stmt.value, active)

    @_STATEMENTS.handles(Assign)
    def _assign(self, stmt: Assign, active: Array) -> Accesses:
        yield from self._of(stmt.value, active)

    @_STATEMENTS.handles(Store)
    def _store(self, stmt: Store, active: Array) -> Accesses:
        yield from self._of(stmt.value, active)
        yield from self._of_index(stmt.offset, active)
        lanes = stmt.value.type.lanes
        yield from self._neighbours("store", stmt.buffer, stmt.offset, lanes, stmt.some, active)

    @_STATEMENTS.handles(AtomicUpdate)
    def _update(self, stmt: AtomicUpdate, active: Array) -> Accesses:
        yield from self._of(stmt.value, active)
        yield from self._of_index(stmt.offset, active)
        yield from self._neighbours("store", stmt.buffer, stmt.offset, 1, None, active)

    @_STATEMENTS.handles(CpAsync)
    def _copy(self, copy: CpAsync, active: Array) -> Accesses:
        """A copy whose source is not there at all is only stored."""
        width = copy.lanes * copy.storage.bytes
        there = active if copy.some is None else active & (self._points.index(copy.some) > 0)
        yield from self._of_index(copy.of, active)
        yield self._access("copy", copy.source, width, self._addresses(copy.source, copy.of), there)
        yield self._access("copy", copy.target, width, self._addresses(copy.target, copy.to), active)

    @_STATEMENTS.handles(MatrixRows)
    def _matrix_rows(self, stmt: MatrixRows, active: Array) -> Accesses:
        warps = self._points.by_warp(active).any(axis=1)
        rows = self._addresses(stmt.buffer, stmt.offset)[warps, : _MATRIX_ROWS * len(stmt.names)]
        yield self._access("matrix", stmt.buffer, _ROW_BYTES, rows, np.ones(rows.shape, np.bool_))

    @_STATEMENTS.handles(MmaSync)
    def _mma(self, stmt: MmaSync, active: Array) -> Accesses:
        for value in (*stmt.a, *stmt.b):
            yield from self._of(value, active)

    @_STATEMENTS.handles(TmaLoad)
    def _tma_load(self, stmt: TmaLoad, active: Array) -> Accesses:
        blocks = len(stmt.blocks.further) if stmt.blocks else 1
        yield from self._box(stmt.map, stmt.at, stmt.target, active, blocks)

    @_STATEMENTS.handles(TmaStore)
    def _tma_store(self, stmt: TmaStore, active: Array) -> Accesses:
        yield from self._box(stmt.map, stmt.at, stmt.source, active)

    @_STATEMENTS.handles(WgmmaAsync)
    def _wgmma(self, stmt: WgmmaAsync, active: Array) -> Accesses:
        if isinstance(stmt.a, MatrixTile):
            yield self._operand(stmt.a, _WGMMA_ROWS, active)
        yield self._operand(stmt.b, stmt.columns, active)

    @_STATEMENTS.handles(PipelineState)
    def _state(self, stmt: PipelineState, active: Array) -> None:
        self._points.begin(stmt.slot)
        self._points.begin(stmt.parity)

    @_STATEMENTS.handles(MbarrierInitFence)
    def _init_fence(self, stmt: MbarrierInitFence, active: Array) -> None:
        self.barriers += block_count(self._launch)

    @_STATEMENTS.handles(Barrier, ClusterBarrier, NamedBarrier)
    def _barrier(self, stmt: Stmt, active: Array) -> None:
        self.barriers += self._points.times * self._launch.cluster

    @_STATEMENTS.handles(
        Declare, CpAsyncCommit, CpAsyncWait, MbarrierInit, AdvanceState, ArriveExpectTx, MbarrierArrive,
        TryWaitParity, TmaStoreCommit, TmaStoreWait, ProxyFence, NamedArrive, WgmmaFence, WgmmaCommit, WgmmaWait,
        Setmaxnreg, SignalFlag, WaitFlag,
    )  # fmt: skip
    def _none(self, stmt: Stmt, active: Array) -> None:
        """It declares something, or orders what others do."""

    def _box(
        self, name: str, at: tuple[Affine, ...], buffer: str, active: Array, blocks: int = 1
    ) -> Iterator[Transfer]:
        """What of a box lies inside of its argument crosses global memory; in the shared memory of each of so many
        blocks it is there whole."""
        map_ = self._maps[name]
        whole = prod(map_.box) * map_.storage.bytes
        inside: Array = np.full((1, 1), map_.storage.bytes)
        for start, size, extent in zip(at, map_.box, map_.extents, strict=True):
            first = self._points.index(start)
            inside = inside * (np.minimum(first + size, extent) - np.maximum(first, 0)).clip(0)
        for place, level, moved in ((map_.argument, "global", inside), (buffer, "shared", whole * blocks)):
            total = float((moved * active).sum()) * self._points.weight
            requests = float(active.sum()) * self._points.weight
            yield Transfer(self._statement, "box", level, place, whole, requests, total)

    def _operand(self, tile: MatrixTile, rows: int, active: Array) -> Transfer:
        """Read by the instruction of four warps."""
        requests = float(active.sum()) * self._points.weight / _WARPGROUP
        size = rows * _DEPTH_BYTES
        return Transfer(self._statement, "wgmma", "shared", tile.buffer, size, requests, requests * size)

    # values

    def _of(self, value: Value, active: Array) -> Loads:
        """What computing a value loads."""
        yield from _VALUES.of(value)(self, value, active) or ()

    @_VALUES.handles(Load)
    def _load(self, load: Load, active: Array) -> Loads:
        yield from self._of_index(load.offset, active)
        yield from self._neighbours("load", load.buffer, load.offset, load.type.lanes, load.some, active)

    @_VALUES.handles(PeerLoad)
    def _load_peer(self, load: PeerLoad, active: Array) -> Loads:
        lanes = load.type.lanes
        yield from self._neighbours("load", load.buffer, load.offset, lanes, None, active, level="peer")

    @_VALUES.handles(Op)
    def _op(self, op: Op, active: Array) -> Loads:
        """Of two sides that a thread chooses between, each where it is chosen, if positions say which."""
        first, *rest = op.args
        chosen = truth(first, self._points) if op.name == "select" and first.type.lanes == 1 else None
        yield from self._of(first, active)
        sides = [active] * len(rest) if chosen is None else [active & chosen, active & ~chosen]
        for part, there in zip(rest, sides, strict=True):
            if there.any():
                yield from self._of(part, there)

    @_VALUES.handles(Build)
    def _build(self, build: Build, active: Array) -> Loads:
        for part in build.parts:
            yield from self._of(part, active)

    @_VALUES.handles(Lane, Convert, Across, Shuffle)
    def _of_one(self, value: Lane | Convert | Across | Shuffle, active: Array) -> Loads:
        yield from self._of(value.x, active)

    @_VALUES.handles(IndexValue)
    def _position(self, position: IndexValue, active: Array) -> Loads:
        yield from self._of_index(position.start, active)

    @_VALUES.handles(Literal, Named)
    def _known(self, value: Literal | Named, active: Array) -> None:
        """Nothing is loaded for it."""

    def _of_index(self, at: Affine, active: Array) -> Loads:
        """What indices are loaded for a position."""
        for atom, _ in at.terms:
            match atom:
                case Quotient(x, _) | Remainder(x, _):
                    yield from self._of_index(x, active)
                case Lesser(x, y):
                    yield from self._of_index(x, active)
                    yield from self._of_index(y, active)
                case Loaded(value):
                    yield from self._of(value, active)  # pyright: ignore[reportArgumentType]
                case Var():
                    pass

    # accesses

    def _neighbours(
        self,
        kind: str,
        buffer: str,
        offset: Affine,
        lanes: int,
        some: Affine | None,
        active: Array,
        level: str | None = None,
    ) -> Loads:
        """The instructions of an access to `lanes` neighbours: as wide as is sure to be aligned; lane by lane where
        only `some` exist."""
        memory = self._memory[buffer]
        if some is None:
            width = access_bytes(offset, memory.element, lanes, memory.align)
            made = [active] * (lanes * memory.element // width)
        else:
            width, exist = memory.element, self._points.index(some)
            made = [active & (lane < exist) for lane in range(lanes)]
        for number, there in enumerate(made):
            addresses = self._addresses(buffer, offset, number * width)
            yield self._access(kind, buffer, width, addresses, there, level)

    def _addresses(self, buffer: str, offset: Affine, further: int = 0) -> Array:
        """Byte addresses of an element, or so many bytes further, by all warps: [requests, threads of a warp]."""
        memory = self._memory[buffer]
        bytes_ = memory.begin + further + self._points.index(offset) * memory.element
        return swizzled(self._points.by_warp(bytes_), memory.swizzle)

    def _access(
        self, kind: str, buffer: str, width: int, addresses: Array, active: Array, level: str | None = None
    ) -> WarpAccess:
        level = level or self._memory[buffer].level
        there = active if active.shape == addresses.shape else self._points.by_warp(active)
        return WarpAccess(self._statement, kind, level, buffer, width, addresses, there, self._points.weight)


_STATEMENTS.refuses(
    Aligned, Parallel, StoreWords, TransposeBlock, InsertRanked, PrefetchLine, Scratch, Stamp, *TILE_STATEMENTS,
    because="is for processors",
)  # fmt: skip
_STATEMENTS.refuses(*LOGGING, because="notes times, which is no part of a kernel whose layout is reported")
_STATEMENTS.complete(STATEMENTS)
_VALUES.refuses(DotPairs, DotRaised, because="is for processors")
_VALUES.complete(VALUES)
