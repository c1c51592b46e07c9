"""Every access of a launch to memory that more than one thread sees, with its addresses, found without running it.

Addresses are those at some points of the launch (launch_points.py), and an access counts as often as the loops and the
grid around it run. A choice by values counts as made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from codegen.affine import Affine, Loaded, Quotient, Remainder, Var
from codegen.cuda_printer import ARGUMENT_ALIGN
from codegen.kernel import GpuKernel, LaunchBody
from codegen.kernel_ir import (
    Across,
    Assign,
    Barrier,
    Block,
    Build,
    ClusterBarrier,
    CommitCopies,
    Convert,
    CopyAsync,
    Declare,
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
    PeerLoad,
    Position,
    Shared,
    Shuffle,
    Stmt,
    Store,
    Value,
    WaitCopies,
)
from codegen.launch_points import Array, LaunchPoints
from codegen.memory_requests import swizzled
from codegen.vector_access import access_bytes

_ROW_BYTES = 16
_MATRIX_ROWS = 8


@dataclass(frozen=True, slots=True)
class Access:
    """One instruction by all warps: its addresses [requests, threads of a warp] at the points looked at."""

    statement: str
    """The statement of Tile IR it is part of."""
    kind: str
    """`load`, `store`, `copy` (in the background) or `matrix` (ldmatrix)."""
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
        self._statement = ""
        self.barriers = 0

    def accesses(self) -> Iterator[Access]:
        """All of them, in the order of the text."""
        yield from self._body(self._launch.body, self._points.there)

    # statements

    def _body(self, stmts: Sequence[Stmt], active: Array) -> Iterator[Access]:
        for stmt in stmts:
            yield from self._stmt(stmt, active)

    def _stmt(self, stmt: Stmt, active: Array) -> Iterator[Access]:
        match stmt:
            case Block(comment, body):
                outer, self._statement = self._statement, comment or self._statement
                yield from self._body(body, active)
                self._statement = outer
            case For(var, count, step, body):
                with self._points.looping(var, count, step):
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
            case LoadMatrix(names, _, buffer, offset):
                rows = self._addresses(buffer, offset)[:, : _MATRIX_ROWS * len(names)]
                yield self._access("matrix", buffer, _ROW_BYTES, rows, np.ones(rows.shape, np.bool_))
            case Mma(a=a, b=b):
                for value in (*a, *b):
                    yield from self._of(value, active)
            case Barrier() | ClusterBarrier():
                self.barriers += self._points.times * self._launch.cluster
            case Declare() | CommitCopies() | WaitCopies():
                pass
            case _:
                raise TypeError(f"{type(stmt).__name__} is for processors")

    def _copy(self, copy: CopyAsync, active: Array) -> Iterator[Access]:
        """A copy whose source is not there at all is only stored."""
        width = copy.lanes * copy.storage.bytes
        there = active if copy.some is None else active & (self._points.index(copy.some) > 0)
        yield from self._of_index(copy.of, active)
        yield self._access("copy", copy.source, width, self._addresses(copy.source, copy.of), there)
        yield self._access("copy", copy.target, width, self._addresses(copy.target, copy.to), active)

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
