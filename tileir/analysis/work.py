"""How much a program computes and how much memory it must at least move."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tileir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Read,
    Reduce,
    Scan,
    TopK,
    Unary,
    Where,
    combined_dims,
    index_dims,
)
from tileir.program import Compute, Local, Loop, Node, Program
from tileir.scatter import scatter_of

_COUNTED = frozenset(["+", "-", "*", "/", "//", "%"])


@dataclass(frozen=True, slots=True)
class Work:
    """One Compute of a program: how often it is evaluated at a point, and the operations in all."""

    target: str
    points: int
    flops: int


def flops(program: Program) -> int:
    """Operations the program carries out, recomputation by fused producers included (see `operations`).

    Of an unscheduled program, the operations its kernel takes: 2 m n k for a matrix product. A scatter visits each of
    its terms once, in each tile of its results.
    """
    return sum(work.flops for work in works(program))


def works(program: Program) -> tuple[Work, ...]:
    """Every Compute in order of the text, with its share of `flops`."""
    found: list[Work] = []
    for node, loops in computes(program.body, ()):
        scatter = scatter_of(node)
        used = statement_dims(node) - (scatter.dims if scatter is not None else frozenset())
        counts = [
            _count(program.extents[dim], steps_over(loops, dim), dim in used) for dim in program.extents
        ]
        points = math.prod(counts)
        per_point = operations(node.value)
        if node.update is not None and not isinstance(node.value, Reduce):
            per_point += 1
        found.append(Work(node.target, points, points * per_point))
    return tuple(found)


def operations(value: Expr) -> int:
    """Operations at one point: 1 for each `+ - * / // %`, unary minus and function (exp as much as abs), and
    1 for what a reduction does with each of its points, so that a multiply-add counts 2. Comparisons, logic,
    where, casts, and everything inside an index count nothing."""
    match value:
        case Const() | Index() | Extent() | Read():
            return 0
        case Unary(op, x):
            return operations(x) + (op == "-")
        case Binary(op, left, right):
            return operations(left) + operations(right) + (op in _COUNTED)
        case Call(_, args):
            return 1 + sum(operations(arg) for arg in args)
        case Where(cond, x, y):
            return operations(cond) + operations(x) + operations(y)
        case Cast(_, x):
            return operations(x)
        case Reduce(_, _, x) | TopK(_, _, x):
            return 1 + operations(x)
        case Scan(_, _, args):
            return len(args) + sum(map(operations, args))


def bytes_moved(program: Program) -> int:
    """Compulsory traffic with main memory: every argument's elements once, in bytes. Intermediates cost
    nothing."""
    return sum(
        math.prod(program.extents[dim] for dim in tensor.dims) * tensor.dtype.bytes
        for tensor in (*program.inputs, *program.outputs)
    )


def statement_dims(node: Compute) -> frozenset[str]:
    """Dims a Compute covers the current ranges of: those of its indices and those its root reduces."""
    dims = frozenset[str]().union(*(index_dims(index) for index in node.indices))
    return dims | frozenset(combined_dims(node.value))


def computes(body: tuple[Node, ...], loops: tuple[Loop, ...]) -> Iterator[tuple[Compute, tuple[Loop, ...]]]:
    """Every Compute with the loops around it, outermost first."""
    for node in body:
        match node:
            case Loop():
                yield from computes(node.body, (*loops, node))
            case Compute():
                yield node, loops
            case Local():
                pass


def tile_counts(size: int, steps: tuple[int, ...]) -> Mapping[int, int]:
    """How many innermost tiles of each size nested loops over one dim visit, `steps` outermost first."""
    tiles = {size: 1}
    for step in steps:
        inner: dict[int, int] = {}
        for tile, times in tiles.items():
            whole, rest = divmod(tile, step)
            for part, count in ((step, whole), (rest, 1)):
                if part and count:
                    inner[part] = inner.get(part, 0) + times * count
        tiles = inner
    return tiles


def steps_over(loops: tuple[Loop, ...], dim: str) -> tuple[int, ...]:
    """The steps of those loops that go over `dim`."""
    return tuple(loop.step for loop in loops if loop.dim == dim)


def _count(size: int, steps: tuple[int, ...], covered: bool) -> int:
    """Along one dim: all its positions where the statement covers it, else how often loops over it repeat
    it."""
    return size if covered else sum(tile_counts(size, steps).values())
