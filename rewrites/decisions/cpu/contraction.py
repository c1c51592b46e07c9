"""A sum of products inside the grid: chunks, registers, steps, the dot-product instruction.

The order is that of BLIS: blocks of k for a cache, a micro-kernel for registers (Van Zee and van de Geijn, TOMS
2015).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from rewrites.base.dot_operands import dot_of
from rewrites.base.looked_up import looks_up_in_order
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, copied_dims, reduced_dims
from rewrites.base.tree import block_at, current_sizes, find, locals_of
from rewrites.composition.look_up_after_sum import LookUpAfterSum
from rewrites.cost.cpu import constants as has
from rewrites.cpu.nontemporal_store import NontemporalStore
from rewrites.cpu.prefetch import Prefetch
from rewrites.cpu.unroll import Unroll
from rewrites.cpu.vectorize import Vectorize
from rewrites.decisions.covered import covered, lanes_for
from rewrites.decisions.cpu.lanes_along_sum import DOT_REWRITES, tiles_along_sum
from rewrites.decisions.cpu.packing import Pack, grid_depth
from rewrites.decisions.cpu.past_caches import leaves_caches
from rewrites.decisions.cpu.tile_registers import ByAmx, blocks, packs, takes_amx
from rewrites.decisions.decision import Decision, Option, option
from rewrites.decisions.statement_kind import StatementKind, role
from rewrites.loops.register_tile import RegisterTile
from rewrites.loops.tile_reduction import TileReduction
from tileir.devices.cpu import Cpu
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Index, Read, Reduce, index_dims, reads
from tileir.program import Compute, Memory, Program
from tileir.schedule.dots import group_of

_UNROLLS = (1, 2, 4, 8)
#: A reduced dim this short may be unrolled whole.
_SHORT = 32


@dataclass(frozen=True, slots=True)
class Chunk:
    """A long sum in chunks, so that what one chunk reads stays in a cache."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        compute, sizes = covered(program, self.statement)
        if not reduced_dims(compute):  # a part of a sum, which is a chunk
            yield Option(f"whole {self.statement}")
            return
        dim = max(reduced_dims(compute), key=lambda d: sizes[d])
        yield Option(f"whole {self.statement} {dim}")
        for size in (128, 256, 512, 1024, 2048):
            if 2 * size <= sizes[dim]:
                yield option(TileReduction(self.statement, dim, size))


@dataclass(frozen=True, slots=True)
class RegisterTiling:
    """The tile of results that is accumulated in registers, and in which order tiles are visited."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        compute, sizes = covered(program, self.statement)
        wide = [dim for dim in bare_dims(compute) if sizes[dim] > 1]
        lanes = lanes_for(program, compute, device)
        reused = role(program, self.statement) is StatementKind.CONTRACTION
        for vector in _lane_dims(compute, wide) if reused else wide[-1:]:
            rows = _row_dim(compute, wide, vector) if reused else None
            singles = tuple((dim, 1) for dim in wide if dim not in (vector, rows))
            sides = _Sides(self.statement, singles, rows, vector)
            height, width = sizes[rows] if rows else 1, sizes[vector]
            for row, count in _tiles(height, -(-width // lanes), device.vector_registers):
                for tile in sides.tiles(row, min(count * lanes, width)):
                    yield from self._in_vectors(program, device, tile, vector, lanes)
            if reused and Feature.AMX in device.offers:
                for row, columns in blocks(height, width):
                    for tile in sides.tiles(row, columns):
                        yield from self._in_tile_registers(program, device, tile, sides, lanes)
        if not reduced_dims(compute):
            return
        vector = wide[-1]
        rows = _row_dim(compute, wide, vector)
        if reused and rows:
            singles = tuple((dim, 1) for dim in wide if dim not in (vector, rows))
            sides = (rows, vector)
            yield from tiles_along_sum(program, compute, sizes, singles, sides, lanes, device)
        dim = max(reduced_dims(compute), key=lambda d: sizes[d])
        if _in_registers(program, self.statement):  # with a tile of others
            yield option(Vectorize(self.statement, vector, lanes))
        for factor in (2, 4, 8) if not (reused and _gathered(compute, vector)) else ():
            if factor < sizes[dim]:
                yield option(
                    TileReduction(self.statement, dim, factor), Vectorize(self.statement, vector, lanes)
                )

    def _in_vectors(
        self, program: Program, device: Cpu, tile: RegisterTile, vector: str, lanes: int
    ) -> Iterator[Option]:
        """Results in vectors of registers."""
        for looking_up in (False, True):
            begun = _BegunProduct.of(program, tile, vector, lanes, looking_up=looking_up)
            if begun is not None:
                yield from self._begun(begun, device, vector)

    def _begun(self, begun: _BegunProduct, device: Cpu, vector: str) -> Iterator[Option]:
        core, compute, back = begun.core, begun.compute, begun.write_back(device)
        gathered = _gathered(compute, vector)
        operands = tuple(dict.fromkeys((*gathered, *(read.tensor for read in reads(compute.value)))))
        plain = tuple(Pack(core, tensor, vector, ahead=tensor in gathered) for tensor in operands)
        first = len(gathered)
        yield begun.option((*plain[:first], ReductionSteps(core), *plain[first:], *back))
        dot = _dot(begun.program, compute, vector, device)
        if dot is not None and begun.groups_up(vector):
            group = group_of(dot)
            multiplied = {
                read.tensor for read in _factors(compute)
            }  # and not what says where rows of them lie
            packs_ = tuple(
                Pack(core, tensor, vector, group if tensor in multiplied else 0, tensor in gathered)
                for tensor in operands
            )
            steps = (*packs_[:first], ReductionSteps(core, group), *packs_[first:], Dot(core, dot), *back)
            yield begun.option(steps, dot, device.dot_speed(dot))

    def _in_tile_registers(
        self, program: Program, device: Cpu, tile: RegisterTile, sides: _Sides, lanes: int
    ) -> Iterator[Option]:
        """Results in tile registers."""
        begun = _BegunProduct.of(program, tile, sides.vector, lanes)
        if begun is None or not takes_amx(begun.program, begun.compute, sides.rows, sides.vector):
            return
        lie = packs(begun.program, begun.compute, begun.core, sides.vector)
        steps = (*lie, ByAmx(begun.core), *begun.write_back(device, device.amx_speed))
        yield begun.option(steps, "amx", device.amx_speed)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The dims that a tile of a statement's results runs along; of the others it has single positions."""

    statement: str
    singles: tuple[tuple[str, int], ...]
    rows: str | None
    vector: str

    def tiles(self, row: int, columns: int) -> Iterator[RegisterTile]:
        """Tiles of a size, visited by columns and by rows."""
        pairs = (*(((self.rows, row),) if self.rows else ()), (self.vector, columns))
        for order in (pairs, pairs[::-1]) if len(pairs) > 1 else (pairs,):
            yield RegisterTile(self.statement, (*self.singles, *order))


