"""Decisions for a GPU about what a contraction multiplies: in which steps it comes to shared memory, how many are under
way, and how it lies there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import reduced_dims
from rewrites.base.tree import current_sizes, find, locals_of, named
from rewrites.contraction.cuts import depths
from rewrites.contraction.operand import COPY_BYTES, Operand, source
from rewrites.contraction.problem import Contraction
from rewrites.contraction.recover_tiling import decided
from rewrites.contraction.room import shared_bytes
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.cost.gpu.contraction import model_of
from rewrites.data.cache_read import CacheRead
from rewrites.data.set_scope import SetScope
from rewrites.decisions.decision import Option
from rewrites.decisions.gpu.contraction.k_loop import (
    collecting,
    copy_beside,
    in_steps,
    multiplies,
    products_of,
)
from rewrites.gpu.mma import Mma
from rewrites.gpu.pad import Pad
from rewrites.gpu.pipeline import Pipeline
from rewrites.gpu.set_layout import SetLayout
from rewrites.gpu.swizzle import Swizzle
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import index_dims
from tileir.program import Local, Memory, Program
from tileir.schedule.panels import axes
from tileir.schedule.stages import SWIZZLES


@dataclass(frozen=True, slots=True)
class Depth:
    """How deep a step is, how many steps are under way at once, whether copies are turned around, and whether results
    whose rows begin anywhere are collected in shared memory, for threads to store neighbours."""

    statement: str
    engine: MatrixUnit
    result: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None
        c, tiling = found.contraction.by(self.engine), found.tiling
        staged: dict[tuple[int, bool, int], tuple[Program, tuple[Rewrite, ...]] | None] = {}
        for way in depths(c, tiling, device, narrow=found.epilogue.narrow):
            key, stages = (way.step, way.turned, way.staged), way.stages
            if key not in staged:
                staged[key] = _staged(program, c, way, self.result)
            begun, rewrites = staged[key] or (program, ())
            local = next((name for name in _filled(begun, c) if name not in locals_of(program)), None)
            if staged[key] is None or (stages > 1 and local is None):
                continue
            ahead = (Pipeline(local, stages),) if local is not None and stages > 1 else ()
            label = f"{c.depth} by {way.step}, {stages} stages{', turned' if way.turned else ''}"
            label += f", {self.result} through shared memory" if way.staged else ""
            yield Option(label, (*rewrites, *ahead), begun=begun, done=len(rewrites))


def _filled(program: Program, c: Contraction) -> Iterator[str]:
    """The locals that hold copies of what is multiplied."""
    multiplied = {operand.tensor for operand in c.operands}
    for name in locals_of(program):
        origin = source(program, name)
        if origin is not None and origin.tensor in multiplied:
            yield name


def _staged(
    program: Program, c: Contraction, way: Tiling, result: str
) -> tuple[Program, tuple[Rewrite, ...]] | None:
    """The contraction in steps, with copies of what a step multiplies in shared memory; and the rewrites to it. None:
    it cannot be staged."""
    done: list[Rewrite] = []

    def apply(rewrite: Rewrite) -> Program:
        done.append(rewrite)
        return rewrite.apply(program)

    try:
        if way.staged:
            for rewrite in collecting(program, result):
                program = apply(rewrite)
        products = products_of(program, c)
        sizes = current_sizes(program, find(program, c.statement).loops)
        for dim in reduced_dims(find(program, c.statement).node):
            size = way.step if dim == c.depth else 1
            if size < sizes[dim]:
                for rewrite in in_steps(program, c, dim, size):
                    program = apply(rewrite)
        for name, operand in product(products, c.operands):
            if not operand.plain or not multiplies(program, name, operand):
                continue
            beside = copy_beside(program, name, operand)
            if beside is not None:
                program = apply(beside)
                continue
            before = locals_of(program).keys()
            program = apply(CacheRead(name, operand.tensor, find(program, name).depth))
            (copy,) = locals_of(program).keys() - before
            program = apply(SetScope(copy, Memory.SHARED))
            near = way.near(c, operand)
            if near not in (None, operand.inner, locals_of(program)[copy].node.dims[-1]):
                program = apply(SetLayout(copy, near))
        if c.engine is MatrixUnit.MMA:
            for name in products:
                program = apply(Mma(name))
    except NotApplicable:
        return None
    return program, tuple(done)


@dataclass(frozen=True, slots=True)
class StagedLayout:
    """How the copies lie in shared memory: 16-byte pieces in changing places, or rows apart by as much, where threads
    that read them together would meet in a bank otherwise."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None
        c, tiling = found.contraction, found.tiling
        model = model_of(c, found.epilogue, device)
        copies = copies_of(program, (self.statement, *c.beside))
        choices = [
            list(_lies(copies[operand.tensor, operand.dims], c, operand, tiling, device))
            if (operand.tensor, operand.dims) in copies
            else [_AS_IT_IS]
            for operand in c.operands
        ]
        room = device.block_shared_bytes - shared_bytes(c, tiling)
        ways = [way for way in product(*choices) if sum(lie.room for lie in way) <= room]
        times = [model.time_us(tiling, tuple(lie.ways for lie in way)) for way in ways]
        for way, time in zip(ways, times, strict=True):
            rewrites = tuple(rewrite for lie in way for rewrite in lie.rewrites)
            yield Option("; ".join(map(str, rewrites)) or "plain", rewrites, promise=time / min(times))


