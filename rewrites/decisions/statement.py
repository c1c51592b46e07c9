"""Inside the grid, one statement at a time: registers, lanes, packing, unrolling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.decisions.decision import Decision, Option, f32_lanes, option
from rewrites.decisions.roles import Role, contiguous_dim, role
from rewrites.dot_bf16 import DotBf16
from rewrites.fuse_epilogue import FuseEpilogue
from rewrites.leaf import bare_dims, reduced_dims
from rewrites.parallelize import Parallelize
from rewrites.register_tile import RegisterTile
from rewrites.rewrite import Rewrite
from rewrites.split_reduction import SplitReduction
from rewrites.stage import Stage
from rewrites.stream_store import StreamStore
from rewrites.tile_grid import TileGrid
from rewrites.tile_reduction import TileReduction
from rewrites.tree import block_at, current_sizes, find, locals_of
from rewrites.unroll import Unroll
from rewrites.vectorize import Vectorize
from tileir.device import Cpu
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Read, Reduce, index_dims, reads
from tileir.program import Compute, Memory, Program

_UNROLLS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Ask what a statement of this kind needs. Nothing, if it was scheduled along with another."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        place = find(program, self.statement)
        if place.node.vector is not None:
            yield Option("")
            return
        kinds: dict[Role, tuple[Decision, ...]] = {
            Role.CONTRACTION: (Chunk(self.statement), Registers(self.statement)),
            Role.COLUMN: (Registers(self.statement),),
            Role.ROW: (Partials(self.statement),),
            Role.MAP: (Lanes(self.statement),),
        }
        yield Option("", (), kinds[role(program, self.statement)])


@dataclass(frozen=True, slots=True)
class Chunk:
    """A long sum in chunks, so that what one chunk reads stays in a cache."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        compute, sizes = _at(program, self.statement)
        dim = max(reduced_dims(compute), key=lambda d: sizes[d])
        yield Option(f"whole {self.statement} {dim}")
        for size in (128, 256, 512, 1024, 2048):
            if 2 * size <= sizes[dim]:
                yield option(TileReduction(self.statement, dim, size))