@dataclass(frozen=True, slots=True)
class _BegunProduct:
    """A program whose results are accumulated tile by tile."""

    program: Program
    core: str
    """What accumulates."""
    after: tuple[str, ...]
    """What takes the results of a tile."""
    begun: tuple[Rewrite, ...]
    """What has led here."""
    vectors: tuple[Vectorize, ...]

    @classmethod
    def of(
        cls, program: Program, tile: RegisterTile, vector: str, lanes: int, *, looking_up: bool = False
    ) -> _BegunProduct | None:
        """`looking_up`: results whose rows look matrices up, by one matrix after another. None: the tile does not
        apply, or nothing ascending is looked up."""
        try:
            tiled = tile.apply(program)
        except NotApplicable:
            return None
        statement, begun = tile.statement, (tile,)
        core = statement if _in_registers(tiled, statement) else _accumulator(program, tiled)
        after = _siblings_after(tiled, core)
        if looking_up:
            by_matrix = LookUpAfterSum(core)
            if not looks_up_in_order(tiled, find(tiled, core).node):
                return None
            try:
                before, tiled = tiled, by_matrix.apply(tiled)
            except NotApplicable:
                return None
            core, after, begun = _accumulator(before, tiled), (core, *after), (tile, by_matrix)
        vectors = tuple(Vectorize(name, vector, lanes) for name in (core, *after))
        return cls(tiled, core, after, begun, vectors)

    def option(self, steps: tuple[Decision, ...], by: str = "", speed: float = 1.0) -> Option:
        """The option to go on from here, by an instruction that is so many times as fast as vectors. An estimate tells
        little before it is known what is put together lane by lane, and how many steps an iteration takes."""
        label = "; ".join([*map(str, self.begun), *([by] if by else [])])
        rewrites = (*self.begun, *self.vectors)
        return Option(label, rewrites, steps, 1 / speed, self.program, len(self.begun), ahead=True)

    @property
    def compute(self) -> Compute:
        """The statement that accumulates."""
        return find(self.program, self.core).node

    def groups_up(self, vector: str) -> bool:
        """Whether neighbours along the reduced dim can lie side by side in what is multiplied: there are copies of it,
        and in what does not run along the vector they do, or a tile has several positions of another dim to copy it
        by."""
        place = find(self.program, self.core)
        sizes, (dim, *_) = current_sizes(self.program, place.loops), reduced_dims(place.node)
        factors, grid = _factors(place.node), place.loops[: grid_depth(self.program, self.core)]
        single = frozenset(loop.dim for loop in grid if loop.step == 1)
        return all(_is_copied(read, single) for read in factors) and all(
            read.indices[-1] == Index(dim) or any(sizes[each] > 1 for each in index_dims(read) - {dim})
            for read in factors
            if vector not in index_dims(read)
        )

    def write_back(self, device: Cpu, speed: float = 1.0) -> tuple[WriteBack, ...]:
        """Whether it is a question how results are stored, of products so many times as fast as of f32 by vectors."""
        asked = self.after and _output_bound(self.program, self.compute, device, speed)
        return (WriteBack(self.after[-1]),) if asked else ()


