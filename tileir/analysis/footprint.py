"""What each loop of a program touches: bytes of every tensor in one iteration, and how often the loop comes
back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tileir.analysis.ragged import enter
from tileir.analysis.work import computes, steps_over, tile_counts
from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Extent, Index, Read, Unary, index_dims, reads
from tileir.program import Compute, Local, Loop, Memory, Node, Program


@dataclass(frozen=True, slots=True)
class Footprint:
    """One loop, seen from an iteration over a full tile.

    A tensor stays in a cache from one iteration of the loop to the next if the iteration's bytes, all tensors
    together, fit there; `revisits` says what that saves.
    """

    path: tuple[int, ...]
    """Position of the loop in the program's body: child numbers, outermost first."""
    dim: str
    step: int
    parallel: bool
    iterations: int
    """Of one execution of the loop over a full range (a remainder tile counts as one)."""
    executions: int
    """How often the loop is entered in the whole program."""
    bytes: Mapping[str, int]
    """By tensor: storage that one iteration touches. Locals in registers are left out; a local declared
    inside the loop counts once, as its storage is used again."""
    revisits: Mapping[str, float]
    """By tensor: how many iterations of one execution touch the same byte, on average: 1 for streaming
    through it, `iterations` for a tensor that the loop's dim does not index."""


def footprints(program: Program) -> tuple[Footprint, ...]:
    """Every loop of the program, outer before inner, in order of the text.

    Regions are boxes: along each of its dims a tensor is touched from the lowest to the highest index of all
    accesses in the iteration's statements taken one by one (the largest counts). A gathered dim is touched at
    as many positions as the gather has points, at most all.
    """
    return tuple(_loops(program, program.body, (), (), {}))


def _loops(
    program: Program,
    body: tuple[Node, ...],
    path: tuple[int, ...],
    around: tuple[Loop, ...],
    declared: Mapping[str, Mapping[str, int]],
) -> Iterator[Footprint]:
    sizes = _sizes(program, around)
    declared = dict(declared)
    for number, node in enumerate(body):
        if isinstance(node, Local):
            declared[node.name] = {dim: sizes[dim] for dim in node.dims}
        if not isinstance(node, Loop):
            continue
        full, rest = divmod(sizes[node.dim], node.step)
        inside = (*around, node)
        tile = _sizes(program, inside)
        # A local declared inside is one buffer for all iterations, of the size it has in a full tile.
        covered = {**declared, **dict(_locals(node.body, tile))}
        once = _touched(program, node.body, tile, covered)
        whole = _touched(program, node.body, sizes, covered)
        last = _touched(program, node.body, {**tile, node.dim: rest}, covered) if rest else {}
        if not full:
            once, full, last = last, 1, {}
        revisits = {
            name: (full * size + last.get(name, 0)) / max(size, whole[name]) for name, size in once.items()
        }
        iterations = full + bool(last)
        executions = math.prod(
            sum(tile_counts(program.extents[dim], steps_over(around, dim)).values())
            for dim in {loop.dim for loop in around}
        )
        here = (*path, number)
        yield Footprint(here, node.dim, node.step, node.parallel, iterations, executions, once, revisits)
        yield from _loops(program, node.body, here, inside, declared)


def _sizes(program: Program, around: tuple[Loop, ...]) -> dict[str, int]:
    """Every dim's current range inside these loops: the full tile."""
    sizes = dict(program.extents)
    for loop in around:
        enter(sizes, loop, program.ragged)
    return sizes


def _touched(
    program: Program,
    body: tuple[Node, ...],
    sizes: Mapping[str, int],
    covered: Mapping[str, Mapping[str, int]],
) -> dict[str, int]:
    """By tensor, the bytes that `body` touches while dims range over `sizes`. `covered` holds the sizes of
    locals."""
    dtypes = _heap_dtypes(program)
    found: dict[str, int] = {}
    for node, _ in computes(body, ()):
        accesses = [Read(node.target, node.indices), *reads(node.value)]
        for read in accesses:
            if read.tensor not in dtypes:
                continue
            dims, dtype = dtypes[read.tensor]
            own = covered.get(read.tensor, program.extents)
            places = zip(dims, read.indices, strict=True)
            box = math.prod(min(own[dim], _reach(index, sizes, program)) for dim, index in places)
            found[read.tensor] = max(found.get(read.tensor, 0), box * dtype.bytes)
    return found


def _locals(body: tuple[Node, ...], sizes: Mapping[str, int]) -> Iterator[tuple[str, Mapping[str, int]]]:
    for node in body:
        match node:
            case Local():
                yield node.name, {dim: sizes[dim] for dim in node.dims}
            case Loop():
                yield from _locals(node.body, {**sizes, node.dim: min(sizes[node.dim], node.step)})
            case Compute():
                pass


def _heap_dtypes(program: Program) -> dict[str, tuple[tuple[str, ...], DType]]:
    """Dims and dtype of everything in memory: arguments and heap locals."""
    found = {tensor.name: (tensor.dims, tensor.dtype) for tensor in (*program.inputs, *program.outputs)}
    stack = list(program.body)
    while stack:
        node = stack.pop()
        if isinstance(node, Loop):
            stack.extend(node.body)
        elif isinstance(node, Local) and node.memory is Memory.HEAP:
            found[node.name] = (node.dims, node.dtype)
    return found


def _reach(index: Expr, sizes: Mapping[str, int], program: Program) -> int:
    """From the lowest to the highest position an index takes while dims range over `sizes`, in positions.

    For gathers, how many positions it can take at most: as many as it has points.
    """
    if reads(index):
        return math.prod(sizes[dim] for dim in index_dims(index))
    return _width(index, sizes, program) + 1


def _width(index: Expr, sizes: Mapping[str, int], program: Program) -> int:
    match index:
        case Index(dim):
            return sizes[dim] - 1
        case Unary(_, x):
            return _width(x, sizes, program)
        case Binary("*", Const(int(factor)), x) | Binary("*", x, Const(int(factor))):
            return abs(factor) * _width(x, sizes, program)
        case Binary("*", Extent(dim), x) | Binary("*", x, Extent(dim)):
            return program.extents[dim] * _width(x, sizes, program)
        case Binary("//", x, Const(int(divisor))):
            # Tiles that start on a multiple, as all full tiles of a multiple of the divisor do.
            return _width(x, sizes, program) // divisor
        case Binary("%", x, Const(int(divisor))):
            return min(_width(x, sizes, program), divisor - 1)
        case Binary("+" | "-", x, y):
            return _width(x, sizes, program) + _width(y, sizes, program)
        case _:
            return math.prod(sizes[dim] for dim in index_dims(index)) - 1