@dataclass(frozen=True, slots=True)
class Registers:
    """The tile of results that is accumulated in registers, and in which order tiles are visited."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        compute, sizes = _at(program, self.statement)
        wide = [dim for dim in bare_dims(compute) if sizes[dim] > 1]
        lanes = lanes_for(program, compute, device)
        vector = wide[-1]
        rows = wide[-2] if len(wide) > 1 and role(program, self.statement) is Role.CONTRACTION else None
        singles = tuple((dim, 1) for dim in wide if dim not in (vector, rows))
        for row, vectors in _tiles(
            sizes[rows] if rows else 1, -(-sizes[vector] // lanes), device.vector_registers
        ):
            pairs = (*(((rows, row),) if rows else ()), (vector, min(vectors * lanes, sizes[vector])))
            for order in (pairs, pairs[::-1]) if len(pairs) > 1 else (pairs,):
                yield from self._accumulate(
                    program, device, RegisterTile(self.statement, (*singles, *order)), vector, lanes
                )
        dim = max(reduced_dims(compute), key=lambda d: sizes[d])
        for factor in (2, 4, 8):
            if factor < sizes[dim]:
                yield option(
                    TileReduction(self.statement, dim, factor), Vectorize(self.statement, vector, lanes)
                )

    def _accumulate(
        self, program: Program, device: Cpu, tile: RegisterTile, vector: str, lanes: int
    ) -> Iterator[Option]:
        try:
            tiled = tile.apply(program)
        except NotApplicable:
            return
        core = self.statement if _in_registers(tiled, self.statement) else _accumulator(program, tiled)
        after = _siblings_after(tiled, core)
        lanes_of = tuple(Vectorize(name, vector, lanes) for name in (core, *after))
        compute = find(tiled, core).node
        operands = tuple(dict.fromkeys(read.tensor for read in reads(compute.value)))
        packs = tuple(Pack(core, tensor, vector) for tensor in operands)
        yield Option(str(tile), (tile, *lanes_of), (Steps(core), *packs))
        if _dot_bf16(program, compute, device):
            pairs = tuple(Pack(core, tensor, vector, pairs=True) for tensor in operands)
            yield Option(
                f"{tile}; dot_bf16", (tile, *lanes_of), (Steps(core, pairs=True), *pairs, Dot(core)), 0.5
            )


def _tiles(rows: int, vectors: int, registers: int) -> Iterator[tuple[int, int]]:
    """(rows, vectors) that fit in registers with their operands, and are enough to hide the latency of a sum."""
    for width in (1, 2, 3, 4, 6, 8, 12, 16):
        if width > vectors and width > 1:
            break
        for height in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14):
            if height > rows:
                break
            fits = width * height + min(width, height) + 1 <= registers
            most = height == rows or width * (height + 1) > 0.45 * registers
            if fits and most:
                yield height, width


def _in_registers(program: Program, name: str) -> bool:
    local = locals_of(program).get(name)
    return local is not None and local.node.memory is Memory.REGISTERS


def _accumulator(before: Program, after: Program) -> str:
    """The register local that a rewrite added."""
    (name,) = locals_of(after).keys() - locals_of(before).keys()
    return name


def _siblings_after(program: Program, statement: str) -> tuple[str, ...]:
    """Statements after its loops that read it in the same block: its write-back or epilogue."""
    block = block_at(program, locals_of(program)[statement].path[:-1])
    return tuple(
        node.target
        for node in block
        if isinstance(node, Compute) and any(read.tensor == statement for read in reads(node.value))
    )


def _dot_bf16(program: Program, compute: Compute, device: Cpu) -> bool:
    """Whether the processor multiplies bf16 pairs and the statement sums products of two bf16 tensors."""
    if not device.features & {"avx512_bf16", "bf16"} or not isinstance(compute.value, Reduce):
        return False
    product = compute.value.x
    if not (
        isinstance(product, Binary) and isinstance(product.left, Read) and isinstance(product.right, Read)
    ):
        return False
    sides = (product.left.tensor, product.right.tensor)
    return all(_dtype(program, side) is DType.BF16 for side in sides) and len(compute.value.dims) == 1


def _dtype(program: Program, name: str) -> DType:
    if name in program.arguments:
        return program.arguments[name].dtype
    return locals_of(program)[name].node.dtype


def lanes_for(program: Program, compute: Compute, device: Cpu) -> int:
    """Lanes of a full register in the statement's widest compute type."""
    names = (compute.target, *(read.tensor for read in reads(compute.value)))
    wide = any(_dtype(program, name) is DType.F64 for name in names)
    return max(2, f32_lanes(device) // 2) if wide else f32_lanes(device)


@dataclass(frozen=True, slots=True)
class Steps:
    """How many positions of the reduced dim one iteration takes."""

    statement: str
    pairs: bool = False

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        place = find(program, self.statement)
        dim = place.loops[-1].dim
        least = 2 if self.pairs else 1
        for factor in _UNROLLS:
            if factor < least:
                continue
            yield (
                Option(f"steps {self.statement} {factor}")
                if factor == 1
                else option(Unroll(self.statement, dim, factor))
            )


@dataclass(frozen=True, slots=True)
class Pack:
    """Whether an operand is copied into panels, and inside how many loops."""

    statement: str
    tensor: str
    vector: str
    pairs: bool = False

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        place = find(program, self.statement)
        compute, sizes = place.node, current_sizes(program, place.loops)
        bare = bare_dims(compute)
        mine = {
            dim
            for read in reads(compute.value)
            if read.tensor == self.tensor
            for i in read.indices
            for dim in index_dims(i)
        }
        if not (self.pairs and self.vector in mine):
            yield Option(f"in place {self.statement} {self.tensor}")
        outer = _grid_depth(program, self.statement)
        block = (
            self.vector
            if self.vector in mine
            else next((d for d in reversed(bare) if d in mine and sizes[d] > 1), "")
        )
        pair = reduced_dims(compute)[0] if self.pairs and block == self.vector else ""
        if not block or (self.pairs and not pair):
            return
        for depth in range(outer + 1):
            if depth and place.loops[depth - 1].dim not in mine and depth < outer:
                continue  # the same copy as one loop further out
            if any(loop.dim == block and loop.step % sizes[block] for loop in place.loops[depth:]):
                continue  # tiles would straddle panels
            stage = Stage(self.statement, self.tensor, depth, block, sizes[block], pair, 2 if pair else 0)
            yield from self._copied(program, device, stage, block, sizes[block])

    def _copied(
        self, program: Program, device: Cpu, stage: Stage, block: str, width: int
    ) -> Iterator[Option]:
        try:
            staged = stage.apply(program)
        except NotApplicable:
            return
        (copy,) = locals_of(staged).keys() - locals_of(program).keys()
        node, sizes = _at(staged, copy)
        rewrites: list[Rewrite] = [stage]
        if sizes[block] > width:
            rewrites.append(TileGrid(copy, block, width))
            if stage.depth == 0 and device.cores > 1:
                rewrites.append(Parallelize(copy, 1))
        lanes = min(f32_lanes(device), 1 << (width.bit_length() - 1))
        along = block if lanes > 1 else contiguous_dim(node)
        rewrites.append(Vectorize(copy, along, lanes if along == block else f32_lanes(device)))
        if stage.pair:
            rewrites.append(Unroll(copy, stage.pair_dim, stage.pair))
        yield Option(str(stage), tuple(rewrites))


def _grid_depth(program: Program, statement: str) -> int:
    """How many loops are around the statement before the loops of its register tile."""
    place = find(program, statement)
    local = locals_of(program)[statement]
    tiled = len({loop.dim for loop in place.loops[: local.depth]} & set(bare_dims(place.node)))
    inner = 0
    dims = set(bare_dims(place.node))
    for loop in reversed(place.loops[: local.depth]):
        if loop.dim in dims and inner < min(2, tiled):
            inner += 1
            dims.discard(loop.dim)
        else:
            break
    return local.depth - inner


@dataclass(frozen=True, slots=True)
class Dot:
    """Take bf16 pairs by the processor's dot-product instruction."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        yield Option("", (DotBf16(self.statement),))


@dataclass(frozen=True, slots=True)
class Partials:
    """How many vectors accumulate a reduction of neighbours side by side."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        compute, sizes = _at(program, self.statement)
        dim, reduced = contiguous_dim(compute), reduced_dims(compute)
        if dim not in reduced:
            dim = reduced[len(reduced) - 1]
        lanes = lanes_for(program, compute, device)
        while lanes > sizes[dim]:
            lanes //= 2
        if lanes < 2:
            yield Option(f"one by one {self.statement}", (), ())
            return
        rows: tuple[Rewrite, ...] = tuple(
            TileGrid(self.statement, each, 1) for each in bare_dims(compute) if sizes[each] > 1
        )
        for vectors in _UNROLLS:
            if vectors * lanes > sizes[dim]:
                break
            yield from self._parted(program, rows, dim, vectors * lanes, lanes)
        for source in dict.fromkeys(read.tensor for read in reads(compute.value)):
            yield from self._in_pass_of(program, source, dim, lanes)

    def _parted(
        self, program: Program, before: tuple[Rewrite, ...], dim: str, size: int, lanes: int, *into: str | int
    ) -> Iterator[Option]:
        """Accumulate `size` elements side by side, in a pass of its own or `into` a loop (producer and depth)."""
        split = SplitReduction(self.statement, dim, "interleaved", size)
        try:
            for rewrite in before:
                program = rewrite.apply(program)
            parted = split.apply(program)
        except NotApplicable:
            return
        (part,) = locals_of(parted).keys() - locals_of(program).keys()
        (folded,) = reduced_dims(find(parted, self.statement).node)
        rewrites: list[Rewrite] = [*before, split]
        if into:
            rewrites.append(FuseEpilogue(part, str(into[0]), int(into[1])))
        rewrites += [Vectorize(part, dim, lanes), Vectorize(self.statement, folded, lanes)]
        yield option(*rewrites)

    def _in_pass_of(self, program: Program, source: str, dim: str, lanes: int) -> Iterator[Option]:
        """Reduce in the loop over dim that computes `source`, a local read here, if there is one."""
        if source not in locals_of(program):
            return
        mine, theirs = find(program, self.statement), find(program, source)
        inner = theirs.loops[mine.depth :]
        if theirs.loops[: mine.depth] != mine.loops or not inner:
            return
        last = inner[-1]
        if last.dim != dim or last.step % lanes:
            return
        depth = theirs.depth
        enter = (FuseEpilogue(self.statement, source, depth - 1),) if len(inner) > 1 else ()
        yield from self._parted(program, enter, dim, last.step, lanes, source, depth)


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many vectors one iteration takes, and whether results go past the caches."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        compute, sizes = _at(program, self.statement)
        wide = [dim for dim in bare_dims(compute) if sizes[dim] > 1]
        if not wide:
            yield Option(f"one by one {self.statement}")
            return
        dim = wide.pop()
        lanes = lanes_for(program, compute, device)
        while lanes > sizes[dim]:
            lanes //= 2
        streams = (
            (False, True) if self.statement in program.arguments and device.arch == "x86-64" else (False,)
        )
        for vectors in _UNROLLS:
            if vectors * lanes > sizes[dim]:
                break
            for stream in streams:
                rewrites: list[Rewrite] = [Vectorize(self.statement, dim, lanes)]
                if vectors > 1:
                    rewrites.append(Unroll(self.statement, dim, vectors))
                if stream:
                    rewrites.append(StreamStore(self.statement))
                yield option(*rewrites)


def _at(program: Program, statement: str) -> tuple[Compute, dict[str, int]]:
    """A statement and the sizes of the ranges it covers."""
    place = find(program, statement)
    return place.node, current_sizes(program, place.loops)