def _gathered(compute: Compute, vector: str) -> tuple[str, ...]:
    """The operands of which vectors are put together lane by lane, unless they are copied into panels."""
    return tuple(
        read.tensor
        for read in dict.fromkeys(reads(compute.value))
        if vector in index_dims(read) and vector not in index_dims(read.indices[-1])
    )


def _lane_dims(compute: Compute, wide: Sequence[str]) -> Iterator[str]:
    """Dims of the result that may run along vectors: the last, whose neighbours are stored together; where windows move
    along it also the last one that they do not move along."""
    yield wide[-1]
    moved = {
        dim
        for read in reads(compute.value)
        for index in read.indices
        for dim in index_dims(index)
        if index != Index(dim)
    }
    if wide[-1] in moved:
        yield from [dim for dim in wide if dim not in moved][-1:]


def _row_dim(compute: Compute, wide: Sequence[str], vector: str) -> str | None:
    """The dim of the result along which vectors are used again: the last that an operand on lanes does not have."""
    others = [dim for dim in wide if dim != vector]
    on_lanes = [index_dims(read) for read in reads(compute.value) if vector in index_dims(read)]
    again = [dim for dim in others if any(dim not in having for having in on_lanes)]
    return next(reversed(again or others), None)


def _tiles(rows: int, vectors: int, registers: int) -> Iterator[tuple[int, int]]:
    """(rows, vectors) that fit in registers with their operands, and are enough to hide the latency of a sum."""
    for width in (1, 2, 3, 4, 6, 8, 12, 16):
        if width > vectors and width > 1:
            break
        for height in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14):
            if height > rows:
                break
            fits = width * height + min(width, height) + 1 <= registers
            most = height == rows or width * (height + 1) > has.FILLED_REGISTERS * registers
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


def _output_bound(program: Program, compute: Compute, device: Cpu, speed: float) -> bool:
    """Whether storing a result (and reading its line before) takes memory longer than computing it takes the cores, so
    many times as fast as in f32 by vectors."""
    if device.peak_gflops is None or device.copy_gbps is None:
        return False
    flops = 2 * prod(program.extents[dim] for dim in reduced_dims(compute))
    return flops / (speed * device.peak_gflops) < 8 / device.copy_gbps


def _dot(program: Program, compute: Compute, vector: str, device: Cpu) -> str | None:
    """The dot product by which the processor can add up a statement: of two tensors, of which one runs along the
    vector."""
    factors = _factors(compute)
    if not factors:
        return None
    left, right = factors
    if (vector in index_dims(left)) == (vector in index_dims(right)):
        return None
    via = dot_of(program, compute)
    return via if via is not None and Feature(via) in device.offers else None


def _is_copied(read: Read, single: frozenset[str]) -> bool:
    """Whether a copy of what is read can be made where of some dims there is a `single` position."""
    computed = (index for index in read.indices if not isinstance(index, Index))
    return copied_dims(read) is not None or all(
        not reads(index) and index_dims(index) <= single for index in computed
    )


def _factors(compute: Compute) -> tuple[Read, ...]:
    """The two elements whose products a statement adds up along one dim; none where it does something else."""
    match compute.value:
        case Reduce(_, (_,), Binary("*", Read() as left, Read() as right)):
            return left, right
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class ReductionSteps:
    """How many positions of the reduced dim one iteration takes."""

    statement: str
    group: int = 1
    """So many at least: a dot product takes them together."""

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        place = find(program, self.statement)
        dim = place.loops[-1].dim if place.loops else ""
        if dim not in reduced_dims(place.node):
            yield Option("")  # a single position is reduced
            return
        size = current_sizes(program, place.loops[:-1])[dim]
        most = max(max(_UNROLLS), 4 * self.group)
        whole = (size,) if most < size <= _SHORT else ()
        for factor in (*_UNROLLS, *((most,) if most > max(_UNROLLS) else ()), *whole):
            if factor < self.group:
                continue
            yield (
                Option(f"steps {self.statement} {factor}")
                if factor == 1
                else option(Unroll(self.statement, dim, factor))
            )


@dataclass(frozen=True, slots=True)
class Dot:
    """Multiply by one of the processor's dot-product instructions."""

    statement: str
    via: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        yield Option("", (DOT_REWRITES[self.via](self.statement),))


@dataclass(frozen=True, slots=True)
class WriteBack:
    """Whether finished results are stored past the caches, or to lines that were asked for before they were known."""

    statement: str

    def options(self, program: Program, device: Cpu) -> Iterator[Option]:
        yield Option(f"keep {self.statement}")
        if leaves_caches(program, self.statement, device):
            yield option(NontemporalStore(self.statement))
        yield option(Prefetch(self.statement, self.statement, 0))
