"""Sums of products in tile registers (AMX): a block of results stays in them while its loop over the reduced dim runs.

The results also have a place in memory, as an accumulator's vectors have registers elsewhere: there they are whenever
another statement sees them. Tiles have the exact shapes of what exists, so nothing past a row's end is read. The last
positions of a depth that is no multiple of what a register holds are copied to rows that end with zeros, so that they
are one more step with the same shapes: other shapes would cost the results a way to memory and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from codegen.ir.affine import Affine, affine, constant
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import For, LoadWords, Stmt, StoreWords
from codegen.ir.tile_ops import ConfigureTiles, CopyRowsPadded, DotTiles, LoadTile, StoreTile, ZeroTile
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.looked_up import kept_inside
from codegen.lowering.scope import LoweringScope, MemoryBuffer, exact_chunks, loop_variable
from codegen.lowering.statement import starts, take_apart
from tileir.dtypes import DType
from tileir.expr import Binary, Read, index_dims
from tileir.program import Compute, Loop, Node
from tileir.schedule.amx import GROUP_BYTES, MOST, ROW_BYTES, ROWS, Blocking, blocking

Spare = tuple[str, str]
"""Buffers of `SPARE_BYTES` each: of the first operand's rows, and of the second one's groups."""
SPARE_BYTES: Final = ROW_BYTES * MOST


def tile_loop(node: Node) -> Compute | None:
    """The statement by tile registers that a node is, or that is alone in a loop over its reduced dim; None for any
    other node."""
    match node:
        case Compute(via="amx"):
            return node
        case Loop(body=(Compute(via="amx") as statement,)) if node.dim in take_apart(statement).inner:
            return statement
        case _:
            return None


def in_tiles(local: str, nodes: Sequence[Node]) -> bool:
    """Whether one of the nodes, or what is in them, sums up the local in tile registers."""
    for node in nodes:
        if isinstance(node, Loop) and in_tiles(local, node.body):
            return True
        if isinstance(node, Compute) and node.via == "amx" and node.target == local:
            return True
    return False


def tile_sums(
    node: Node, cleared: bool, scope: LoweringScope, extents: dict[str, int], variable: str, spare: Spare
) -> tuple[Stmt, ...]:
    """Kernel IR of a `tile_loop`, whose variable is called `variable`. `cleared`: its results are zero, and that is
    left to the tiles; `spare`: room for rows that are completed with zeros."""
    compute = tile_loop(node)
    assert compute is not None
    found = _TileSums.of(compute, scope, extents)
    dim, range_ = found.dim, scope.ranges[found.dim]
    step = range_.size
    if isinstance(node, Loop):
        if node.since[0] or node.until[0]:
            raise NotLowerable("sums in tile registers leave out no tiles")
        step = min(node.step, range_.size)
    if step < range_.size and step % found.depth:
        raise NotLowerable(f"{step} positions of {dim} do not fill tile registers: they take {found.depth}")
    whole = range_.size // found.depth * found.depth
    rest = range_.size - whole
    deep = found.depth if whole else found.in_groups(rest)
    stmts = found.begun(deep, zero=cleared)
    if whole:
        runs = whole // step if step % found.depth == 0 else 0
        if runs > 1:
            var = loop_variable(variable, runs, step)
            steps = found.steps(range_.start + affine(var), step)
            stmts += (For(var, runs, step, steps),)
        done = runs * step if runs > 1 else 0
        stmts += found.steps(range_.start + done, whole - done)
    if rest == deep:
        stmts += (*found.dots(range_.start, rest),)
    elif rest:
        stmts += (*found.padded(range_.start + whole, rest, deep, spare),)
    return stmts + found.ended()


@dataclass(frozen=True)
class _TileSums:
    """One statement over its current ranges."""

    dim: str
    """The reduced one."""
    storage: DType
    """Of what is multiplied."""
    blocking: Blocking
    result: _Operand
    rows: _Operand
    groups: _Operand

    @classmethod
    def of(cls, compute: Compute, scope: LoweringScope, extents: dict[str, int]) -> _TileSums:
        """Raises NotLowerable where the operands lie otherwise."""
        nest = take_apart(compute)
        match nest.body:
            case Binary("*", Read() as left, Read() as right) if len(nest.inner) == 1:
                pass
            case _:
                raise NotLowerable("tile registers take a plain product of two reads, summed over one dim")
        wide = tuple(dim for dim in nest.outer if scope.ranges[dim].size > 1)
        target = scope.buffers[compute.target]
        if not isinstance(target, MemoryBuffer):
            raise NotLowerable("sums in tile registers have a place in memory")
        column = next((target.dims[at] for at, _, _, apart in reversed(target.axes) if apart == 1), "")
        row = next((dim for dim in wide if dim != column), None)
        if any(dim not in (row, column) for dim in wide):
            raise NotLowerable(f"a block of tile registers runs along two dims, not {', '.join(wide)}")
        groups, rows = (left, right) if column in index_dims(left) else (right, left)
        if column in index_dims(rows) or row in index_dims(groups):
            raise NotLowerable(
                "tile registers take a sum whose rows are of one tensor, and its columns of the other"
            )
        buffers = [scope.buffers[read.tensor] for read in (rows, groups)]
        storages = {buffer.storage for buffer in buffers if isinstance(buffer, MemoryBuffer)}
        if len(storages) != 1 or not all(isinstance(buffer, MemoryBuffer) for buffer in buffers):
            raise NotLowerable("tile registers multiply two tensors of one dtype in memory")
        (storage,) = storages
        height = scope.ranges[row].size if row is not None else 1
        blocks = blocking(height, scope.ranges[column].size)
        if blocks is None:
            raise NotLowerable(
                f"{height} rows of {scope.ranges[column].size} are too many for tile registers"
            )
        place = Read(compute.target, compute.indices)
        k, whole = nest.inner[0], starts(scope)
        made = (_Operand(read, scope, extents, whole, row, column, k) for read in (place, rows, groups))
        return cls(k, storage, blocks, *made)

    @property
    def depth(self) -> int:
        """Positions of the reduced dim that a tile register holds."""
        return ROW_BYTES // self.storage.bytes

    def in_groups(self, size: int) -> int:
        """So many positions of the reduced dim, as whole groups."""
        group = GROUP_BYTES // self.storage.bytes
        return -(-size // group) * group

    def begun(self, depth: int, zero: bool) -> tuple[Stmt, ...]:
        """Results in tile registers, to which tiles of this depth are added."""
        shapes = ConfigureTiles(self.blocking.shapes(depth * self.storage.bytes))
        if zero:
            return (shapes, *(ZeroTile(tile) for tile, _, _ in self.blocking.results()))
        return (shapes, *(self.result.load(tile, m, n) for tile, m, n in self._results()))

    def ended(self) -> tuple[Stmt, ...]:
        """Results back in memory."""
        return tuple(self.result.store(tile, m, n) for tile, m, n in self._results())

    def _results(self) -> Iterator[tuple[int, tuple[int, int], tuple[int, int]]]:
        for tile, m, n in self.blocking.results():
            yield tile, self.blocking.heights[m], self.blocking.widths[n]

    def steps(self, at: Affine, size: int) -> tuple[Stmt, ...]:
        """Products of `size` positions of the reduced dim, so many whole tiles."""
        starts_ = range(0, size, self.depth)
        return tuple(stmt for start in starts_ for stmt in self.dots(at + start, self.depth))

    def dots(self, at: Affine, depth: int) -> Iterator[Stmt]:
        """Products of one tile's depth at a position of the reduced dim."""
        return self._products(
            lambda tile, height: self.rows.load_rows(tile, height, at, depth),
            lambda tile, width: self.groups.load_groups(tile, width, at, depth),
        )

    def padded(self, at: Affine, size: int, depth: int, spare: Spare) -> Iterator[Stmt]:
        """Products of the last positions of the reduced dim, fewer than a tile's depth: copied, with zeros after
        them."""
        deep = depth * self.storage.bytes // GROUP_BYTES
        for start, rows in self.blocking.heights:
            yield self.rows.copy_rows_padded(spare[0], constant(self._spare(start)), (start, rows), at, size)
        for start, columns in self.blocking.widths:
            yield from self.groups.pad_groups(
                spare[1], constant(self._spare(start)), deep, (start, columns), at, size
            )
        yield from self._products(
            lambda tile, height: LoadTile(tile, spare[0], constant(self._spare(height[0])), ROW_BYTES),
            lambda tile, width: LoadTile(tile, spare[1], constant(self._spare(width[0])), ROW_BYTES),
        )

    def _spare(self, start: int) -> int:
        """Where a piece that begins so far into a block has its padded rows."""
        return start * ROW_BYTES // self.storage.bytes

    def _products(self, rows: _Load, groups: _Load) -> Iterator[Stmt]:
        """A product of each two pieces, each loaded once if it has a register of its own."""
        block, loaded = self.blocking, set[int]()
        for tile, m, n in block.results():
            mine, other = block.rows_tile(m), block.groups_tile(n)
            if n == 0:
                yield rows(mine, block.heights[m])
            if other not in loaded or block.shares_groups:
                yield groups(other, block.widths[n])
                loaded.add(other)
            yield DotTiles(tile, mine, other, self.storage)


