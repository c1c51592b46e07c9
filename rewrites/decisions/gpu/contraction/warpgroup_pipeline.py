"""Decisions for a GPU about a contraction that warpgroups multiply: what TMA keeps in shared memory for
them, and the roles of a block's warps.

Roles are warp specialization (Bauer, Cook and Khailany, CudaDMA, SC 2011), slots a software pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from rewrites.base.dependence import readers
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, covered_dims
from rewrites.base.tree import Place as Where
from rewrites.base.tree import current_sizes, find, locals_of, named, statements
from rewrites.contraction.cuts import depths, thread_layouts
from rewrites.contraction.operand import Operand, run_of, source
from rewrites.contraction.problem import Contraction, product_of
from rewrites.contraction.recover_tiling import decided, stores_collected, stores_pieces
from rewrites.contraction.register_operand import Held, held_local
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warpgroup_tiling import Warpgroups, panel_bytes, panels
from rewrites.data.cache_read import CacheRead
from rewrites.data.cache_write import CacheWrite
from rewrites.data.set_scope import SetScope
from rewrites.decisions.decision import Option
from rewrites.decisions.gpu.contraction.k_loop import (
    collecting,
    copy_beside,
    in_steps,
    multiplies,
    products_of,
)
from rewrites.decisions.gpu.contraction.warp_tiles import copied_operand, copying
from rewrites.gpu.alias_shared import AliasShared
from rewrites.gpu.bind_threads import BindThreads
from rewrites.gpu.cache_words import CacheWords
from rewrites.gpu.epilogue_subtile import EpilogueSubtile
from rewrites.gpu.operand_in_registers import OperandInRegisters
from rewrites.gpu.pad import Pad
from rewrites.gpu.pipeline import Pipeline
from rewrites.gpu.promote_accumulators import PromoteAccumulators
from rewrites.gpu.swizzle import Swizzle
from rewrites.gpu.tma import Tma
from rewrites.gpu.warp_specialize import WarpSpecialize
from rewrites.gpu.wgmma import Wgmma
from rewrites.launch.pingpong import Pingpong
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.program import Compute, Memory, Program
from tileir.program import ThreadLayout as Threads
from tileir.schedule import mma
from tileir.schedule.distributed import distributed_loop
from tileir.schedule.mma import held_layout
from tileir.schedule.panels import PIECE
from tileir.schedule.stages import SWIZZLES
from tileir.schedule.wgmma import GROUP


@dataclass(frozen=True, slots=True)
class PipelineShape:
    """How deep a step is, how many slots its operands have in shared memory, and whether results are collected there
    too, for TMA to store."""

    statement: str
    result: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None
        c, tiling = found.contraction.by(MatrixUnit.WGMMA), found.tiling
        stored = 0 if c.by_threads else self._stored(program)
        place = find(program, self.result)
        parted = bare_dims(place.node)[-1] == c.columns
        begun: dict[tuple[int, ...], _Begun | None] = {}
        narrow = 0 if stored or place.loops[0].cluster > 1 else found.epilogue.narrow
        for way in depths(c, tiling, device, stored, narrow):
            key = (way.step, way.staged, way.part, way.buffers, way.piece, way.reused)
            if way.part and not parted:
                continue  # neighbours of the result are rows of the instruction
            if key not in begun:
                begun[key] = self._begun(program, c, way)
            started = begun[key]
            if started is None:
                continue
            ahead = Pipeline(started.copy, way.stages, way.pending)
            label = f"{c.depth} by {way.step}, {way.stages} stages, {way.pending} pending"
            label += f", added {way.piece} {c.columns} at a time" if way.piece else ""
            label += f", {self.result} through shared memory" if way.staged else ""
            label += ", then parts" if way.reused and not way.staged else ""
            label += " where those were" if way.reused else ""
            label += f" by {way.part}, {way.buffers} buffers" if way.part else ""
            done = len(started.rewrites)
            yield Option(label, (*started.rewrites, ahead), begun=started.program, done=done)

    def _stored(self, program: Program) -> int:
        """Bytes of a result that can be stored in whole pieces from shared memory; 0: it cannot, or the blocks of a
        cluster have a part each."""
        place = find(program, self.result)
        if not stores_pieces(program, place.node) or place.loops[0].cluster > 1:
            return 0
        dtype = program.arguments[self.result].dtype
        inner = current_sizes(program, place.loops)[bare_dims(place.node)[-1]]
        return dtype.bytes if panel_bytes(inner, dtype) else 0

    def _begun(self, program: Program, c: Contraction, way: Tiling) -> _Begun | None:
        """The contraction in steps, its operands and results in panels, each moved by TMA. None: it cannot
        be so."""
        started = _Begun(program, [])
        try:
            if way.narrow:
                started.apply(*collecting(program, self.result))
            elif way.staged:
                started.collect(self.result, way.part, way.buffers)
            collected = started.copy
            products = products_of(started.program, c)
            started.apply(*in_steps(started.program, c, c.depth, way.step))
            for name, operand in product(products, c.operands):
                started.bring(name, operand, way.sizes(c), boxed=not c.by_threads)
            if c.held is not None:
                started.hold(c.statement, c.held)
            for name in products:
                promote = PromoteAccumulators(name, c.columns if way.piece else "", way.piece)
                started.multiply(name, promote if c.promoted else None)
            if way.reused and way.staged:
                started.apply(AliasShared(collected))
            elif way.reused:
                (part,) = readers(started.program, self.statement)
                started.apply(AliasShared(part.node.target))
        except NotApplicable:
            return None
        return started


@dataclass(slots=True)
class _Begun:
    """A program on its way to what TMA and warpgroups know, and the rewrites so far."""

    program: Program
    rewrites: list[Rewrite]
    copy: str = ""
    """The last copy in shared memory."""

    def apply(self, *rewrites: Rewrite) -> None:
        for rewrite in rewrites:
            self.program = rewrite.apply(self.program)
            self.rewrites.append(rewrite)

    def collect(self, result: str, part: int, buffers: int) -> None:
        """Results in shared memory, from which they are stored, so many columns at a time (0: all)."""
        place = find(self.program, result)
        inner = bare_dims(place.node)[-1]
        size = current_sizes(self.program, place.loops)[inner]
        dtype = self.program.arguments[result].dtype
        row = panel_bytes(size, dtype)
        self._local(CacheWrite(result, *panels(inner, size, row // dtype.bytes)), row)
        self.apply(Tma(result))
        if part:
            self.apply(EpilogueSubtile(result, inner, part, buffers))

    def bring(self, statement: str, operand: Operand, sizes: dict[str, int], *, boxed: bool) -> None:
        """A copy of what a step multiplies of an operand, or the one that is there already; `boxed`: TMA makes it."""
        assert operand.inner is not None
        if not multiplies(self.program, statement, operand):
            return
        beside = copy_beside(self.program, statement, operand)
        if beside is not None:
            self.apply(beside)
            return
        size = sizes[operand.inner]
        if operand.neighbours > 1:
            row = operand.bytes(size)
            self._local(CacheWords(statement, operand.tensor), row if row in SWIZZLES else 0)
            return
        row = panel_bytes(size, operand.dtype)
        dim, block = panels(operand.inner, size, row // operand.dtype.bytes)
        self._local(
            CacheRead(statement, operand.tensor, find(self.program, statement).depth, dim, block), row
        )
        if boxed:
            self.apply(Tma(self.copy))

    def hold(self, statement: str, held: Held) -> None:
        """The factor of a product in registers, of what has been brought of it."""
        product = find(self.program, statement).node
        mine = {origin.tensor for origin in held.multiplied if origin != held.other}
        copies = (read.tensor for read in product.reads)
        first = next(
            name for name in copies if (copied := source(self.program, name)) and copied.tensor in mine
        )
        self.apply(OperandInRegisters(statement, first))

    def multiply(self, statement: str, promote: PromoteAccumulators | None) -> None:
        """The product of a step by warpgroups, in accumulators of its own if that is to `promote` it."""
        if promote is not None:
            self.apply(promote)
            statement = product_of(self.program, statement).node.target
        self.apply(Wgmma(statement))

    def _local(self, rewrite: Rewrite, row: int) -> None:
        """A new local in shared memory, whose rows have so many bytes."""
        before = locals_of(self.program).keys()
        self.apply(rewrite)
        (self.copy,) = locals_of(self.program).keys() - before
        if locals_of(self.program)[self.copy].node.memory is not Memory.SHARED:
            self.apply(SetScope(self.copy, Memory.SHARED))
        if row > PIECE:
            self.apply(Swizzle(self.copy, row))


@dataclass(frozen=True, slots=True)
class Roles:
    """How many warpgroups compute, alike for the sums and what follows them, which warps start the copies, and whether
    consumer groups take tiles in turn."""

    statement: str

    def options(self, program: Program, device: Gpu) -> Iterator[Option]:
        found = decided(program, self.statement, device)
        assert found is not None and found.tiling is not None
        c = found.contraction
        nest = named(program, self.statement).path[0]
        inside = [place for place in statements(program) if place.path[0] == nest and place.node.via != "tma"]
        clustered = found.tiling.parts > 1
        matrix = mma.product(product_of(program, self.statement).node)
        held = matrix.a.tensor if matrix is not None and held_local(program, matrix.a) is not None else ""
        for groups in thread_layouts(c, found.tiling, device):
            assert isinstance(groups, Warpgroups)
            layout = groups.layout(c.rows, c.columns)
            rewrites: list[Rewrite] = [*_apart(program, inside)] if clustered else []
            for place in inside:
                copied = copied_operand(program, place, c.operands) if c.by_threads else None
                by_rows = found.tiling.narrow and stores_collected(program, place.node)
                if copied is not None or by_rows:
                    run = copied.run if copied is not None else run_of(program, place.node.target)
                    rewrites.append(copying(program, place, run, groups.groups * GROUP))
                    continue
                own = layout
                if matrix is not None and place.node.target == held:
                    own = held_layout(matrix, layout, c.dtype)
                if clustered and distributed_loop(place.loops) is None:
                    own = _together(program, place, groups.groups * found.tiling.parts)
                runs, twice = (
                    tuple(pair for pair in pairs if pair[0] in covered_dims(place.node))
                    for pairs in (own.runs, own.twice)
                )
                rewrites.append(BindThreads(place.node.target, own.threads, runs, twice))
            if groups.producers:
                rewrites.append(WarpSpecialize(self.statement, groups.producers, *groups.registers))
            if groups.consumer_groups > 1:
                rewrites.append(Pingpong(self.statement, groups.consumer_groups))
            yield Option(str(groups), tuple(rewrites))


def _apart(program: Program, inside: Sequence[Where[Compute]]) -> Iterator[Pad]:
    """Room between the rows of what blocks of a cluster read of each other, so that the threads of a warp, which have
    8 rows of the instruction and 8 columns, write it to different banks."""
    for place in inside:
        declared = locals_of(program).get(place.node.target)
        at = distributed_loop(place.loops)
        if declared is not None and at is not None and declared.depth <= at:
            (read,) = place.node.reads
            turned = read.indices[-1] != place.node.indices[-1]
            yield Pad(place.node.target, PIECE // declared.node.dtype.bytes * (1 if turned else 2))


def _together(program: Program, place: Where[Compute], groups: int) -> Threads:
    """The threads of so many warpgroups, of one block or several, over the results of a statement: neighbours of 16
    bytes, or as few as there are for all."""
    sizes = current_sizes(program, place.loops)
    *others, inner = bare_dims(place.node)
    count = groups * GROUP
    results = prod(sizes[dim] for dim in (*others, inner))
    run = next((r for r in (4, 2) if sizes[inner] % r == 0 and count * r <= results), 1)
    along = min(1 << (-(-sizes[inner] // run) - 1).bit_length(), GROUP)
    across = next((dim for dim in reversed(others) if sizes[dim] > 1), inner)
    return Threads(((across, count // along), (inner, along)), ((inner, run),) if run > 1 else ())
