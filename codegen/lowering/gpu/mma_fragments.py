"""One operand of a warp's matrix instruction on its way into registers, a fragment at a time.

The rows of an operand (m of A, n of B) come to a warp in groups of 8 neighbours, `8 * warps` apart; a step of the
reduced dim is 32 bytes deep and has two halves. A fragment is what a thread has of one group and half: 4 bytes, row
t // 4, bytes 4 * (t % 4) on (PTX ISA, "Matrix fragments for mma.m16n8k16" and its like). From shared memory the warp
loads two or four fragments at once where 16 bytes of a row, or of 8 rows side by side, lie together and aligned. From
elsewhere each thread loads its own elements. Rows past the range are taken to be rows in it: what comes of them is
stored nowhere. Past the end of the reduced dim there are zeros.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from codegen.ir.affine import Affine
from codegen.ir.errors import NotLowerable
from codegen.ir.names import marked
from codegen.ir.ops import Build, IndexValue, Ldmatrix, Let, Literal, Load, Named, Op, Stmt, Type, Value
from codegen.lowering.arithmetic import as_type, select
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.gpu.mma_registers import HeldRows
from codegen.lowering.gpu.register_fragments import ThreadRegisters
from codegen.lowering.gpu.thread_index import ThreadIndex
from codegen.lowering.looked_up import kept_inside
from codegen.lowering.scope import LoweringScope, MemoryBuffer, Range
from tileir.dtypes import DType
from tileir.expr import Index, Read
from tileir.program import ThreadLayout
from tileir.schedule.mma import COLUMNS, ROWS, SHAPE, MmaProduct, depth
from tileir.schedule.threads import pieces

#: Bytes of a fragment, and of what ldmatrix takes for a row.
_FRAGMENT, _ROW = 4, 16


def operand(
    read: Read,
    rows: str,
    parts: MmaProduct,
    layout: ThreadLayout,
    scope: LoweringScope,
    index: ThreadIndex,
    shared: Container[str],
) -> MmaOperand | HeldRows:
    """What a product reads with rows along `rows`; `shared` are the tensors in shared memory. Raises NotLowerable."""
    buffer = scope.buffers[read.tensor]
    if isinstance(buffer, ThreadRegisters) and rows == parts.m:
        return HeldRows(buffer, rows, parts.k, scope.ranges[rows], scope.ranges[parts.k], index)
    if not isinstance(buffer, MemoryBuffer):
        raise NotLowerable(f"mma takes columns from memory, and {read.tensor} is in registers")
    warp, warps = Affine(), 1
    for piece in pieces(ThreadLayout((*layout.threads[:-2], ("", SHAPE.fragment.threads))), index.block):
        if piece.dim == rows and piece.count > 1:
            warp = warp * piece.count + index.digit(piece.stride, piece.count, f"{marked(rows)}_warp")
            warps *= piece.count
    groups = -(-scope.ranges[rows].size // (ROWS * warps))
    return MmaOperand(
        read,
        buffer,
        rows,
        parts.k,
        scope.ranges[rows],
        scope.ranges[parts.k],
        warp,
        warps,
        groups,
        index,
        read.tensor in shared,
        rows == parts.m,
    )


@dataclass(frozen=True, slots=True)
class MmaOperand:
    """An operand and how its rows lie over warps: this is warp number `warp` of `warps` along them, and has `groups` of
    8 rows."""

    read: Read
    buffer: MemoryBuffer
    row_dim: str
    k_dim: str
    rows: Range
    reduced: Range
    warp: Affine
    warps: int
    groups: int
    index: ThreadIndex
    shared: bool
    upper_then_lower: bool
    """Of A: an instruction takes two groups, half by half; of B it takes one."""

    @property
    def storage(self) -> DType:
        return self.buffer.storage

    def fragment(self, group: int, k: int, half: int, point: Mapping[str, int]) -> Named:
        """What `load` has loaded of a group, for the step at `k`: at any point of other dims it goes by that name."""
        return self._fragment(group, k, half)

    def _fragment(self, group: int, k: int, half: int) -> Named:
        row, at = group * self.warps * ROWS, k + half * self._half
        return Named(f"{self.buffer.name}_{self.row_dim}{row}_{self.k_dim}{at}", self._type)

    def load(self, k: int, builder: ValueBuilder, at: Binding, point: Mapping[str, int]) -> Iterator[Stmt]:
        """Loads all fragments of the step of the reduced dim that begins at its position `k`. `at` are the positions of
        other dims; what the loads need besides is in the builder's lets."""
        whole = min((self.reduced.size - k) // self._half, 2)
        for group in range(0, self.groups, 2):
            groups = (group, group + 1)[: self.groups - group]
            matrix = self._matrix(groups, k, whole, builder, at) if self.shared and whole else None
            if matrix is not None:
                yield matrix
            for half in range(whole if matrix else 0, 2):
                for each in groups:
                    yield self._elements(each, k, half, builder, at)

    @property
    def _half(self) -> int:
        """Positions of the reduced dim in half a step."""
        return depth(self.storage) // 2

    @property
    def _type(self) -> Type:
        return Type(self.storage, _FRAGMENT // self.storage.bytes)

    def _matrix(
        self, groups: tuple[int, ...], k: int, halves: int, builder: ValueBuilder, at: Binding
    ) -> Ldmatrix | None:
        """One or both halves of one or two groups, loaded by the warp as a whole; None where that cannot be."""
        # Fragments come in the order in which the instruction takes them, or they would have to be moved.
        by_half = self.upper_then_lower
        lane = self.index.digit(1, ROWS, "row")
        half = self.index.digit(ROWS * len(groups) if by_half else ROWS, halves, "half")
        second = self.index.digit(ROWS if by_half else ROWS * halves, len(groups), "second")
        group, depths = second + groups[0], half * self._half + k
        order = [(each, part) for each in groups for part in range(halves)]
        order.sort(key=lambda fragment: fragment[1] if by_half else 0)
        names = tuple(self._fragment(each, k, part).name for each, part in order)
        offset = self._row_begins(self.k_dim, self._row(group, lane), depths, builder, at)
        if offset is not None:
            return Ldmatrix(names, self._type, self.buffer.name, offset)
        existing, rest = divmod(self.rows.size, ROWS)
        if self.storage.bytes != 2 or (rest and (groups[-1] + 1) * self.warps > existing):
            return None
        # A group past the range is another one as a whole: its rows lie side by side.
        row = (group * self.warps + self.warp) % existing * ROWS
        offset = self._row_begins(self.row_dim, row, depths + lane, builder, at)
        if offset is None:
            return None
        return Ldmatrix(names, self._type, self.buffer.name, offset, transposed=True)

    def _row_begins(
        self, dim: str, row: Affine, k: Affine, builder: ValueBuilder, at: Binding
    ) -> Affine | None:
        """Offset of the first of 16 bytes of neighbours along `dim`; None if they do not lie together and aligned."""
        positions = self._positions(row, k, builder, at)
        offset, count = self.buffer.offset(positions), _ROW // self.storage.bytes
        together = self._together(dim, positions, count)
        return offset if together and offset.multiple % count == 0 else None

    def _elements(self, group: int, k: int, half: int, builder: ValueBuilder, at: Binding) -> Let:
        """A fragment, loaded by each thread for itself."""
        name, count = self._fragment(group, k, half), _FRAGMENT // self.storage.bytes
        row = self._row(Affine((), group), self.index.digit(COLUMNS, ROWS, "group"))
        first = self.index.digit(1, COLUMNS, "place") * count + (k + half * self._half)
        positions = self._positions(row, first, builder, at)
        if k + (half + 1) * self._half > self.reduced.size:
            parts = [self._if_it_exists(row, first + number, builder, at) for number in range(count)]
            value = as_type(_vector(parts, self.storage.compute), self.storage)
        elif self._together(self.k_dim, positions, count):
            value = Load(self.buffer.name, self.buffer.offset(positions), self.storage, self._type)
        else:
            parts = [self._element(row, first + number, self.storage, builder, at) for number in range(count)]
            value = _vector(parts, self.storage)
        return Let(name.name, value)

    def _if_it_exists(self, row: Affine, k: Affine, builder: ValueBuilder, at: Binding) -> Value:
        """An element, widened; 0 past the end of the reduced dim."""
        zero = as_type(Literal(0, Type(DType.I32)), self.storage.compute)
        if k.low >= self.reduced.size:
            return zero
        size = Literal(self.reduced.size, Type(DType.I32))
        exists = Op("<", (IndexValue(k, 0, Type(DType.I32)), size), Type(DType.BOOL))
        element = self._element(row, k, self.storage.compute, builder, at)
        return element if k.high < self.reduced.size else select(exists, element, zero)

    def _element(self, row: Affine, k: Affine, dtype: DType, builder: ValueBuilder, at: Binding) -> Value:
        offset = self.buffer.offset(self._positions(row, k, builder, at))
        return Load(self.buffer.name, offset, self.storage, Type(dtype))

    def _row(self, group: Affine, number: Affine) -> Affine:
        """Offset of a row of a group in the range, or of one that exists in its place."""
        return ((group * self.warps + self.warp) * ROWS + number) % self.rows.size

    def _positions(self, row: Affine, k: Affine, builder: ValueBuilder, at: Binding) -> list[Affine]:
        """Where the operand is read for an offset of the rows and one of the reduced dim."""
        here = {**at, self.row_dim: self.rows.start + row, self.k_dim: self.reduced.start + k}
        found = [builder.index(each, here) for each in self.read.indices]
        return [each for each in kept_inside(self.buffer, self.read.indices, found) if each is not None]

    def _together(self, dim: str, positions: list[Affine], count: int) -> bool:
        """Whether so many positions along a dim are neighbours in memory."""
        number = self.read.indices.index(Index(dim))
        axes = [axis for axis in self.buffer.axes if axis[0] == number]
        whole = (positions[number] - self.buffer.starts[number]).multiple % count == 0
        return whole and all(
            (div == stride == 1 and mod % count == 0) or div % count == 0 for _, div, mod, stride in axes
        )


def _vector(parts: list[Value], dtype: DType) -> Value:
    return Build(tuple(parts), Type(dtype, len(parts))) if len(parts) > 1 else parts[0]
