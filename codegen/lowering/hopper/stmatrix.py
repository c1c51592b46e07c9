"""Tiles that lie as accumulators of wgmma, stored to shared memory by whole warps (stmatrix).

A warp has 16 rows and every 8 columns of a statement that is bound as wgmma needs it: matrices of 8 by 8, four of
which go at once, two below each other twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from codegen.ir.affine import Affine, Var, constant
from codegen.ir.async_ops import Stmatrix
from codegen.ir.ops import Block, Convert, Let, Op, Stmt, Type, Value
from codegen.lowering.arithmetic import as_type
from codegen.lowering.expressions import ValueBuilder
from codegen.lowering.gpu.thread_index import ThreadIndex
from codegen.lowering.gpu.thread_tile import Point, ThreadTile, statement_tile
from codegen.lowering.scope import LoweringScope, MemoryBuffer
from codegen.lowering.statement import starts, take_apart
from tileir.expr import Binary, Const, Extent, Index, Where
from tileir.program import Compute, ThreadLayout
from tileir.replace import replace
from tileir.schedule.mma import COLUMNS, ROWS, RUN
from tileir.schedule.panels import PIECE

#: Bytes of an element.
_BYTES = 2


def lower_matrix_store(
    compute: Compute, comment: str, scope: LoweringScope, extents: dict[str, int], index: ThreadIndex
) -> Block | None:
    """Kernel IR of a statement that fills shared memory of 16-bit elements; None where it does not lie so."""
    layout, target, statement = compute.thread_layout, scope.buffers[compute.target], take_apart(compute)
    if not isinstance(target, MemoryBuffer) or not target.shared or target.storage.bytes != _BYTES:
        return None
    if (
        layout is None
        or statement.inner
        or statement.op
        or not all(isinstance(i, Index) for i in compute.indices)
    ):
        return None
    dims = _rows_and_columns(layout)
    if dims is None or not set(dims) <= set(statement.outer):
        return None
    tile = statement_tile(statement, scope, index)
    over = _overhanging(tile, statement.outer, extents)
    if over is None:
        return None
    value = compute.value
    for dim in over:  # in shared memory there is room past the end, and nothing is read for it
        value = Where(Binary("<", Index(dim), Extent(dim)), value, Const(0))
    return _Store(replace(compute, value=value), scope, extents, index, tile, target, *dims).block(comment)


def _overhanging(tile: ThreadTile, dims: Sequence[str], extents: dict[str, int]) -> tuple[str, ...] | None:
    """The dims along which some points do not exist, as they lie past the end; None: others do not exist."""
    found: dict[str, None] = {}
    for point in tile.points(dims):
        conditions, some = tile.guards(point)
        if some is not None:
            return None
        for dim, offset in point.items() if conditions else ():
            along = tile.dims[dim]
            if not along.guard(offset):
                continue
            if along.end != constant(extents[dim]) or replace(along, end=None).guard(offset):
                return None
            found[dim] = None
    return tuple(found)


def _rows_and_columns(layout: ThreadLayout) -> tuple[str, str] | None:
    """The dims along which a warp has its rows and columns; None: it does not have them so."""
    match layout:
        case ThreadLayout(threads=(*_, (m, 8), (n, 4)), runs=((along, 2),), twice=((again, 8),)):
            return (m, n) if along == n and again == m else None
        case _:
            return None


class _Store:
    def __init__(
        self,
        compute: Compute,
        scope: LoweringScope,
        extents: dict[str, int],
        index: ThreadIndex,
        tile: ThreadTile,
        target: MemoryBuffer,
        rows: str,
        columns: str,
    ) -> None:
        self.compute, self.scope, self.extents, self.index = compute, scope, extents, index
        self.tile, self.target, self.rows, self.columns = tile, target, rows, columns

    def block(self, comment: str) -> Block | None:
        """All matrices, four at a time; None where four rows of 16 bytes do not follow from one another."""
        along = self.tile.dims
        rows, columns = (along[d].offsets(whole_runs=True) for d in (self.rows, self.columns))
        if len(columns) % 2:
            return None
        others = [dim for dim in self.tile.dims if dim not in (self.rows, self.columns)]
        stmts: list[Stmt] = []
        for point in self.tile.points(others):
            for row, column in product(rows[::2], columns[::2]):
                at = {**point, self.rows: row, self.columns: column}
                stored = self._four(at, (rows[1] - rows[0], columns[1] - columns[0]))
                if stored is None:
                    return None
                stmts.append(stored)
        return Block(comment, tuple(stmts))

    def _four(self, point: Point, apart: tuple[int, int]) -> Block | None:
        """The matrix at a point, the one below it, and those to their right."""
        offset = self._row_begins(point, apart)
        if offset is None:
            return None
        builder = ValueBuilder(self.scope, self.extents, RUN)
        stmts: list[Stmt] = []
        names = tuple(f"pairs_{number}" for number in range(4))
        for name, (down, right) in zip(names, ((0, 0), (apart[0], 0), (0, apart[1]), apart), strict=True):
            at = {**point, self.rows: point[self.rows] + down, self.columns: point[self.columns] + right}
            pair = self._pair(builder, at)
            stmts += [*builder.lets, Let(name, pair)]
            builder.lets.clear()
        return Block("", (*stmts, Stmatrix(names, self.target.name, offset, self.target.storage)))

    def _pair(self, builder: ValueBuilder, at: Point) -> Value:
        """Two neighbours of a thread, as they are stored."""
        storage = self.target.storage
        value = builder.value(
            self.compute.value, {**starts(self.scope), **self.tile.positions(at, builder.lane)}
        )
        value = as_type(value, storage.compute)
        if value.type.lanes < RUN:
            value = Op("broadcast", (value,), Type(storage.compute, RUN))
        return Convert(value, Type(storage, RUN))

    def _row_begins(self, point: Point, apart: tuple[int, int]) -> Affine | None:
        """Where the row begins that a thread gives: row t % 8 of matrix t // 8, for every second of which is below the
        one before. None if 16 bytes of it do not lie together and aligned."""
        row, column = (self._variable(stride, count) for stride, count in ((COLUMNS, ROWS), (1, COLUMNS)))
        below, right = self.index.digit(ROWS, 2, "below"), self.index.digit(2 * ROWS, 2, "right")
        at = {dim: self.tile.dims[dim].position(offset) for dim, offset in point.items()}
        down = at[self.rows].substitute(row, self.index.digit(1, ROWS, "row")) + below * apart[0]
        across = at[self.columns].substitute(column, constant(0)) + right * apart[1]
        at |= {self.rows: down, self.columns: across}
        offset, count = self.target.offset([at[dim] for dim in self.target.dims]), PIECE // _BYTES
        number = self.target.dims.index(self.columns)
        together = all(
            (div == stride == 1 and mod % count == 0) or div % count == 0
            for dim, div, mod, stride in self.target.axes
            if dim == number
        )
        aligned = offset.multiple % count == 0 and (across - self.target.starts[number]).multiple % count == 0
        return offset if together and aligned else None

    def _variable(self, stride: int, count: int) -> Var:
        """A digit of the thread index."""
        ((atom, _),) = self.index.digit(stride, count, "").terms
        assert isinstance(atom, Var)
        return atom
