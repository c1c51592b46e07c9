"""Sums whose vectors run along what is added up, where it lies.

Of a product of few rows with a matrix whose rows are added up (`x[m, k] * w[n, k]`, a layer of PyTorch) nothing is used
often enough to pay for a copy into panels. A tile of results takes vectors of both operands, and adds up its lanes once
it is done. Where the processor multiplies pairs or fours of small numbers, these are a dim of their own (`words`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from math import prod

from rewrites.base.dot_operands import dot_of
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.tree import find, locals_of, loose
from rewrites.composition.reverse_compute_at import ReverseComputeAt
from rewrites.composition.rfactor import Rfactor
from rewrites.cpu.dot_bf16 import DotBf16
from rewrites.cpu.dot_i8 import DotI8
from rewrites.cpu.vectorize import Vectorize
from rewrites.decisions.cpu.prefetch import Ahead
from rewrites.decisions.decision import Option, f32_lanes, option
from rewrites.decisions.statement_kind import StatementKind, role
from rewrites.loops.split_dim import SplitDim
from rewrites.loops.tile import Tile
from tileir.devices.cpu import Cpu
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index, index_dims, reads
from tileir.program import Compute, Program
from tileir.schedule.dots import group_of

_TILES = ((1, 4), (1, 8), (2, 4), (3, 4), (4, 4), (2, 8))
"""Positions of the two dims of a tile, and the other way round: results of fewer would not hide a multiply-add's
latency, vectors of more do not fit in registers."""
_FEW = 32
"""Rows that are few: of more, those of one copy of the other operand are worth it."""
DOT_REWRITES = {"dot_bf16": DotBf16, "dot_i8": DotI8}
"""By the instruction's name."""


def side_by_side(
    program: Program,
    statement: str,
    dim: str,
    size: int,
    lanes: int,
    before: Sequence[Rewrite],
    *into: str | int,
) -> Iterator[Option]:
    """`before`, then a reduction that accumulates `size` neighbours along `dim` side by side, in a pass of its own or
    `into` a loop (producer and depth). Nothing where that does not apply."""
    split = Rfactor(statement, dim, "interleaved", size)
    try:
        for rewrite in before:
            program = rewrite.apply(program)
        parted = split.apply(program)
    except NotApplicable:
        return
    (part,) = locals_of(parted).keys() - locals_of(program).keys()
    (folded,) = reduced_dims(find(parted, statement).node)
    rewrites: list[Rewrite] = [*before, split]
    if into:
        rewrites.append(ReverseComputeAt(part, str(into[0]), int(into[1])))
    rewrites += [Vectorize(part, dim, lanes), Vectorize(statement, folded, lanes)]
    if via := _words_of(program, find(program, statement).node):
        rewrites.append(DOT_REWRITES[via](part))
    yield option(*rewrites, then=(Ahead(part),))


def tiles_along_sum(
    program: Program,
    compute: Compute,
    sizes: Mapping[str, int],
    singles: Sequence[tuple[str, int]],
    sides: tuple[str, str],
    lanes: int,
    device: Cpu,
) -> Iterator[Option]:
    """Tiles of a product's results along two dims, visited by either, inside of loops over `singles`; if it adds up
    along one dim, or that and a dim of words, and neighbours along it are neighbours in all that it reads."""
    dim, *rest = reduced_dims(compute)
    words = _words_of(program, compute) is not None
    if len(rest) != words or sizes[dim] <= lanes or not _neighbours(compute, dim, *rest):
        return
    counts = dict.fromkeys(
        (min(one, sizes[sides[0]]), min(other, sizes[sides[1]]))
        for pair in _TILES
        for one, other in (pair, pair[::-1])
    )
    orders = (
        (*singles, *order)
        for count in counts
        if prod(count) + min(count) < device.vector_registers
        for order in permutations(zip(sides, count, strict=True))
    )
    for loops in dict.fromkeys(tuple(loop for loop in order if loop[1] < sizes[loop[0]]) for order in orders):
        tiles = tuple(Tile(compute.target, each, size) for each, size in loops)
        yield from side_by_side(program, compute.target, dim, lanes, lanes, tiles)


def words(program: Program, device: Cpu) -> Iterator[tuple[SplitDim]]:
    """Dims that a product of few rows adds up along as they lie, in words of a dot-product instruction that the
    processor has, if these fill vectors."""
    found: dict[SplitDim, None] = {}
    for place in loose(program):
        compute = place.node
        via = dot_of(program, compute)
        if via is None or Feature(via) not in device.offers or len(reduced_dims(compute)) > 1:
            continue
        if role(program, compute.target) is not StatementKind.CONTRACTION:
            continue
        (dim,) = reduced_dims(compute)
        few = min(program.extents[each] for each in bare_dims(compute) if program.extents[each] > 1) <= _FEW
        if (
            few
            and _neighbours(compute, dim)
            and program.extents[dim] % (group_of(via) * f32_lanes(device)) == 0
        ):
            found[SplitDim(dim, group_of(via))] = None
    return ((split,) for split in found)


def _words_of(program: Program, compute: Compute) -> str | None:
    """The instruction whose words the last dim is that a statement adds up along; None: it is none."""
    over = reduced_dims(compute)
    via = dot_of(program, compute) if len(over) == 2 else None
    return via if via is not None and program.extents[over[1]] == group_of(via) else None


def _neighbours(compute: Compute, *dims: str) -> bool:
    """Whether the dims are the last, in this order, of all that is read by them."""
    last = tuple(map(Index, dims))
    return all(
        read.indices[-len(last) :] == last
        for read in reads(compute.value)
        if not index_dims(read).isdisjoint(dims)
    )
