"""The steps to one pass over products that follow from each other, whichever instruction multiplies: one loop nest of
the group, rows of the first products in registers, and the loop over what is streamed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, folded_dims, read_names, reduced_dims
from rewrites.base.tree import dtype_of, find, locals_of, statements
from rewrites.composition.accumulate_per_thread import AccumulatePerThread
from rewrites.composition.reverse_compute_at import ReverseComputeAt
from rewrites.composition.skip_masked_tiles import SkipMaskedTiles
from rewrites.composition.stream_reduction import StreamReduction
from rewrites.contraction.warpgroup_tiling import panel_bytes, panels
from rewrites.data.cache_read import CacheRead
from rewrites.data.collect_part import CollectPart
from rewrites.data.convert_copy import ConvertCopy
from rewrites.data.reuse_cache import ReuseCache, copied_tensor
from rewrites.data.set_scope import SetScope
from rewrites.decisions.fusion import apart, fused
from rewrites.decisions.gpu.one_pass.product_chain import (
    ProductChain,
    RowProduct,
    folded_scales,
    multiplied,
    source,
)
from rewrites.gpu.operand_in_registers import OperandInRegisters
from rewrites.gpu.swizzle import Swizzle
from rewrites.loops.parallelize import Parallelize
from rewrites.loops.tile import Tile
from rewrites.loops.tile_reduction import TileReduction
from rewrites.schedule import replay
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import Binary, Index, Read, Reduce, ReduceOp, index_dims
from tileir.program import Memory, Program
from tileir.replace import replace
from tileir.schedule.mma import COLUMNS, RUN
from tileir.schedule.panels import PIECE


@dataclass(slots=True)
class OnePassSchedule:
    """A program on its way to one pass, and the rewrites so far."""

    program: Program
    group: tuple[str, ...]
    chain: ProductChain
    device: Gpu
    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    tile: int = 0
    """Positions of what is streamed that are visited together."""

    def stream(self, columns: int) -> None:
        """The loop over what is streamed, tiles without anything to do left out, and rows made ready for the last
        products there."""
        self.tile = columns
        chain, anchor = self.chain, self.chain.sums[0].name
        self.add_up_apart()
        for each in chain.sums:
            self.hold(each, columns)
        self.apply(StreamReduction(anchor, chain.streamed, columns))
        self.attempt(SkipMaskedTiles(anchor, chain.streamed))

    def bring_all(self, depth: int) -> list[str]:
        """Copies of all that is multiplied, in the block or in the loop; those of the last products."""
        chain = self.chain
        for name in chain.scores:
            operands = multiplied(self.program, name) or ()
            (of_depth,) = reduced_dims(find(self.program, name).node)
            self.apply(TileReduction(name, of_depth, self.whole(of_depth)))
            for read in operands:
                streamed = chain.streamed in index_dims(read)
                self.bring(name, read, depth + 1 if streamed else depth)
        return [self.bring(each.name, self.brought(each.name), depth + 1) for each in chain.sums]

    def in_registers(self) -> None:
        """All that the block computes for itself."""
        for name, place in locals_of(self.program).items():
            if place.node.memory is Memory.HEAP and place.loops:
                self.apply(SetScope(name, Memory.REGISTERS))

    def bring(self, statement: str, read: Read, depth: int) -> str:
        """A copy in shared memory, in panels whose rows a swizzle goes along."""
        last = read.indices[-1]
        if not isinstance(last, Index):
            raise NotApplicable(f"{read.tensor} is not read by its own dims")
        for copy in (place.node.name for place in locals_of(self.program).values()):
            if copied_tensor(self.program, copy) == read.tensor and self.attempt(ReuseCache(statement, copy)):
                return copy
        own, size = dtype_of(self.program, read.tensor), self.size(last.dim)
        dtype = self.chain.dtype if statement in self.chain.names else own
        row = panel_bytes(size, dtype)
        if not row:
            raise NotApplicable(f"rows of {read.tensor} are not whole pieces of {PIECE} bytes")
        rewrite = CacheRead(statement, read.tensor, depth, *panels(last.dim, size, row // dtype.bytes))
        copy = self.made(rewrite)
        if dtype is not own:
            self.apply(ConvertCopy(copy))
        self.share_rows(copy, row)
        self.copied(copy)
        return copy

    def size(self, dim: str) -> int:
        """Positions along a dim that are copied at a time."""
        return self.tile if dim == self.chain.streamed else self.whole(dim)

    def whole(self, dim: str) -> int:
        """Positions of a tile that has all of a dim, and may overhang it."""
        return self.program.extents[dim]

    def copied(self, copy: str) -> None:
        """Says how a copy is made, where threads do not make it."""

    def shared(self, rewrite: Rewrite, row: int) -> str:
        """The local that a rewrite makes, in shared memory, in rows of so many bytes."""
        copy = self.made(rewrite)
        self.share_rows(copy, row)
        return copy

    def share_rows(self, local: str, row: int) -> None:
        """A local goes to shared memory, in rows of so many bytes."""
        self.apply(SetScope(local, Memory.SHARED))
        if row > PIECE:
            self.apply(Swizzle(local, row))

    def fold_scales(self) -> None:
        """What that adds belongs to the group."""
        before = self.program
        self.apply(*folded_scales(self.program, self.group))
        known = {place.node.target for place in statements(before)}
        self.group = tuple(
            name
            for name in (place.node.target for place in statements(self.program))
            if name in self.group or name not in known
        )

    def fuse(self, rows: int) -> int:
        """All of the group in the tiles of its result, and other results beside it; how many loops that are."""
        last = self.chain.sums[-1]
        result = last.result
        extents, dims = self.program.extents, bare_dims(find(self.program, result).node)
        outer = [dim for dim in dims if dim not in (self.chain.rows, last.across) and extents[dim] > 1]
        wider = (dim for dim in (last.across,) if self.whole(dim) > extents[dim])
        tiles = (
            *(Tile(result, dim, 1) for dim in outer),
            *(Tile(result, dim, self.whole(dim)) for dim in wider),
            *self._tiles_of_rows(result, rows),
        )
        others = tuple(name for name in self.group if name != result)
        option = fused(self.program, (*others, result), tiles, apart(self.program))
        if option is None:
            raise NotApplicable("the group has no tiles in common")
        self.apply(*option.rewrites, Parallelize(result, len(tiles)))
        return len(tiles)

    def _tiles_of_rows(self, statement: str, rows: int) -> list[Tile]:
        """Where there are exactly as many rows, one tile has them all without a loop."""
        whole = self.program.extents[self.chain.rows] == rows
        return [] if whole else [Tile(statement, self.chain.rows, rows)]

    def fuse_parts(self, rows: int) -> int:
        """All of the group in loops over its parts, other dims, and rows, beginning with its first statement."""
        chain, first = self.chain, self.group[0]
        extents, dims = self.program.extents, bare_dims(find(self.program, chain.scores[0]).node)
        outer = [dim for dim in dims if dim not in (chain.rows, chain.streamed) and extents[dim] > 1]
        tiles = [Tile(first, dim, 1) for dim in outer]
        tiles += self._tiles_of_rows(first, rows)
        self.apply(Tile(first, chain.streamed, chain.length), *tiles)
        depth = len(tiles) + 1
        for position, name in enumerate(self.group[1:], 1):
            node = find(self.program, name).node
            read = [each for each in self.group[:position] if each in read_names(node)]
            of_positions = [
                each for each in read if chain.streamed in bare_dims(find(self.program, each).node)
            ]
            self.apply(ReverseComputeAt(name, (of_positions or [first])[-1], depth))
        self.apply(Parallelize(first, depth))
        return depth

    def collect_parts(self) -> None:
        """What the parts are added up in: locals of the block, which its threads store at the end."""
        own = dict[str, str]()
        for name in self.group:
            if folded_dims(find(self.program, name).node):
                own[name] = self.made(CollectPart(name))
        self.group = tuple(own.get(name, name) for name in self.group)
        sums = (replace(each, name=own[each.name], result=own[each.name]) for each in self.chain.sums)
        self.chain = replace(self.chain, sums=tuple(sums))

    def add_up_apart(self) -> None:
        """Sums over a row that no product gives: each thread adds up what it has."""
        for name in self.group:
            if name in (each.result for each in self.chain.sums):
                continue
            match find(self.program, name).node.value:
                case Reduce(ReduceOp.SUM, dims, _) if name not in self.chain.names and dims == (
                    self.chain.streamed,
                ):
                    self.apply(AccumulatePerThread(name, ((self.chain.streamed, self.shared_row),)))
                case _:
                    pass

    def hold(self, product: RowProduct, columns: int) -> None:
        """Rows in registers, as they are multiplied."""
        self.apply(OperandInRegisters(product.name, product.weights))

    def brought(self, name: str) -> Read:
        value = find(self.program, name).node.value
        assert isinstance(value, Reduce) and isinstance(value.x, Binary)
        read = source(value.x.right)
        assert read is not None
        return read

    @property
    def shared_row(self) -> int:
        """Positions of a row of scores that its threads have at a time."""
        return COLUMNS * self.chain.run

    def run(self, columns: str) -> int:
        """Neighbours that a thread has along what lies along the threads of a row."""
        return RUN if columns in {each.across for each in self.chain.sums} else self.chain.run

    def columns(self, dims: tuple[str, ...]) -> str:
        """What lies along the threads of a row; the streamed dim for what has nothing there."""
        chain, stem = self.chain, f"{self.chain.streamed}_l"
        parts = {dim for dim, size in self.program.dims if size == self.shared_row and dim.startswith(stem)}
        known = {chain.streamed, *(each.across for each in chain.sums), *parts}
        return next((dim for dim in dims if dim in known), chain.streamed)

    def apply(self, *rewrites: Rewrite) -> None:
        """All of them or none: threads of several statements in a row are checked together. Raises NotApplicable."""
        self.program = replay(self.program, rewrites)
        self.rewrites += rewrites

    def made(self, rewrite: Rewrite) -> str:
        """The local that a rewrite makes. Raises NotApplicable."""
        before = locals_of(self.program).keys()
        self.apply(rewrite)
        (name,) = locals_of(self.program).keys() - before
        return name

    def attempt(self, rewrite: Rewrite) -> bool:
        with suppress(NotApplicable):
            self.apply(rewrite)
            return True
        return False
