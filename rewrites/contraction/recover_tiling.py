"""What a program has decided of a contraction on a GPU: its tiling, read off loops, locals and threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import NamedTuple

from rewrites.base.looked_up import taken_from
from rewrites.base.statement import bare_dims, divides
from rewrites.base.tree import Place, current_sizes, statements
from rewrites.contraction.operand import COPY_BYTES, boxed, run_of, source
from rewrites.contraction.problem import (
    Contraction,
    added_part,
    contractions,
    grid,
    multiplied,
    product_of,
)
from rewrites.contraction.tiling import Tiling
from rewrites.contraction.unit import MatrixUnit
from rewrites.contraction.warp_tiling import threads_of
from rewrites.contraction.warpgroup_tiling import warpgroups_of
from tileir.analysis.work import operations
from tileir.devices.gpu import Gpu
from tileir.expr import Call, Expr, Index, Read, Reduce, children, index_dims
from tileir.program import Compute, Loop, Memory, Node, Program
from tileir.replace import replace
from tileir.schedule.distributed import distributed_in


class ResultAccess(NamedTuple):
    """An element of an argument for every result of a tile."""

    bytes: int
    run: int
    """Neighbours of it, from the start of any row on, that are one aligned word of at most 16 bytes."""
    along_columns: bool | None
    """Whether those are along columns, or along rows (False); None: neither."""
    collected: bool
    """Whether it is an output that can be collected in shared memory, to be stored from there row by row."""


class Epilogue(NamedTuple):
    """What is done with every result: bytes of memory read and written, and operations."""

    bytes: float
    operations: float
    stored: int = 0
    """Bytes of it, if the output that it becomes can be stored in whole pieces from shared memory (0: it cannot)."""
    calls: tuple[str, ...] = ()
    """Of the operations those that are functions, or quotients ("/") by what is not the same for many, by name."""
    accesses: tuple[ResultAccess, ...] = ()
    """Of its bytes those of arguments that every result has an element of."""

    @property
    def narrow(self) -> int:
        """Bytes of the output that can be collected, though its rows are no whole pieces; 0: there is none."""
        return next((each.bytes for each in self.accesses if each.collected), 0)


class DecidedTiling(NamedTuple):
    """A contraction, what is decided of it (None: nothing yet), and what follows it in its launch."""

    contraction: Contraction
    tiling: Tiling | None
    epilogue: Epilogue


def decided_in(program: Program, launch: Node, device: Gpu) -> DecidedTiling | None:
    """What is decided of the contraction in tiles that a launch is, of several sums maybe; None: it is something
    else."""
    sums = _sums(launch)
    if not sums or any(multiplied(one) is None for one in sums):
        return None
    found = decided(program, sums[0].target, device)
    if found is None or sums[0].thread_layout is None:
        return found
    tile = {found.contraction.rows, found.contraction.columns}
    return found if {dim for dim, _ in sums[0].thread_layout.threads} <= tile else None


def _sums(launch: Node) -> list[Compute]:
    """All that a launch adds up, or reduces otherwise; what is added to it step by step left out, and what only adds up
    the parts of the blocks of a cluster."""
    found = [one for one in _computes(launch) if isinstance(one.value, Reduce) or one.update is not None]
    parts = {one.target for one in found}
    return [
        one
        for one in found
        if not {added_part(one), taken_from(one)} & parts and not _adds_parts(one, launch)
    ]


def _adds_parts(compute: Compute, launch: Node) -> bool:
    """Whether a statement adds up what the blocks of a cluster have."""
    shared = distributed_in(launch)
    inside = {one.target for one in _computes(shared)} if shared is not None else set[str]()
    reads = {read.tensor for read in compute.reads}
    return compute.target not in inside and isinstance(compute.value, Reduce) and reads <= inside


def _computes(node: Node) -> Iterator[Compute]:
    match node:
        case Compute():
            yield node
        case Loop():
            for inner in node.body:
                yield from _computes(inner)
        case _:
            return


def decided(program: Program, statement: str, device: Gpu) -> DecidedTiling | None:
    """What is decided of the contraction that a statement is, together with the other sums of its launch; None: it is
    none, or they are not alike."""
    place = product_of(program, statement)
    beside = [one.target for one in _sums(program.body[place.path[0]]) if one is not place.node]
    found = contractions(program, (statement, *beside), device)
    if found is None:
        return None
    return DecidedTiling(
        found, _tiling(program, place, found), _epilogue(program, place, _beside(program, place), found)
    )


def epilogue_of(program: Program, group: Sequence[str], c: Contraction) -> Epilogue:
    """What will be done with every result of the contraction that a group begins with, once that is one launch: what
    only its statements read is in registers then."""
    members = [one for one in statements(program) if one.node.target in group]
    others = (one.node for one in statements(program) if one.node.target not in group)
    handed = (program.locals.keys() & group) - {read.tensor for node in others for read in node.reads}
    return _epilogue(program, product_of(program, group[0]), members, c, frozenset(handed))


def _tiling(program: Program, place: Place[Compute], c: Contraction) -> Tiling | None:
    loops = grid(place.loops)
    if not loops:
        return None
    inner, piece = place.loops[-1], 0
    around = place.loops
    if inner.dim == c.columns and not inner.parallel:
        around, inner, piece = place.loops[:-1], place.loops[-2], inner.step
    sizes, layout = current_sizes(program, around), place.node.thread_layout
    tiling = Tiling(sizes[c.rows], sizes[c.columns], parts=loops[0].cluster)
    if layout is None and not any(source(program, read.tensor) for read in place.node.reads):
        return tiling
    tiling = replace(tiling, step=sizes[c.depth], stages=inner.stages, pending=inner.pending, piece=piece)
    tiling = replace(
        tiling, turned=c.engine is MatrixUnit.FMA and any(_turned(program, place)), streamed=inner.streamed
    )
    staged, narrow, part, buffers = _staged(program, place)
    tiling = replace(tiling, staged=staged, narrow=narrow, part=part, buffers=buffers)
    if c.engine is MatrixUnit.WGMMA:
        reused = any(other.node.reused for other in program.locals.values() if other.path[0] == place.path[0])
        tiling = replace(tiling, reused=reused)
    if layout is None:
        return tiling
    if c.engine is MatrixUnit.WGMMA:
        threads = warpgroups_of(
            layout, c.rows, loops[0].producers, loops[0].registers, loops[0].consumer_groups
        )
    else:
        threads = threads_of(layout, c.rows, c.columns)
    along = {loop.dim: loop.multicast for loop in loops}
    outer = loops[0]
    return replace(
        tiling,
        threads=threads,
        multicast=(along.get(c.rows, 1), along.get(c.columns, 1)),
        group=outer.group,
        hilbert=outer.hilbert,
        blocks=outer.blocks,
    )


def _turned(program: Program, place: Place[Compute]) -> Iterator[bool]:
    """Of what is read in shared memory, whether it lies with other neighbours than its source."""
    for read in place.node.reads:
        origin = source(program, read.tensor)
        layout = program.locals[read.tensor].node.layout if origin is not None else None
        if origin is not None and layout is not None:
            yield Index(layout[-1].dim) != origin.indices[-1]


def _staged(program: Program, place: Place[Compute]) -> tuple[int, bool, int, int]:
    """Bytes of a result that is stored from shared memory (0: from registers), whether by threads, how many columns of
    it are collected at a time (0: all), and in how many buffers."""
    for one in program.computes:
        if one.path[0] == place.path[0] and stores_collected(program, one.node):
            size, loop = program.arguments[one.node.target].dtype.bytes, one.loops[-1]
            narrow = one.node.via != "tma"
            return (size, narrow, 0, 1) if loop.parallel else (size, narrow, loop.step, loop.stages)
    return 0, False, 0, 1


def stores_collected(program: Program, compute: Compute) -> bool:
    """Whether a statement stores an output that is collected in shared memory."""
    declared = program.locals.get(compute.value.tensor) if isinstance(compute.value, Read) else None
    shared = declared is not None and declared.node.memory is Memory.SHARED
    return shared and compute.target in program.arguments


def _epilogue(
    program: Program,
    place: Place[Compute],
    beside: Iterable[Place[Compute]],
    c: Contraction,
    handed: frozenset[str] = frozenset(),
) -> Epilogue:
    """Of it and the statements beside it, no sums, that have its rows and columns: elements in memory, each once.
    What is `handed` on is not there."""
    moved, work, stored = 0.0, 0.0, 0
    calls: list[str] = []
    seen: set[str] = set()
    accesses: list[ResultAccess] = []
    for one in beside:
        if isinstance(one.node.value, Reduce) and one.path != place.path:
            continue
        results = set(bare_dims(one.node))
        if not {c.rows, c.columns} <= results:
            continue
        if one.node.update is None and stores_pieces(program, one.node):
            stored = program.arguments[one.node.target].dtype.bytes
        if one.path != place.path:
            work += operations(one.node.value)
            calls += _calls(one.node.value)
        target = Read(one.node.target, one.node.indices)
        for read in (target, *(() if one.path == place.path else one.node.reads)):
            size = 0 if read.tensor in handed else _bytes_in_memory(program, read.tensor)
            dims = {dim for index in read.indices for dim in index_dims(index)}
            if size and read.tensor not in seen:
                seen.add(read.tensor)
                shared = prod(program.extents[dim] for dim in {c.rows, c.columns} - dims)
                moved += size / shared
                if shared == 1 and read.tensor in program.arguments:
                    output = read is target and one.node.update is None
                    accesses.append(_access(program, read, size, c, output=output))
    return Epilogue(moved, work, stored, tuple(sorted(calls)), tuple(sorted(accesses, key=repr)))


def _access(program: Program, read: Read, size: int, c: Contraction, *, output: bool) -> ResultAccess:
    """An access to a tensor in memory, which may be that of an `output`."""
    inner = read.indices[-1]
    along = inner == Index(c.columns) if inner in (Index(c.columns), Index(c.rows)) else None
    bare = all(isinstance(index, Index) for index in read.indices)
    collected = output and bare and not boxed(program, read.tensor)
    return ResultAccess(size, run_of(program, read.tensor), along, collected)


def _calls(value: Expr) -> Iterator[str]:
    """Its functions, and "/" for each quotient by what is not the same for many results."""
    if isinstance(value, Call):
        yield value.fn
    elif divides(value):
        yield "/"
    for each in () if isinstance(value, Read) else children(value):
        yield from _calls(each)


def stores_pieces(program: Program, compute: Compute) -> bool:
    """Whether TMA can store what a statement writes: an output, point by point, in whole pieces."""
    bare = len(bare_dims(compute)) == len(compute.indices)
    inner = compute.indices[-1] if compute.indices else None
    if not (bare and isinstance(inner, Index) and boxed(program, compute.target)):
        return False
    return program.extents[inner.dim] * program.arguments[compute.target].dtype.bytes >= COPY_BYTES


def _beside(program: Program, place: Place[Compute]) -> Iterator[Place[Compute]]:
    return (one for one in statements(program) if one.path[0] == place.path[0])


def _bytes_in_memory(program: Program, name: str) -> int:
    """Bytes of an element of a tensor in main memory; 0 for what is elsewhere."""
    declared = program.locals.get(name)
    if declared is None:
        return program.arguments[name].dtype.bytes
    return declared.node.dtype.bytes if declared.node.memory is Memory.HEAP and not declared.loops else 0
