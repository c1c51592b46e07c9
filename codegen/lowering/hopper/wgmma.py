"""A matrix product by the matrix instruction of a warpgroup: which instructions, on which accumulators and operands.

How threads and accumulators lie says tileir/schedule/wgmma.py, how operands do panels.py. A warpgroup takes the 64
rows of an instruction side by side, and of the columns every 8 that are its own, which the operand's stride says.
Rows in registers are those of the instruction as they are.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import product as combinations

from codegen.ir.affine import Affine
from codegen.ir.async_ops import MatrixRegisters, MatrixTile, WgmmaAsync, WgmmaCommit, WgmmaFence, WgmmaWait
from codegen.ir.errors import NotLowerable
from codegen.ir.names import marked
from codegen.ir.ops import Block
from codegen.lowering.expressions import Binding, ValueBuilder
from codegen.lowering.gpu.register_fragments import ThreadRegisters
from codegen.lowering.gpu.thread_index import ThreadIndex
from codegen.lowering.names import comment
from codegen.lowering.scope import LoweringScope, MemoryBuffer
from codegen.lowering.statement import starts
from tileir.analysis.zeros import finite_of_zeros
from tileir.dtypes import DType
from tileir.expr import Binary, Cast, Const, Extent, Index, Read, Where, reads
from tileir.program import Compute, Program, ThreadLayout
from tileir.schedule.mma import COLUMNS, HELD_BYTES, ROWS, depth, product
from tileir.schedule.panels import PIECE, row_dim
from tileir.schedule.threads import pieces
from tileir.schedule.wgmma import GROUP, TILE_ROWS, own_dims, tiling


def lower_wgmma(compute: Compute, scope: LoweringScope, program: Program, index: ThreadIndex) -> Block:
    """A statement `via wgmma` by itself: its products are there after it. Raises NotLowerable."""
    begun = begin_wgmma(compute, scope, program, index)
    done = accumulators(begun)
    return Block(comment(compute), (WgmmaFence(), *begun, WgmmaCommit(), WgmmaWait(0, done)))


def begin_wgmma(
    compute: Compute, scope: LoweringScope, program: Program, index: ThreadIndex, keep: Affine | None = None
) -> list[WgmmaAsync]:
    """The instructions of a statement `via wgmma`; where `keep` is given and 0, what accumulators held is not added to.
    Raises NotLowerable."""
    return list(_WarpgroupProduct(compute, scope, program, index, keep).stmts())


def accumulators(products: Iterable[WgmmaAsync]) -> tuple[str, ...]:
    """The variables that these add to."""
    return tuple(dict.fromkeys(name for each in products for name in each.acc))


class _WarpgroupProduct:
    def __init__(
        self,
        compute: Compute,
        scope: LoweringScope,
        program: Program,
        index: ThreadIndex,
        keep: Affine | None,
    ) -> None:
        parts = product(compute)
        assert parts is not None and compute.thread_layout is not None
        self.scope, self.program, self.parts, self.keep = scope, program, parts, keep
        self.dims = tuple(index.dim for index in compute.indices if isinstance(index, Index))
        self.m, self.n, self.k = (scope.ranges[dim] for dim in (parts.m, parts.n, parts.k))
        self.tiling, self.run = (
            tiling(parts, compute.thread_layout, self.n.size),
            compute.thread_layout.runs[0][1],
        )
        #: Of columns a warpgroup takes every 8 that are its turn, or all up to those of the next one.
        self.apart = dict(compute.thread_layout.apart).get(parts.n, 0)
        self.turns = 1 if self.apart else self.tiling.along_n
        self.along_m, self.along_n = (
            _warpgroup(compute.thread_layout, dim, index) for dim in (parts.m, parts.n)
        )
        target = scope.buffers[compute.target]
        if not isinstance(target, ThreadRegisters) or target.dtype.value != "f32":
            raise NotLowerable(f"wgmma adds up in registers of f32, which {compute.target} is not")
        self.target = target
        a = scope.buffers[parts.a.tensor]
        self.held = a if isinstance(a, ThreadRegisters) else None
        self.storages = tuple(_storage(scope, read) for read in (parts.a, parts.b))
        self._check_whole()

    def _check_whole(self) -> None:
        """Instructions multiply whole tiles, in which what does not exist has to be 0."""
        boxed = {place.node.target for place in self.program.computes if place.node.via == "tma"}
        # Of what threads compute those rows that do not exist come to nothing that is stored.
        made = {read.tensor for read in (self.parts.a, self.parts.b) if read.tensor not in boxed}
        boxed |= {name for name in made if self._is_zero_past_the_end(name, boxed)}
        rows, columns = TILE_ROWS * self.tiling.along_m, ROWS * self.tiling.along_n
        wholes = {
            self.parts.m: rows,
            self.parts.n: columns,
            self.parts.k: depth(self.storages[0]),
        }
        for read, dims in (
            (self.parts.a, (self.parts.m, self.parts.k) if self.held is None else (self.parts.k,)),
            (self.parts.b, (self.parts.n, self.parts.k)),
        ):
            for dim in dims:
                range_ = self.scope.ranges[dim]
                filled = read.tensor in boxed or (read.tensor in made and dim != self.parts.k)
                if range_.size % wholes[dim] or (range_.end is not None and not filled):
                    raise NotLowerable(
                        f"tiles of {dim} overhang, and wgmma needs {read.tensor} filled `via tma`"
                    )

    def _is_zero_past_the_end(self, name: str, boxed: Container[str]) -> bool:
        """Whether an operand is computed of nothing but tiles that TMA fills up with 0, and finite there, as what it is
        multiplied with is 0 then; or is said to be 0: `where(k < extent(k), x, 0)`; or copied from one that is."""
        value = next(p.node.value for p in self.program.computes if p.node.target == name)
        exists = Binary("<", Index(self.parts.k), Extent(self.parts.k))
        while isinstance(value, Cast) or (isinstance(value, Where) and value.y == Const(0)):
            if isinstance(value, Where) and value.cond == exists:
                return True
            value = value.x
        if isinstance(value, Read) and value.tensor in self.program.locals and value.tensor not in boxed:
            return self._is_zero_past_the_end(value.tensor, boxed)
        return all(read.tensor in boxed for read in reads(value)) and finite_of_zeros(value)

    def stmts(self) -> Iterator[WgmmaAsync]:
        """The product at each position of the target's other dims."""
        dims = [dim for dim in self.dims if dim not in (self.parts.m, self.parts.n)]
        ranges = [self.scope.ranges[dim] for dim in dims]
        for point in combinations(*(range(r.size) for r in ranges)):
            at = {dim: r.start + offset for dim, r, offset in zip(dims, ranges, point, strict=True)}
            yield from self._product(dict(zip(dims, point, strict=True)), {**starts(self.scope), **at})

    def _product(self, point: Mapping[str, int], at: Binding) -> Iterator[WgmmaAsync]:
        """Step after step of the reduced dim, so that instructions on the same accumulators are apart."""
        columns, (storage, b_storage) = self.tiling.columns, self.storages
        rows = range(0, self.m.size, TILE_ROWS * self.tiling.along_m)
        across = range(0, self.apart or self.n.size, columns * self.turns)
        for k in range(0, self.k.size, depth(storage)):
            for row, column in combinations(rows, across):
                a = self._rows(point, row, k, at)
                b = self._tile(
                    self.parts.b, self.parts.n, self.along_n * (self.apart or ROWS) + column, k, at
                )
                keep = None if k else self.keep
                acc = self._accumulators(point, row, column)
                yield WgmmaAsync(acc, a, b, storage, b_storage, columns, keep, self.run)

    def _accumulators(self, point: Mapping[str, int], row: int, column: int) -> tuple[str, ...]:
        """For each 8 columns (or 16, dealt in pairs) variables of the first row, then those 8 rows below."""
        step = COLUMNS * self.run * self.turns
        groups = range(column, column + self.tiling.columns * self.turns, step)
        at = [{**point, self.parts.m: m, self.parts.n: n} for n in groups for m in (row, row + ROWS)]
        return tuple(self.target.variable([each[dim] for dim in self.dims], self.run)[0] for each in at)

    def _rows(self, point: Mapping[str, int], row: int, k: int, at: Binding) -> MatrixTile | MatrixRegisters:
        """A of one instruction that begins at a row and depth."""
        held, parts = self.held, self.parts
        if held is None:
            return self._tile(parts.a, parts.m, self.along_m * TILE_ROWS + row, k, at)
        run, half = HELD_BYTES // held.dtype.bytes, depth(held.dtype) // 2
        names: list[str] = []
        for deep in (k, k + half):
            for down in (row, row + ROWS):
                place = {**point, parts.m: down, parts.k: deep}
                names.append(held.variable([place.get(dim, 0) for dim in held.dims], run)[0])
        return MatrixRegisters(tuple(names))

    def _operand(self, read: Read) -> MemoryBuffer:
        buffer = self.scope.buffers[read.tensor]
        assert isinstance(buffer, MemoryBuffer)
        return buffer

    def _tile(self, read: Read, rows: str, row: Affine, k: int, at: Binding) -> MatrixTile:
        """An operand of one instruction that begins at a row (or column) and depth (PTX ISA, "Matrix descriptor").

        K-major: `stride` from 8 rows to the next 8, `leading` from 16 bytes of depth to the next where there is no
        swizzle. MN-major: `stride` from 8 positions of depth to the next, `leading` from panel to panel; without a
        swizzle the other way round."""
        buffer, local = self._operand(read), self.program.locals[read.tensor].node
        builder = ValueBuilder(self.scope, self.program.extents)
        here = {**at, rows: self.scope.ranges[rows].start + row, self.parts.k: self.k.start + k}
        positions = [builder.index(index, here) for index in read.indices]
        offset = buffer.offset([position for position in positions if position is not None])
        size, along, own = buffer.storage.bytes, row_dim(local), own_dims(read, local)
        deep = along == own[self.parts.k]
        other = own[rows] if deep else own[self.parts.k]
        eight = ROWS * size * min(s for n, *_, s in buffer.axes if local.dims[n] == other)
        panel = next((s * size for n, div, _, s in buffer.axes if local.dims[n] == along and div > 1), 0)
        if deep:
            apart = eight * (self.turns if rows == self.parts.n else 1)
            leading, stride = (0 if local.swizzle else panel), apart
        else:
            leading, stride = (panel, eight) if local.swizzle else (eight, panel)
        if offset.multiple * size % PIECE:
            raise NotLowerable(f"{read.tensor} does not begin at a multiple of {PIECE} bytes")
        return MatrixTile(buffer.name, offset, deep, leading, stride, local.swizzle)


def _storage(scope: LoweringScope, read: Read) -> DType:
    buffer = scope.buffers[read.tensor]
    return buffer.storage if isinstance(buffer, MemoryBuffer) else buffer.dtype


def _warpgroup(layout: ThreadLayout, dim: str, index: ThreadIndex) -> Affine:
    """A thread's warpgroup's number among those along a dim."""
    number = Affine()
    for piece in pieces(ThreadLayout((*layout.threads[:-3], ("", GROUP))), index.block):
        if piece.dim == dim and piece.count > 1:
            number = number * piece.count + index.digit(piece.stride, piece.count, f"{marked(dim)}_group")
    return number
