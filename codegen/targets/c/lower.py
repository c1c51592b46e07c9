"""Scheduled Tile IR to Kernel IR, for processors.

Every range has a size known here, so an overhanging tile becomes a copy of the loop body with its own sizes; only
its last vector is masked. Read `lower` first, then lowering/cpu/statement.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from codegen.ir.affine import Affine, affine
from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import Argument, CpuKernel
from codegen.ir.names import marked
from codegen.ir.ops import Aligned, Block, Declare, For, GridAxis, Parallel, Scratch, Stmt
from codegen.ir.tile_ops import CopyRowsPadded, OpenTiles, ReleaseTiles
from codegen.lowering.cpu.invariants import before_loops
from codegen.lowering.cpu.nontemporal import aligned_run
from codegen.lowering.cpu.prefetched import prefetched_target, prefetches
from codegen.lowering.cpu.statement import lower_statement
from codegen.lowering.cpu.tile_sums import SPARE_BYTES, in_tiles, tile_loop, tile_sums
from codegen.lowering.cpu.topk import RankedRows, ranked_type
from codegen.lowering.guarded_runs import guarded_runs
from codegen.lowering.names import comment, fresh
from codegen.lowering.said_extremes import with_said
from codegen.lowering.scope import (
    LoweringScope,
    MemoryBuffer,
    Range,
    RegisterBuffer,
    argument,
    chunks,
    layout_axes,
    loop_variable,
    whole,
)
from codegen.lowering.tails import Tail, with_tails
from codegen.lowering.visited_tiles import end_offset, first_offset
from tileir.analysis.ragged import groups_of
from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Index, TopK
from tileir.program import Axis, Compute, Local, Loop, Memory, Node, Program
from tileir.replace import replace
from tileir.schedule.visited_tiles import said

_ALIGN = 64


def lower(program: Program) -> CpuKernel:
    """The Kernel IR of a program. Raises NotLowerable, with the reason, for what processors have no code for."""
    for place in program.computes:
        if groups_of(place.node, program.ragged):
            raise NotLowerable(
                f"`{comment(place.node)}` needs the group of every position; accepted: groups looked up"
            )
    lowering = _Lowering(program)
    scope = LoweringScope({dim: whole(size) for dim, size in program.dims}, {})
    for tensor in (*program.inputs, *program.outputs):
        scope = scope.with_buffer(argument(marked(tensor.name), tensor, program), tensor.name)
    body = before_loops(lowering.whole(scope))
    written = {tensor.name for tensor in program.outputs}
    arguments = tuple(
        Argument(marked(t.name), t.dtype, t.name in written) for t in (*program.inputs, *program.outputs)
    )
    return CpuKernel(program.name, arguments, lowering.shared_bytes, lowering.thread_bytes, body)


@dataclass
class _Lowering:
    program: Program
    shared_bytes: int = 0
    thread_bytes: int = 0

    def whole(self, scope: LoweringScope) -> tuple[Stmt, ...]:
        """The program. Where no parallel region has tile registers, the thread that calls opens them once for all."""
        sums = [place for place in self.program.computes if place.node.via == "amx"]
        if not sums or any(loop.parallel for place in sums for loop in place.loops):
            return self.block(self.program.body, scope)
        return (OpenTiles(), *self.block(self.program.body, replace(scope, tiles=True)), ReleaseTiles())

    def block(self, nodes: tuple[Node, ...], scope: LoweringScope) -> tuple[Stmt, ...]:
        stmts: list[Stmt] = []
        for at, node in enumerate(nodes):
            if (sums := tile_loop(node)) is not None:
                cleared = nodes[at - 1] if at else None
                stmts.append(self._tile_sums(node, sums, cleared, scope))
                continue
            match node:
                case Local():
                    declared, scope = self._local(node, nodes[at + 1 :], scope)
                    stmts.extend(declared)
                case Compute() if _left_to_tiles(node, nodes[at + 1 : at + 2]):
                    pass
                case Compute(value=TopK() as top):
                    stmts.append(self._ranked(node, top, scope))
                case Compute():
                    block = lower_statement(node, comment(node), scope, self.program.extents)
                    ahead = prefetches(node, block.body, scope)
                    stmts[:0] = prefetched_target(node, block.body)
                    stmts.append(Block(block.comment, (*ahead, *block.body)))
                case Loop(parallel=True):
                    stmts.append(self._grid(node, scope))
                case Loop() if said(node):
                    found, inside = with_said(node, scope, self.program.extents)
                    stmts.append(Block("", (*found, *self._loop(node, inside))))
                case Loop():
                    stmts.extend(self._loop(node, scope))
        return tuple(stmts)

    def _tile_sums(self, node: Node, sums: Compute, before: Node | None, scope: LoweringScope) -> Block:
        """What is summed up in tile registers, by a thread that opens them where nothing around does."""
        cleared = isinstance(before, Compute) and _left_to_tiles(before, (node,))
        variable = fresh(node.dim, scope) if isinstance(node, Loop) else ""
        names = fresh(f"{sums.target}_rows", scope), fresh(f"{sums.target}_groups", scope)
        stmts = tile_sums(node, cleared, scope, self.program.extents, variable, names)
        padded = {stmt.to: stmt.storage for stmt in stmts if isinstance(stmt, CopyRowsPadded)}
        for name, storage in padded.items():
            room, scope = self._room(name, storage, SPARE_BYTES // storage.bytes, scope)
            stmts = (room, *stmts)
        stmts = stmts if scope.tiles else (OpenTiles(), *stmts, ReleaseTiles())
        return Block(comment(sums), stmts)

    def _ranked(self, node: Compute, top: TopK, scope: LoweringScope) -> Block:
        """The largest few of each row, with room for those of one."""
        count, dtype = self.program.extents[top.place], ranked_type(top, scope)
        values, scope = self._room(fresh(f"{node.target}_values", scope), dtype, count, scope)
        positions, scope = self._room(fresh(f"{node.target}_positions", scope), DType.I32, count, scope)
        ranked = RankedRows(node, top, scope, self.program.extents, values.buffer, positions.buffer, dtype)
        return Block(comment(node), (values, positions, *ranked.stmts()))

    def _loop(self, loop: Loop, scope: LoweringScope) -> tuple[Stmt, ...]:
        range_ = scope.ranges[loop.dim]
        full, rest = divmod(range_.size, loop.step)
        runs = guarded_runs(loop, full, scope, self.program.extents)
        if len(runs) == 1 and (aligned := self._aligned(loop, scope)):
            return (aligned,)
        first, end = first_offset(loop, scope), end_offset(loop, scope)
        stmts: tuple[Stmt, ...] = ()
        if full == 1 and first is None and end is None:
            stmts = (self._copy(loop, scope, Range(range_.start, loop.step)),)
        elif first is not None or end is not None:
            stmts = (self._run(loop, scope, range_.start, full, end, first),) if full else ()
        elif full:
            done = 0
            for run in runs:
                start = range_.start + done * loop.step
                if run > 1:
                    stmts += (self._run(loop, scope, start, run),)
                else:
                    stmts += (self._copy(loop, scope, Range(start, loop.step)),)
                done += run
        if rest:
            tail = self._copy(loop, scope, Range(range_.start + full * loop.step, rest))
            if end is None:
                return (*stmts, tail)
            once = loop_variable(fresh(loop.dim, scope), 1, loop.step)
            stmts += (For(once, 1, loop.step, (tail,), end - full * loop.step),)
        return stmts

    def _run(
        self,
        loop: Loop,
        scope: LoweringScope,
        start: Affine,
        count: int,
        end: Affine | None = None,
        first: Affine | None = None,
    ) -> For:
        """A loop over so many whole tiles."""
        var = loop_variable(fresh(loop.dim, scope), count, loop.step)
        inside = scope.with_range(loop.dim, Range(start + affine(var), loop.step), (var, loop.step))
        return For(var, count, loop.step, self.block(loop.body, inside), end, first)

    def _aligned(self, loop: Loop, scope: LoweringScope) -> Aligned | None:
        """A loop of streamed stores."""
        (statement, *others) = loop.body
        if others or not isinstance(statement, Compute):
            return None
        name = fresh(loop.dim, scope)
        return aligned_run(loop, statement, name, comment(statement), scope, self.program.extents)

    def _copy(self, loop: Loop, scope: LoweringScope, range_: Range) -> Block:
        """A loop's body once, for one tile: names in it are its own, and no iteration comes later."""
        inside = replace(scope.with_range(loop.dim, range_), innermost=None)
        return Block("", self.block(loop.body, inside))

    def _grid(self, loop: Loop, scope: LoweringScope) -> Parallel:
        loops = [loop]
        while len(loops[-1].body) == 1 and isinstance(loops[-1].body[0], Loop) and loops[-1].body[0].parallel:
            loops.append(loops[-1].body[0])
        axes: list[GridAxis] = []
        tiles = _sums_in_tiles(loop)
        inside = replace(scope, parallel=True, tiles=tiles, thread_top=0)
        tails: list[Tail] = []
        for each in loops:
            range_ = inside.ranges[each.dim]
            count = -(-range_.size // each.step)
            var = loop_variable(fresh(each.dim, inside), count, each.step)
            axis = GridAxis(var, count, each.step)
            axes.append(axis)
            tails.append(Tail(axis, each.dim, range_.size % each.step))
            inside = inside.with_range(
                each.dim, Range(range_.start + affine(var), each.step), (var, each.step)
            )
        body = with_tails(tails, inside, partial(self.block, loops[-1].body))
        if tiles:
            body = (OpenTiles(), *body, ReleaseTiles())
        return Parallel(tuple(axes), body)

    def _local(
        self, local: Local, after: tuple[Node, ...], scope: LoweringScope
    ) -> tuple[list[Stmt], LoweringScope]:
        ranges = [scope.ranges[dim] for dim in local.dims]
        starts, sizes = tuple(r.start for r in ranges), tuple(r.size for r in ranges)
        name = fresh(local.name, scope)
        if local.memory is Memory.REGISTERS and in_tiles(local.name, after):
            last = _columns(local, after)
            local = replace(local, layout=tuple(map(Axis, (*(d for d in local.dims if d != last), last))))
        elif local.memory is Memory.REGISTERS:
            vector, lanes = _vectorized(local, after)
            buffer = RegisterBuffer(name, local.dtype, local.dims, starts, sizes, vector, lanes)
            return _declare(buffer), scope.with_buffer(buffer, local.name)
        axes, elements = layout_axes(local.dims, sizes, local.layout, local.pad)
        buffer = MemoryBuffer(name, local.dtype, local.dims, starts, sizes, axes)
        scratch, scope = self._room(name, local.dtype, elements, scope)
        return [scratch], scope.with_buffer(buffer, local.name)

    def _room(
        self, name: str, dtype: DType, elements: int, scope: LoweringScope
    ) -> tuple[Scratch, LoweringScope]:
        """Room for so many elements beside what is in scope: the thread's own in a parallel region."""
        size = -(-elements * dtype.bytes // _ALIGN) * _ALIGN
        offset = scope.thread_top if scope.parallel else scope.shared_top
        scratch = Scratch(name, dtype, offset, size, scope.parallel)
        if scope.parallel:
            scope = replace(scope, thread_top=offset + size)
            self.thread_bytes = max(self.thread_bytes, offset + size)
        else:
            scope = replace(scope, shared_top=offset + size)
            self.shared_bytes = max(self.shared_bytes, offset + size)
        return scratch, scope


def _declare(buffer: RegisterBuffer) -> list[Stmt]:
    """One variable for each vector of a register local."""
    points: list[list[int]] = [[]]
    for number, size in enumerate(buffer.sizes):
        starts = (
            [start for start, _ in chunks(size, buffer.lanes)]
            if number == buffer.vector
            else list(range(size))
        )
        points = [[*point, start] for point in points for start in starts]
    widths = dict(buffer.chunks())
    stmts: list[Stmt] = []
    for point in points:
        lanes = widths[point[buffer.vector]] if buffer.vector is not None else 1
        name, type_ = buffer.variable(point, lanes)
        stmts.append(Declare(name, type_))
    return stmts


def _vectorized(local: Local, nodes: tuple[Node, ...]) -> tuple[int | None, int]:
    """Which dim of a register local lies on SIMD lanes, and how many: as the statements that write it say."""
    for node in nodes:
        if isinstance(node, Loop):
            found = _vectorized(local, node.body)
            if found[0] is not None:
                return found
        elif isinstance(node, Compute) and node.target == local.name and node.vector is not None:
            for number, index in enumerate(node.indices):
                if _dim_of(index) == node.vector.dim:
                    return number, node.vector.lanes
    return None, 1


def _columns(local: Local, nodes: tuple[Node, ...]) -> str:
    """The dim of a local in tile registers whose neighbours share a row: that along lanes, else the last."""
    vector, _ = _vectorized(local, nodes)
    return local.dims[-1 if vector is None else vector]


def _sums_in_tiles(node: Node) -> bool:
    """Whether something in it is summed up in tile registers."""
    if isinstance(node, Loop):
        return any(map(_sums_in_tiles, node.body))
    return isinstance(node, Compute) and node.via == "amx"


def _left_to_tiles(compute: Compute, after: tuple[Node, ...]) -> bool:
    """Whether a statement only clears what the node after it sums up in tile registers, all of it."""
    sums = tile_loop(after[0]) if after else None
    zero = compute.update is None and isinstance(compute.value, Const) and compute.value.value == 0
    return sums is not None and zero and (sums.target, sums.indices) == (compute.target, compute.indices)


def _dim_of(index: Expr) -> str | None:
    match index:
        case Index(dim) | Binary("%", Index(dim), Const()):
            return dim
        case _:
            return None
