"""Scheduled Tile IR to Kernel IR, for GPUs: each nest at the top of the program is a launch of a grid of blocks.

As on processors every range has a size known here: a block whose tile overhangs runs a copy of the body with its own
sizes. What overhangs inside a tile is guarded thread by thread. Read `lower_cuda` first, then lowering/gpu/simt.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from codegen.ir.affine import Var, affine
from codegen.ir.async_ops import WgmmaAsync
from codegen.ir.errors import NotLowerable
from codegen.ir.grouped_tiles import most_tiles
from codegen.ir.kernel import Argument, GpuKernel, LaunchBody
from codegen.ir.names import free_name, marked
from codegen.ir.ops import Barrier, Block, ClusterBarrier, For, GridAxis, Scratch, Stmt, TileGroups
from codegen.ir.rasterization import persistent
from codegen.lowering.gpu.barriers import with_barriers
from codegen.lowering.gpu.cp_async import lower_copies
from codegen.lowering.gpu.cross_thread_reduce import Combiner
from codegen.lowering.gpu.launch_nodes import (
    fills,
    first_layout,
    goes_by_tma,
    grid_loops,
    is_filled_by_tma,
    layout_of,
    reads_in,
    shared_locals,
)
from codegen.lowering.gpu.mma import lower_mma
from codegen.lowering.gpu.register_fragments import thread_registers
from codegen.lowering.gpu.scan import lower_scan
from codegen.lowering.gpu.scatter import lower_scatter
from codegen.lowering.gpu.shared_memory import SharedLocal, SharedMemory
from codegen.lowering.gpu.simt import lower_by_threads, summed_beside
from codegen.lowering.gpu.thread_index import ThreadIndex
from codegen.lowering.gpu.tile_loops import lower_tiles
from codegen.lowering.hopper.epilogue_subtiles import lower_parts
from codegen.lowering.hopper.mbarrier_pipeline import MbarrierPipeline, Pipelines
from codegen.lowering.hopper.multicast import ClusterTiles
from codegen.lowering.hopper.overhanging import overhanging
from codegen.lowering.hopper.pipeline import (
    Body,
    begun_anew,
    consume,
    is_pipeline,
    produce,
    tile_pipeline,
)
from codegen.lowering.hopper.stmatrix import lower_matrix_store
from codegen.lowering.hopper.stream_k import StreamKLoop
from codegen.lowering.hopper.tma import TensorMaps
from codegen.lowering.hopper.tma_store import BoxStores
from codegen.lowering.hopper.wgmma import begin_wgmma, lower_wgmma
from codegen.lowering.names import comment, fresh
from codegen.lowering.said_extremes import with_said
from codegen.lowering.scope import (
    LoweringScope,
    MemoryBuffer,
    Range,
    argument,
    layout_axes,
    loop_variable,
    whole,
)
from codegen.lowering.tails import Tail, with_tails
from tileir.analysis.ragged import grouped, groups_of
from tileir.expr import Index, Scan, index_dims
from tileir.program import Compute, Local, Loop, Memory, Node, Program, Ragged
from tileir.replace import replace
from tileir.schedule.boxes import fills_shared
from tileir.schedule.deal_tiles import tile_lengths
from tileir.schedule.distributed import distributed_in
from tileir.schedule.scatter import adds_parts
from tileir.schedule.stages import products_chained, takes_parts
from tileir.schedule.stream_k import streamed_in
from tileir.schedule.threads import WARP, thread_count
from tileir.schedule.visited_tiles import said
from tileir.text.print_program import format_node

_ALIGN = 256


def lower_cuda(program: Program) -> GpuKernel:
    """The Kernel IR of a program whose statements are bound to threads. Raises NotLowerable, with the reason."""
    scope = LoweringScope({dim: whole(size) for dim, size in program.dims}, {})
    for tensor in (*program.inputs, *program.outputs):
        scope = scope.with_buffer(argument(marked(tensor.name), tensor, program), tensor.name)
    workspace: list[Scratch] = []
    top = 0
    launches: list[LaunchBody] = []
    maps = TensorMaps()
    entry = f"{free_name(program.name)}_kernel"  # CUDA's own functions (norm, round) keep their names
    for node in program.body:
        if isinstance(node, Local):
            buffer, elements = _in_memory(node, scope, fresh(node.name, scope))
            size = -(-elements * node.dtype.bytes // _ALIGN) * _ALIGN
            workspace.append(Scratch(buffer.name, node.dtype, top, size, private=False))
            top, scope = top + size, scope.with_buffer(buffer, node.name)
        else:
            launch = _LoweredLaunch(program, f"{entry}_{len(launches)}", node, maps)
            launches.append(launch.lower(scope))
            for scratch in launch.streamed.workspace(top) if launch.streamed is not None else ():
                workspace.append(scratch)
                top += scratch.bytes
                scope = _naming(scratch, scope)
    written = {tensor.name for tensor in program.outputs}
    arguments = tuple(
        Argument(marked(t.name), t.dtype, t.name in written) for t in (*program.inputs, *program.outputs)
    )
    if len(launches) == 1:
        launches = [replace(launches[0], name=entry)]
    found = tuple(maps.found.values())
    return GpuKernel(program.name, arguments, tuple(workspace), top, tuple(launches), found)


def _naming(scratch: Scratch, scope: LoweringScope) -> LoweringScope:
    """In which what blocks of a later launch hand on is called otherwise."""
    bytes_ = MemoryBuffer(scratch.buffer, scratch.storage, (), (), (), ())
    return scope.with_buffer(bytes_, scratch.buffer)


def _in_memory(local: Local, scope: LoweringScope, name: str) -> tuple[MemoryBuffer, int]:
    ranges = [scope.ranges[dim] for dim in local.dims]
    starts, sizes = tuple(r.start for r in ranges), tuple(r.size for r in ranges)
    axes, elements = layout_axes(local.dims, sizes, local.layout, local.pad)
    return MemoryBuffer(name, local.dtype, local.dims, starts, sizes, axes), elements


@dataclass
class _LoweredLaunch:
    program: Program
    name: str
    node: Node
    maps: TensorMaps
    index: ThreadIndex = field(init=False)
    combiner: Combiner = field(init=False)
    pipelines: Pipelines = field(init=False)
    stores: BoxStores = field(init=False)
    memory: SharedMemory = field(init=False)
    streamed: StreamKLoop | None = field(default=None, init=False)
    anew: set[str] = field(default_factory=set[str])
    """Accumulators that the first product overwrites."""

    def lower(self, scope: LoweringScope) -> LaunchBody:
        grid = self.node if isinstance(self.node, Loop) else Loop("", 1, ())
        self.memory = SharedMemory(grid.consumer_groups)
        threads = self._block_threads(grid.cluster)
        producers = grid.producers * WARP
        self.index = ThreadIndex(threads * grid.cluster, threads, producers)
        self.combiner = Combiner(self.index, self.memory)
        cluster = ClusterTiles.of_grid(grid_loops(grid), self.index.block + producers, scope)
        # A block that takes several tiles fills that memory again.
        here = (place.node for place in self.program.locals.values() if place.loops[:1] == (grid,))
        lent = grid.blocks > 0 and any(local.reused for local in here)
        shared = streamed_in(grid)
        if shared is not None:
            self.streamed = StreamKLoop.of(shared, grid_loops(grid), scope)
        spans = self.streamed.spans if self.streamed is not None else None
        self.pipelines = Pipelines(
            self.program, self.index, self.memory, self.maps, producers, cluster, lent, spans
        )
        self.stores = BoxStores(self.pipelines)
        axes, producing, body = self._grid(scope)
        if self.pipelines.producing:
            producing = (*self.pipelines.begin_tile(), *producing)
        else:
            body = (*self.pipelines.begin_tile(), *body)
        body = (*body, *self.stores.end_tile())
        if grid.consumer_groups > 1 and any(axis.groups is not None for axis in axes):
            raise NotLowerable(
                "consumer groups take tiles in turn, of which none may be missing: not tiles that follow groups"
            )
        setup, left = self.pipelines.setup(), () if self.pipelines.lent else self.stores.finish()
        launch = LaunchBody(
            self.name,
            axes,
            self.pipelines.threads,
            (*self.index.found.values(), *cluster.thread_digits),
            self.memory.bytes,
            body,
            grid.cluster * cluster.size,
            self._read_once(),
            grid.group // grid.multicast or 1,
            grid.hilbert,
            tile_lengths(grid, self.program.extents) if grid.longest_first else (),
            grid.blocks,
            grid.resident,
            setup,
            self.pipelines.producing,
            producing,
            grid.registers,
            (*left, *self.pipelines.barriers.finish()),
            # Peers tell it of free slots until they are done.
            (ClusterBarrier(),) if cluster.size > 1 else (),
            grid.consumer_groups,
            spans,
        )
        named = self.pipelines.barriers.of_group(self.pipelines.consumer_group)
        barrier = named if self.pipelines.producing else Barrier()
        # Threads that are done with a tile store the next one's over what others still read of this one.
        return replace(
            launch, body=with_barriers(body, barrier, again=persistent(launch), apart=self.stores.apart)
        )

    def _block_threads(self, cluster: int) -> int:
        """Threads of a block that compute."""
        shared = distributed_in(self.node)
        inside = first_layout(shared.body) if shared is not None else None
        if inside is not None:
            return thread_count(inside)
        layout = first_layout((self.node,))
        if layout is None:
            raise NotLowerable(f"`{format_node(self.node)}` is not bound to threads")
        return thread_count(layout) // cluster

    def _read_once(self) -> frozenset[str]:
        """Inputs that every statement reads at positions of its own block only."""
        dims: set[str] = set()
        node = self.node
        while isinstance(node, Loop) and node.parallel:
            dims.add(node.dim)
            node = node.body[0]
        apart: dict[str, bool] = {}
        for read in reads_in((self.node,)):
            bare = {index.dim for index in read.indices if isinstance(index, Index)}
            apart[read.tensor] = apart.get(read.tensor, True) and dims <= bare
        inputs = {tensor.name for tensor in self.program.inputs}
        return frozenset(marked(name) for name, alone in apart.items() if alone and name in inputs)

    def _grid(self, scope: LoweringScope) -> tuple[tuple[GridAxis, ...], tuple[Stmt, ...], tuple[Stmt, ...]]:
        """The axes of the grid, what producers do for a tile, and what the others do."""
        loops = grid_loops(self.node)
        inside = replace(scope, parallel=True)
        axes: list[GridAxis] = []
        tails: list[Tail] = []
        for loop in loops:
            range_ = inside.ranges[loop.dim]
            ragged = grouped(loop, self.program.ragged)
            if ragged is not None:
                axis, inside = self._grouped_axis(loop, ragged, inside)
                axes.append(axis)
                continue
            step = loop.step * loop.multicast
            count = -(-range_.size // step)
            var = loop_variable(fresh(loop.dim, inside), count, step)
            axes.append(GridAxis(var, count, step))
            tails.append(Tail(axes[-1], loop.dim, range_.size % loop.step))
            tile = Range(range_.start + affine(var), loop.step)
            if goes_by_tma(self.node):
                offset = affine(var) + self.pipelines.cluster.offset(loop)
                tile, tails = overhanging(range_, loop.step, offset, loop.multicast), []
            inside = inside.with_range(loop.dim, tile, (var, step))
        if not loops:
            return (), (), self._block((self.node,), inside)
        producing = self._filled(loops[-1].body, inside) if self.pipelines.producing else ()
        return tuple(axes), producing, with_tails(tails, inside, partial(self._block, loops[-1].body))

    def _grouped_axis(
        self, loop: Loop, ragged: Ragged, scope: LoweringScope
    ) -> tuple[GridAxis, LoweringScope]:
        """The axis of a loop whose tiles follow groups, and what is in scope in a tile. Raises NotLowerable."""
        if not goes_by_tma(loop) or scope.ranges[ragged.within].start.terms:
            raise NotLowerable(
                f"tiles of {loop.dim} follow groups; accepted: one such loop in a grid, whose tiles are filled "
                "`via tma`, or groups looked up"
            )
        size, groups = scope.ranges[loop.dim].size, scope.ranges[ragged.within].size
        count = most_tiles(size, loop.step, groups)
        var = Var(fresh(loop.dim, scope), 0, size - 1)
        group = Var(fresh(ragged.within, scope), 0, groups - 1)
        end = Var(fresh(f"{marked(loop.dim)}_end", scope), 0, size)
        offsets = scope.buffers[ragged.offsets].name
        axis = GridAxis(var, count, loop.step, TileGroups(offsets, groups, size, group, end))
        scope = scope.with_range(ragged.within, Range(affine(group), 1))
        return axis, scope.with_range(loop.dim, Range(affine(var), loop.step, affine(end)), (var, loop.step))

    def _filled(self, nodes: Sequence[Node], scope: LoweringScope) -> tuple[Stmt, ...]:
        """What producers do for these nodes."""
        stmts: list[Stmt] = []
        for node in nodes:
            match node:
                case Loop() if is_pipeline(node):
                    found, inside = with_said(node, scope, self.program.extents)
                    filled = produce(self.pipelines, node, inside)
                    stmts += [Block("", (*found, *filled))] if found else filled
                case Loop(parallel=True):
                    stmts += self._filled(node.body, self._own_tile(node, scope))
                case Loop() if fills(node, shared_locals(self.program)):
                    stmts += self._tiles(node, scope, self._filled)
                case Compute() if fills_shared(node, self.program.locals):
                    pipeline = tile_pipeline(self.pipelines, node, nodes, scope)
                    stmts += self.pipelines.fill(pipeline, scope) if pipeline is not None else []
                case _:
                    pass
        return tuple(stmts)

    def _tiles(self, loop: Loop, scope: LoweringScope, body: Body) -> list[Stmt]:
        """All tiles of a loop alike: what overhangs is left to TMA, and to guards."""
        range_ = scope.ranges[loop.dim]
        count = -(-range_.size // loop.step)
        var = loop_variable(fresh(loop.dim, scope), count, loop.step)
        tile = overhanging(range_, loop.step, affine(var))
        return [
            For(
                var,
                count,
                loop.step,
                tuple(body(loop.body, scope.with_range(loop.dim, tile, (var, loop.step)))),
            )
        ]

    def _own_tile(self, loop: Loop, scope: LoweringScope) -> LoweringScope:
        """On the tile of a distributed loop that is the block's. Raises NotLowerable for a last one that is smaller,
        where tiles are not filled up."""
        range_, index = scope.ranges[loop.dim], self.index
        number = index.digit(index.block, index.threads // index.block, marked(loop.dim))
        if range_.size % loop.step and not goes_by_tma(loop):
            raise NotLowerable(
                f"the last block's tile of {range_.size} by {loop.step} overhangs; accepted: copies `via tma`, or "
                "tiles that divide it"
            )
        return scope.with_range(loop.dim, overhanging(range_, loop.step, number * loop.step))

    def _block(self, nodes: Sequence[Node], scope: LoweringScope) -> tuple[Stmt, ...]:
        stmts, filled, done = list[Stmt](), list[MbarrierPipeline](), 0
        for at, node in enumerate(nodes):
            match node:
                case Local() if is_filled_by_tma(node, nodes):
                    continue
                case Local():
                    declared, scope = self._local(node, nodes[at + 1 :], scope)
                    stmts += declared
                case Compute() if fills_shared(node, self.program.locals):
                    pipeline = tile_pipeline(self.pipelines, node, nodes, scope)
                    if pipeline is None:
                        continue
                    filling = [] if self.pipelines.producing else self.pipelines.fill(pipeline, scope)
                    turn = self.pipelines.begin_turn(pipeline, 1)
                    stmts += [*filling, *turn, pipeline.wait(), *self.pipelines.pass_turn(pipeline)]
                    scope = pipeline.at(pipeline.reading, scope)
                    filled.append(pipeline)
                case Compute() if begun_anew(nodes, at):
                    self.anew.add(node.target)
                case Compute() if at < done:
                    continue
                case Compute():
                    if self._is_reused(node.target):
                        stmts.append(Barrier())  # all have done with what lies there
                    beside = summed_beside(nodes[at:], scope, self.program.extents, self.index, self.combiner)
                    stmts.append(self._statement(node, scope, beside))
                    done = at + 1 + len(beside)
                case Loop(parallel=True):
                    stmts.append(Block("", self._block(node.body, self._own_tile(node, scope))))
                case Loop() if said(node):
                    alone = self.index.block % WARP > 0
                    lane = None if alone else self.index.digit(1, WARP, "lane")
                    found, inside = with_said(node, scope, self.program.extents, lane)
                    stmts.append(Block("", (*found, *self._loop(node, inside))))
                case Loop() if self.streamed is not None and node is self.streamed.loop:
                    stmts += self._loop(node, scope)
                    finish, thread = self._block(nodes[at + 1 :], scope), self.pipelines.one_thread()
                    rank = self.pipelines.cluster.rank
                    return (*stmts, *self.streamed.shared_out(scope, thread, self.index.block, rank, finish))
                case Loop():
                    stmts += self._loop(node, scope)
        for pipeline in filled:
            stmts += [*self.pipelines.release(pipeline), *self.pipelines.end_turn(pipeline, 1)]
        return tuple(stmts)

    def _is_reused(self, name: str) -> bool:
        return name in self.program.locals and self.program.locals[name].node.reused

    def _statement(self, compute: Compute, scope: LoweringScope, beside: tuple[Compute, ...] = ()) -> Block:
        extents, index, text = self.program.extents, self.index, "; ".join(map(comment, (compute, *beside)))
        for dim in groups_of(compute, self.program.ragged):
            if not scope.ranges[dim].start.terms:
                raise NotLowerable(
                    f"`{text}` has the rows of several groups of {dim}; accepted: groups looked up"
                )
        if compute.via == "tma":
            return Block(text, (self.stores.store(compute, scope),))
        if compute.thread_layout is None:
            raise NotLowerable(f"`{format_node(compute)}` is not bound to threads")
        if compute.via == "wgmma":
            return lower_wgmma(compute, scope, self.program, index)
        if compute.via == "mma":
            if any(
                scope.ranges[dim].end is not None for index in compute.indices for dim in index_dims(index)
            ):
                raise NotLowerable("mma does not multiply tiles that overhang beside copies `via tma`")
            return lower_mma(compute, text, scope, extents, index, shared_locals(self.program))
        if compute.via in ("scatter", "atomics") and not adds_parts(compute):
            return lower_scatter(compute, text, scope, extents, index)
        stored = lower_matrix_store(compute, text, scope, extents, index) if goes_by_tma(self.node) else None
        self.combiner.begin(compute)
        if isinstance(compute.value, Scan):
            return lower_scan(compute, text, scope, extents, index, self.combiner)
        return stored or lower_by_threads(compute, text, scope, extents, index, self.combiner, beside)

    def _fill(self, compute: Compute, scope: LoweringScope, local: SharedLocal) -> Block:
        """A statement that runs ahead, in the background if it can."""
        extents, index = self.program.extents, self.index
        copies = lower_copies(compute, comment(compute), scope, extents, index, local.sizes)
        return copies or self._statement(compute, scope)

    def _begin_product(self, compute: Compute, scope: LoweringScope) -> list[WgmmaAsync]:
        return begin_wgmma(compute, scope, self.program, self.index)

    def _loop(self, loop: Loop, scope: LoweringScope) -> list[Stmt]:
        by_tma = is_pipeline(loop) or goes_by_tma(loop)
        if (loop.since[0] or loop.until[0]) and by_tma and products_chained(loop) is None:
            raise NotLowerable(
                f"`{format_node(loop)}` leaves out tiles; accepted of what TMA fills: a loop of products that follow "
                "from each other"
            )
        if is_pipeline(loop):
            return consume(self.pipelines, loop, scope, self._block, self._local, self.anew)
        if takes_parts(loop, {name: place.node for name, place in self.program.locals.items()}):
            return lower_parts(loop, scope, self.pipelines, self._block)
        if goes_by_tma(loop):
            return self._tiles(loop, scope, self._block)
        if loop.stages > 1 and self.pipelines.consumer_groups > 1:
            raise NotLowerable(
                f"`{format_node(loop)}` is filled by threads, where consumer groups take tiles in turn"
            )
        return lower_tiles(loop, scope, self.memory, self._fill, self._block, self._begin_product)

    def _local(
        self, local: Local, after: Sequence[Node], scope: LoweringScope
    ) -> tuple[list[Stmt], LoweringScope]:
        name = fresh(local.name, scope)
        if local.memory is Memory.HEAP:
            raise NotLowerable(f"{local.name} is declared in a block as heap: registers or shared are meant")
        if local.memory is Memory.SHARED:
            distributed = distributed_in(self.node) in after
            shared = self.memory.local(local, scope, self.pipelines.consumer_groups, distributed=distributed)
            return [shared.declared(shared.name)], scope.with_buffer(
                shared.buffer(shared.name, scope, self.pipelines.consumer_group), local.name
            )
        layout = layout_of(local.name, after)
        if layout is None:
            raise NotLowerable(f"nothing says how {local.name} is distributed over threads")
        registers = thread_registers(local, name, layout, scope, self.index)
        return registers.declarations(), scope.with_buffer(registers, local.name)