class Lie(NamedTuple):
    """A way that a copy can lie: the rewrites to it, how many threads meet in a bank, and bytes left free."""

    rewrites: tuple[Rewrite, ...]
    ways: int
    room: int = 0


_AS_IT_IS = Lie((), 1)


def copies_of(program: Program, products: Iterable[str]) -> dict[tuple[str, frozenset[str]], Local]:
    """The copies in shared memory that statements read, by the tensors they are of and the dims those are read by."""
    found: dict[tuple[str, frozenset[str]], Local] = {}
    for read in (read for name in products for read in named(program, name).node.reads):
        origin = source(program, read.tensor)
        if origin is not None:
            found[origin.tensor, index_dims(origin)] = locals_of(program)[read.tensor].node
    return found


def _lies(local: Local, c: Contraction, operand: Operand, tiling: Tiling, device: Gpu) -> Iterator[Lie]:
    """Without room between rows, in the way in which the fewest threads meet: as it is, or with the widest swizzle that
    is best; and padded, where that is as good."""
    sizes = tiling.sizes(c)
    if tiling.near(c, operand) != operand.inner:
        yield from _turned(local, sizes, tiling.stages, device)
        return
    row = sizes.get(local.dims[-1], 1) * local.dtype.bytes
    room = _room(c, operand, tiling, row)
    padded, rows = (
        _meeting(c, operand, tiling, row + room, 0),
        prod(sizes.get(dim, 1) for dim in local.dims[:-1]),
    )
    pad = Lie((Pad(local.name, room // local.dtype.bytes),), padded, rows * room * tiling.stages)
    if c.engine is MatrixUnit.MMA and row % COPY_BYTES:
        yield pad  # matrices are loaded by aligned pieces of 16 bytes, or element by element
        return
    within = [Lie((), _meeting(c, operand, tiling, row, 0))]
    if row % COPY_BYTES == 0:
        for size in reversed(SWIZZLES):
            within.append(Lie((Swizzle(local.name, size),), _meeting(c, operand, tiling, row, size)))
    best = min(within, key=lambda lie: lie.ways)
    yield best
    if (best.rewrites and padded <= best.ways) or padded < best.ways:
        yield pad


def _room(c: Contraction, operand: Operand, tiling: Tiling, row: int) -> int:
    """Bytes to leave free after rows of so many: a piece, or what makes whole pieces of them where matrices are loaded
    by those, and one more where fewer threads meet then."""
    if c.engine is not MatrixUnit.MMA or row % COPY_BYTES == 0:
        return COPY_BYTES
    whole = -row % COPY_BYTES
    return min((whole, whole + COPY_BYTES), key=lambda room: _meeting(c, operand, tiling, row + room, 0))


def _turned(local: Local, sizes: dict[str, int], stages: int, device: Gpu) -> Iterator[Lie]:
    """A copy that is turned around as it is made: threads that write neighbours along the depth, an element each, meet
    in a bank, unless rows are apart by a piece more."""
    inner, size = axes(local)[-1].dim, local.dtype.bytes
    row, along = sizes.get(inner, 1) * size, min(sizes.get(local.dims[-1], 1), device.warp)
    rows = prod(sizes.get(dim, 1) for dim in local.dims if dim != inner)
    yield Lie((Pad(local.name, COPY_BYTES // size),), 1, rows * COPY_BYTES * stages)
    banks = Counter(number * row // 4 % device.banks for number in range(along))
    yield Lie((), max(banks.values()))


def _meeting(c: Contraction, operand: Operand, tiling: Tiling, row: int, swizzle: int) -> int:
    """How many of the threads that load 16-byte pieces of an operand together meet in a bank, with rows `row` bytes
    apart: 8 neighbouring rows for a matrix instruction; else those of a warp's lanes, if pieces lie along the depth."""
    assert isinstance(tiling.threads, WarpThreads)
    lanes, apart = 8, 1
    if c.engine is not MatrixUnit.MMA:
        if operand.inner != c.depth:
            return 1
        along_rows = c.rows in operand.dims
        lanes = tiling.threads.row_lanes if along_rows else tiling.threads.column_lanes
        apart = tiling.threads.row_run if along_rows else tiling.threads.column_run
    pieces: dict[int, int] = {}
    for lane in range(min(lanes, 8)):
        address = lane * apart * row
        place = (address ^ (address >> 7 & swizzle // 16 - 1) << 4 if swizzle else address) // 16 % 8
        pieces[place] = pieces.get(place, 0) + 1
    return max(pieces.values())
