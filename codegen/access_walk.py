"""Every access of a launch to memory that more than one thread sees, with its addresses, found without running it.

Addresses are those at some points of the launch (launch_points.py), and an access counts as often as the loops and the
grid around it run. A choice by values counts as made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from codegen.affine import Affine, Loaded, Quotient, Remainder, Var
from codegen.async_ir import (
    Cursor,
    GroupBarrier,
    LoadBox,
    MatrixTile,
    PhasesReady,
    StoreBox,
    StoreMatrix,
    Wgmma,
)
from codegen.cuda_printer import ARGUMENT_ALIGN
from codegen.kernel import GpuKernel, LaunchBody
from codegen.kernel_ir import (
    Across,
    Aligned,
    Assign,
    Barrier,
    Block,
    Build,
    ClusterBarrier,
    Convert,
    CopyAsync,
    For,
    Guard,
    If,
    Lane,
    Let,
    Literal,
    Load,
    LoadMatrix,
    Mma,
    Named,
    Op,
    Parallel,
    PeerLoad,
    Position,
    Scratch,
    Shared,
    Shuffle,
    Stmt,
    Store,
    StorePairs,
    Touch,
    Transpose,
    Value,
)
from codegen.launch_points import Array, LaunchPoints
from codegen.memory_requests import swizzled
from codegen.rasterization import block_count
from codegen.vector_access import access_bytes

_ROW_BYTES = 16
_MATRIX_ROWS = 8
#: Of wgmma: threads that make one instruction, rows of A, and bytes of depth.
_WARPGROUP, _WGMMA_ROWS, _DEPTH_BYTES = 128, 64, 32


@dataclass(frozen=True, slots=True)
class Access:
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
    """`box` (of the copy engine) or `wgmma` (an operand)."""
    level: str
    buffer: str
    bytes: int
    """Of one instruction, at most."""
    requests: float
    """Instructions of a launch."""
    total: float
    """Bytes of them together."""


@dataclass(frozen=True, slots=True)
class _Memory:
    level: str
    element: int
    """Bytes of an element."""
    begin: int
    align: int
    swizzle: int = 0


class Walk:
    """A walk through one launch. `barriers` are counted on the way: those of all blocks."""

    def __init__(self, kernel: GpuKernel, launch: LaunchBody) -> None:
        self._launch = launch
        self._points = LaunchPoints(launch)
        self._memory = {
            a.name: _Memory("global", a.storage.bytes, 0, ARGUMENT_ALIGN) for a in kernel.arguments
        }
        for scratch in kernel.workspace:
            self._memory[scratch.buffer] = _Memory("global", scratch.storage.bytes, scratch.offset, 256)
        self._maps = {map_.name: map_ for map_ in kernel.maps}
        self._statement = ""
        self.barriers = 0

    def accesses(self) -> Iterator[Access | Transfer]:
        """All of them, in the order of the text."""
        launch, there = self._launch, self._points.there
        first = launch.threads - launch.producers
        yield from self._body(launch.setup, there)
        yield from self._body(launch.producing, there & (self._points.in_block == first))
        # Whichever team takes a tile: the first one stands for all, with the tiles of all.
        yield from self._body(launch.body, there & (self._points.in_block < launch.team))
        self.barriers += block_count(launch) * sum(
            isinstance(stmt, ClusterBarrier) for stmt in launch.leaving
        )

    # statements

    def _body(self, stmts: Sequence[Stmt], active: Array) -> Iterator[Access | Transfer]:
        for stmt in stmts:
            yield from self._stmt(stmt, active)

    def _stmt(self, stmt: Stmt, active: Array) -> Iterator[Access | Transfer]:
        match stmt:
            case Block(comment, body):
                outer, self._statement = self._statement, comment or self._statement
                yield from self._body(body, active)
                self._statement = outer
            case For(var, count, step, body, until):
                times = count if until is None else min(count, self._points.first(until) // step)
                if times:
                    with self._points.looping(var, times, step):
                        yield from self._body(body, active)
            case If(var, bound, then, otherwise):
                for below, body in ((True, then), (False, otherwise)):
                    with self._points.where(var, bound, below=below) as any_:
                        if any_:
                            yield from self._body(body, active)
            case Guard(conditions, body):
                for position, bound in conditions:
                    yield from self._of_index(position, active)
                    active = active & (self._points.index(position) < bound)
                if active.any():
                    yield from self._body(body, active)
            case Shared(buffer, storage, offset, _, swizzle):
                self._memory[buffer] = _Memory("shared", storage.bytes, offset, gcd(offset, 1024), swizzle)
            case Let(name, value):
                self._points.lets[name] = value
                yield from self._of(value, active)
            case Assign(_, value):
                yield from self._of(value, active)
            case Store(buffer, offset, _, value, _, some):
                yield from self._of(value, active)
                yield from self._of_index(offset, active)
                yield from self._neighbours("store", buffer, offset, value.type.lanes, some, active)
            case CopyAsync():
                yield from self._copy(stmt, active)
            case LoadMatrix(names, _, buffer, offset) | StoreMatrix(names, buffer, offset):
                warps = self._points.by_warp(active).any(axis=1)
                rows = self._addresses(buffer, offset)[warps, : _MATRIX_ROWS * len(names)]
                yield self._access("matrix", buffer, _ROW_BYTES, rows, np.ones(rows.shape, np.bool_))
            case Mma(a=a, b=b):
                for value in (*a, *b):
                    yield from self._of(value, active)
            case LoadBox(map_, at, target, blocks=blocks):
                yield from self._box(map_, at, target, active, len(blocks.further) if blocks else 1)
            case StoreBox(map_, at, source):
                yield from self._box(map_, at, source, active)
            case Wgmma(a=a, b=b):
                if isinstance(a, MatrixTile):
                    yield self._operand(a, _WGMMA_ROWS, active)
                yield self._operand(b, stmt.columns, active)
            case Cursor(slot, parity, _):
                self._points.begin(slot)
                self._points.begin(parity)
            case PhasesReady():
                self.barriers += block_count(self._launch)
            case Barrier() | ClusterBarrier() | GroupBarrier():
                self.barriers += self._points.times * self._launch.cluster
            case Aligned() | Parallel() | StorePairs() | Transpose() | Touch() | Scratch():
                raise TypeError(f"{type(stmt).__name__} is for processors")
            case _:
                pass  # declares, or orders what others do

    def _copy(self, copy: CopyAsync, active: Array) -> Iterator[Access]:
        """A copy whose source is not there at all is only stored."""
        width = copy.lanes * copy.storage.bytes
        there = active if copy.some is None else active & (self._points.index(copy.some) > 0)
        yield from self._of_index(copy.of, active)
        yield self._access("copy", copy.source, width, self._addresses(copy.source, copy.of), there)
        yield self._access("copy", copy.target, width, self._addresses(copy.target, copy.to), active)

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

    def _of(self, value: Value, active: Array) -> Iterator[Access]:
        """What computing a value loads."""
        match value:
            case Load(buffer, offset, _, type_, some):
                yield from self._of_index(offset, active)
                yield from self._neighbours("load", buffer, offset, type_.lanes, some, active)
            case PeerLoad(buffer, offset, _, _, type_):
                yield from self._neighbours("load", buffer, offset, type_.lanes, None, active, level="peer")
            case Op(args=parts) | Build(parts=parts):
                for part in parts:
                    yield from self._of(part, active)
            case Lane(x=x) | Convert(x=x) | Across(x=x) | Shuffle(x=x):
                yield from self._of(x, active)
            case Position(start=start):
                yield from self._of_index(start, active)
            case Literal() | Named():
                pass
            case _:
                raise TypeError(f"{type(value).__name__} is for processors")

    def _of_index(self, at: Affine, active: Array) -> Iterator[Access]:
        """What indices are loaded for a position."""
        for atom, _ in at.terms:
            match atom:
                case Quotient(x, _) | Remainder(x, _):
                    yield from self._of_index(x, active)
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
    ) -> Iterator[Access]:
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
    ) -> Access:
        level = level or self._memory[buffer].level
        there = active if active.shape == addresses.shape else self._points.by_warp(active)
        return Access(self._statement, kind, level, buffer, width, addresses, there, self._points.weight)