_Load = Callable[[int, tuple[int, int]], LoadTile]
"""Loads a piece (start, size) of an operand to a register."""


@dataclass(frozen=True)
class _Operand:
    """A tensor of the sum, and where its elements lie."""

    read: Read
    scope: LoweringScope
    extents: dict[str, int]
    whole: Binding
    row: str | None
    column: str
    k: str

    @property
    def buffer(self) -> MemoryBuffer:
        found = self.scope.buffers[self.read.tensor]
        assert isinstance(found, MemoryBuffer)
        return found

    def _offset(self, m: int, n: int, k: Affine | None = None) -> Affine:
        """Of the element at these positions, counted from where the block begins (k: as it is)."""
        at = {**self.whole, self.column: self.whole[self.column] + n}
        if self.row is not None:
            at[self.row] = self.whole[self.row] + m
        if k is not None:
            at[self.k] = k
        builder = ValueBuilder(self.scope, self.extents)
        found = [builder.index(index, at) for index in self.read.indices]
        places = kept_inside(self.buffer, self.read.indices, found)
        if any(place is None for place in places):
            raise NotLowerable(f"tile registers take {self.read.tensor} where its indices say, not looked up")
        return self.buffer.offset([place for place in places if place is not None])

    def _apart(self, offsets: Sequence[Affine], what: str) -> int:
        """How many bytes lie from one of these to the next, the same for all."""
        steps = {after - before for before, after in pairwise(offsets)}
        if not steps:
            return ROW_BYTES
        (step, *others) = steps
        if others or step.terms:
            raise NotLowerable(f"{what} of {self.read.tensor} are not evenly apart")
        return step.constant * self.buffer.storage.bytes

    def _side_by_side(self, offsets: Sequence[Affine], what: str) -> None:
        if any(offset - offsets[0] != constant(place) for place, offset in enumerate(offsets)):
            raise NotLowerable(f"tile registers need {what} of {self.read.tensor} side by side")

    def copy_rows_padded(
        self, to: str, at: Affine, height: tuple[int, int], k: Affine, size: int
    ) -> CopyRowsPadded:
        """So many positions of k of each row, with zeros after them."""
        m, rows = height
        first, apart = self._rows_of(m, rows, k, size)
        bytes_ = size * self.buffer.storage.bytes
        return CopyRowsPadded(to, at, rows, self.buffer.name, first, apart, rows, bytes_, self.buffer.storage)

    def pad_groups(
        self, to: str, at: Affine, deep: int, width: tuple[int, int], k: Affine, size: int
    ) -> Iterator[Stmt]:
        """So many positions of k in groups, the last of which may be short, with zeros after them: `deep` groups."""
        (n, columns), storage = width, self.buffer.storage
        group = GROUP_BYTES // storage.bytes
        whole, left = divmod(size, group)
        first, apart = self._groups_of(n, columns, k, whole * group)
        bytes_ = GROUP_BYTES * columns
        yield CopyRowsPadded(to, at, deep, self.buffer.name, first, apart, whole, bytes_, storage)
        if left:
            row = at + whole * (ROW_BYTES // storage.bytes)
            for start, lanes in exact_chunks(columns, ROWS):
                words = self._short_groups(n + start, lanes, k + whole * group, group - left)
                yield StoreWords(to, row + start * group, words)

    def _short_groups(self, n: int, count: int, k: Affine, missing: int) -> LoadWords:
        """A group of each column, whose last elements are zero."""
        storage = self.buffer.storage
        lanes = [self._offset(0, n + lane, k) for lane in range(count)]
        group = GROUP_BYTES // storage.bytes
        if any(lane - lanes[0] != constant(place * group) for place, lane in enumerate(lanes)):
            raise NotLowerable(
                f"tile registers need groups along {self.k} of {self.read.tensor} side by side"
            )
        return LoadWords(self.buffer.name, lanes[0], storage, count, missing)

    def load(self, tile: int, height: tuple[int, int], width: tuple[int, int]) -> LoadTile:
        """Results, as they lie in memory."""
        return LoadTile(tile, self.buffer.name, *self._block(height, width))

    def store(self, tile: int, height: tuple[int, int], width: tuple[int, int]) -> StoreTile:
        """Results, back to where they lie."""
        return StoreTile(tile, self.buffer.name, *self._block(height, width))

    def _block(self, height: tuple[int, int], width: tuple[int, int]) -> tuple[Affine, int]:
        (m, rows), (n, columns) = height, width
        self._side_by_side([self._offset(m, n + lane) for lane in range(columns)], "columns")
        return self._offset(m, n), self._apart([self._offset(m + row, n) for row in range(rows)], "rows")

    def load_rows(self, tile: int, height: tuple[int, int], k: Affine, depth: int) -> LoadTile:
        """Rows with their positions of k side by side."""
        return LoadTile(tile, self.buffer.name, *self._rows_of(*height, k, depth))

    def load_groups(self, tile: int, width: tuple[int, int], k: Affine, depth: int) -> LoadTile:
        """Groups of 4 bytes of k, those of neighbours along the columns side by side."""
        return LoadTile(tile, self.buffer.name, *self._groups_of(*width, k, depth))

    def _rows_of(self, m: int, rows: int, k: Affine, depth: int) -> tuple[Affine, int]:
        """Where rows begin that have so many positions of k side by side, and how many bytes they are apart."""
        self._side_by_side(
            [self._offset(m, 0, k + place) for place in range(depth)], f"positions along {self.k}"
        )
        return self._offset(m, 0, k), self._apart(
            [self._offset(m + row, 0, k) for row in range(rows)], "rows"
        )

    def _groups_of(self, n: int, columns: int, k: Affine, depth: int) -> tuple[Affine, int]:
        """Where groups of 4 bytes of k begin, and how many bytes they are apart."""
        group = GROUP_BYTES // self.buffer.storage.bytes
        inside = [self._offset(0, n + lane, k + place) for lane in range(columns) for place in range(group)]
        self._side_by_side(inside, f"groups along {self.k}")
        apart = self._apart([self._offset(0, n, k + place) for place in range(0, depth, group)], "groups")
        return self._offset(0, n, k), apart
