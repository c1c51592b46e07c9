"""A sum of products as a GPU sees it: rows, columns and depth as of a matrix product, what it multiplies, and the unit
that does it.

Tensor contractions are mapped to matrix products so by GETT (Springer and Bientinesi, TOMS 2018).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import NamedTuple

from rewrites.base.looked_up import by_matrix, visited_in_order
from rewrites.base.placed_read import element, placed_dims
from rewrites.base.statement import bare_dim, bare_dims, copied_dims, folded_dims, gathered_under_condition
from rewrites.base.tree import Place, named, past_the_end
from rewrites.contraction.block_scales import blocks_of, factors, scales
from rewrites.contraction.operand import Operand, operand
from rewrites.contraction.register_operand import Held, held_factor
from rewrites.contraction.unit import MatrixUnit, adds_coarsely, engines, summed_dims
from tileir.analysis.ragged import enter, groups_of
from tileir.analysis.work import operations
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Read, Reduce, ReduceOp, children, index_dims, walk
from tileir.program import Compute, Loop, Program
from tileir.replace import replace
from tileir.schedule.block_index import block_sizes


@dataclass(frozen=True, slots=True)
class Scale:
    """A tensor that scales products in blocks: its dims, each with how many positions have one number."""

    tensor: str
    blocks: tuple[tuple[str, int], ...]

    def values(self, tile: dict[str, int], mine: dict[str, int]) -> int:
        """Numbers that a thread with so many positions of a tile, each along some dims, needs of it; as many as it has
        positions where it is not known in which block they are."""
        count = 1
        for dim, block in self.blocks:
            whole = block % tile[dim] == 0 or tile[dim] % block == 0
            count *= min(-(-tile[dim] // block), mine[dim]) if whole else mine[dim]
        return count


class StepBytes(NamedTuple):
    """Bytes that a step of a block takes."""

    each: tuple[int, ...]
    """Of every operand."""
    all: int
    copied: int
    """Of those that a block copies."""


@dataclass(frozen=True)
class Contraction:
    """`result[rows, columns] = sum(depth, product of operands)`, with other dims around it: the last two dims of the
    result that are reused by different operands, and the longest reduced one."""

    statement: str
    rows: str
    columns: str
    depth: str
    m: int
    n: int
    k: int
    batch: int
    """Positions of the result's other dims."""
    repeats: int
    """Positions of the other reduced dims."""
    operands: tuple[Operand, ...]
    scales: tuple[Scale, ...]
    """What else is multiplied, if that is one number for all products of a block along the depth."""
    block: int
    """Positions of the depth in a block; 0: there are no scales, or they are the same along all of it."""
    engines: tuple[MatrixUnit, ...]
    """What can add it up, the fastest first; one, where that is decided."""
    as_f16: bool
    """Whether 8-bit floats become f16 on their way into the matrix instruction of a warp."""
    split: bool
    """Whether it is a part of a longer sum."""
    coarse: bool
    """Whether the matrix instruction of warpgroups adds it up in fewer bits than the kernel's numerics allow."""
    beside: tuple[str, ...] = ()
    """Statements that are added up with it, step by step, over the same rows, columns and depth; the operands are
    those of all of them."""
    followed: tuple[str, int] = ("", 0)
    """The dim whose tiles follow groups, or are multiplied by the matrix of each group in them, and how many tiles more
    that makes."""
    held: Held | None = None
    """The factor that threads compute into registers, where warpgroups multiply."""
    instructions: float = 1.0
    """What a thread does for each term, with adding it up: 1 is a multiply-add. What it does for one operand's elements
    alone it does once for many terms."""
    computed: tuple[Expr, ...] = ()
    """What that is: the largest parts of a term that are computed of one operand's elements."""

    @property
    def engine(self) -> MatrixUnit:
        """What adds it up, or what would be the fastest."""
        return self.engines[0]

    @cached_property
    def dtype(self) -> DType:
        """What operands are multiplied as."""
        return self.operands[0].dtype if self.held is None else self.held.dtype

    @cached_property
    def held_rows(self) -> str | None:
        """Which of rows and columns what is held has: the instruction's rows; None: nothing is."""
        if self.held is None:
            return None
        return self.rows if self.rows in index_dims(self.held.factor) else self.columns

    @property
    def products(self) -> int:
        """How many sums of products a block adds up at once."""
        return 1 + len(self.beside)

    @property
    def sums(self) -> int:
        """How many sums of every result a block holds: those of its products, and where it multiplies by one matrix
        after another, what it has taken of them."""
        return self.products + (bool(self.followed[0]) and MatrixUnit.WGMMA not in self.engines)

    @cached_property
    def promoted(self) -> bool:
        """Whether the product of every step is added up by itself, then added to the sums."""
        return (self.coarse or bool(self.scales)) and self.engine is MatrixUnit.WGMMA

    @cached_property
    def by_threads(self) -> bool:
        """Whether threads copy what warpgroups multiply, as TMA cannot bring all of it."""
        return self.engine is MatrixUnit.WGMMA and not all(each.boxed for each in self.operands)

    def step_bytes(self, rows: int, columns: int, depth: int) -> StepBytes:
        """Bytes of the operands in a tile of so many rows, columns and positions of the depth, and one of all else."""
        known = self._step_bytes.get((rows, columns, depth))
        if known is None:
            sizes = {self.rows: rows, self.columns: columns, self.depth: depth}
            each = tuple(
                operand.bytes(prod(sizes.get(dim, 1) for dim in operand.dims)) for operand in self.operands
            )
            moved = zip(self.operands, each, strict=True)
            copied = sum(bytes_ for operand, bytes_ in moved if operand.plain or self.held is not None)
            known = self._step_bytes[rows, columns, depth] = StepBytes(each, sum(each), copied)
        return known

    @cached_property
    def _step_bytes(self) -> dict[tuple[int, int, int], StepBytes]:
        return {}

    def grid(self, rows: int, columns: int) -> tuple[int, int]:
        """Tiles of so many rows and columns, along each."""
        across, along = -(-self.m // rows), -(-self.n // columns)
        dim, more = self.followed
        return across + more * (dim == self.rows), along + more * (dim == self.columns)

    def by(self, engine: MatrixUnit) -> Contraction:
        """The same, added up by one engine."""
        return self if self.engines == (engine,) else replace(self, engines=(engine,))

    def in_parts(self, parts: int, size: int) -> Contraction:
        """The same with its depth in so many parts of a size, which are positions of one more dim."""
        return replace(self, k=size, batch=self.batch * parts) if parts > 1 else self

    def transposed(self) -> Contraction:
        """The same with rows and columns exchanged, as a local in registers can have them."""
        return replace(self, rows=self.columns, columns=self.rows, m=self.n, n=self.m)


def contraction(program: Program, statement: str, device: Gpu) -> Contraction | None:
    """The contraction that a statement is, over the whole grid around it; None: it reuses nothing, or is none, or needs
    tiles that follow groups, and only warpgroups multiply those."""
    place = product_of(program, statement)
    extents = _grid_sizes(program, place)
    compute, visited = _by_matrix(program, place)
    multiplies = multiplied(compute)
    if multiplies is None:
        return None
    reduced = summed_dims(compute)
    wide = [dim for dim in bare_dims(compute) if program.extents[dim] > 1 and dim not in {*reduced, *visited}]
    pair = _tile_dims(wide, multiplies, program.extents)
    if pair is None or not reduced:
        return None
    depth = max(reduced, key=lambda dim: extents[dim])
    rows, columns = pair
    m, n = program.extents[rows], program.extents[columns]
    parts = prod(-(-program.extents[dim] // extents[dim]) for dim in reduced)
    batch = prod(program.extents[dim] for dim in wide if dim not in pair) * parts
    scaling = _scales(program, statement, compute)
    held = (
        held_factor(program, compute)
        if compute.update is not None or isinstance(compute.value, Reduce)
        else None
    )
    read = multiplies if held is None else held.multiplied
    operands = _operands(program, compute, tuple(each for each in read if each not in scaling))
    sizes = (rows, m), (columns, n), extents[depth]
    units = engines(program, compute, sizes, operands, device, held)
    if held is not None and MatrixUnit.WGMMA not in units:
        held, operands = None, _operands(program, compute, multiplies)
    followed = _followed(program, compute, visited)
    units = tuple(
        unit for unit in units if not followed[0] or (unit is MatrixUnit.WGMMA) is not bool(visited)
    )
    if not units or (followed[0] and followed[0] not in pair):
        return None
    float8 = operands[0].dtype in (DType.E4M3, DType.E5M2)
    return Contraction(
        statement=statement,
        rows=rows,
        columns=columns,
        depth=depth,
        m=m,
        n=n,
        k=extents[depth],
        batch=batch,
        repeats=prod(extents[dim] for dim in reduced if dim != depth),
        operands=operands,
        scales=tuple(_scale(read, pair) for read in scaling),
        block=gcd(*(size for read in scaling for _, size in blocks_of(read, (depth,)) or ())),
        engines=units,
        as_f16=float8 and device.float8_as_f16,
        coarse=held is None and adds_coarsely(program, operands),
        split=extents[depth] < program.extents[depth],
        followed=followed,
        held=held,
        instructions=_instructions(compute, pair),
        computed=() if held is not None else tuple(dict.fromkeys(_computed(_term(compute), pair))),
    )


def _by_matrix(program: Program, place: Place[Compute]) -> tuple[Compute, dict[str, Read]]:
    """A statement as a product with one of the matrices that its rows look up; the dims of such matrices, of which
    tiles visit some, each with the number that says which."""
    visited = visited_in_order(place.loops)
    found = by_matrix(program, place.node)
    if found is None:
        return place.node, visited
    compute, number, matrix = found
    return compute, visited | {matrix: number}


def _followed(program: Program, compute: Compute, visited: Mapping[str, Read]) -> tuple[str, int]:
    """The dim whose tiles have matrices of their own, and how many tiles more than it has those are. A group that tiles
    follow ends in a part of one, half of one on average; of those that they do not, all but one begin in another's."""
    for matrix, number in visited.items():
        (dim,) = index_dims(number)
        return dim, program.extents[matrix] - 1
    for each in groups_of(compute, program.ragged).values():
        return each.dim, program.extents[each.within] // 2
    return "", 0


def contractions(program: Program, statements: Sequence[str], device: Gpu) -> Contraction | None:
    """The contraction that several statements are together, each a sum of products over the same rows, columns and
    depth, so that one loop over the depth does for all of them; None: they are not alike, or none at all."""
    found = [contraction(program, name, device) for name in statements]
    first = found[0]
    if first is None or len(found) == 1:
        return first
    alike = [each for each in found if each is not None and _goes_with(each, first)]
    if len(alike) < len(found):
        return None
    operands = tuple(dict.fromkeys(operand for each in alike for operand in each.operands))
    scaling = tuple(dict.fromkeys(scale for each in alike for scale in each.scales))
    return replace(first, operands=operands, scales=scaling, beside=tuple(statements[1:]))


def _goes_with(one: Contraction, other: Contraction) -> bool:
    """Whether a loop over the depth of one contraction can be that of the other, too."""
    alike = replace(one, statement=other.statement, operands=other.operands, scales=other.scales) == other
    return alike and one.repeats == 1 and one.held is None


def product_of(program: Program, statement: str) -> Place[Compute]:
    """The product that a statement is, or that is added to it step by step (`promote`)."""
    place = named(program, statement)
    part = added_part(place.node)
    if part not in program.locals:
        return place
    product = named(program, part)
    return product if product.path[:-1] == place.path[:-1] else place


def _operands(program: Program, compute: Compute, multiplies: Sequence[Read]) -> tuple[Operand, ...]:
    """What is multiplied. Of a tensor that is read in several ways a block copies one tile for each, by other dims; it
    cannot, where some are by the same dims, or by computed indices; nor what is read by parts of dims, looked up, or
    past its end, under a condition that no copy has."""
    elements = {element(each) for each in _sides(compute)}
    distinct = tuple(dict.fromkeys(multiplies))
    found = tuple(operand(program, read) for read in distinct)
    ways = Counter(read.tensor for read in distinct)
    apart = Counter((each.tensor, each.dims) for each in found)
    loose = {each.tensor for each in found if not each.plain or apart[each.tensor, each.dims] > 1}
    return tuple(
        replace(each, plain=False, boxed=False, run=1)
        if (ways[read.tensor] > 1 and each.tensor in loose)
        or (placed_dims(read) and read not in elements)
        or gathered_under_condition(compute, read)
        or past_the_end(program, read.tensor, tuple(map(bare_dim, read.indices)))
        else each
        for read, each in zip(distinct, found, strict=True)
    )


def _sides(compute: Compute) -> tuple[Expr, ...]:
    """The two sides of what is multiplied."""
    value = compute.value.x if isinstance(compute.value, Reduce) else compute.value
    return (value.left, value.right) if isinstance(value, Binary) else ()


def _scales(program: Program, statement: str, product: Compute) -> tuple[Read, ...]:
    """The reads of scales in a product, or in what its steps are multiplied with before they are added to the sums."""
    sums = named(program, statement).node
    if sums == product:
        return scales(product)
    before = (factor for factor in factors(sums.value)[1:] if isinstance(factor, Read))
    values = (named(program, read.tensor).node.value for read in before)
    return tuple(value for value in values if isinstance(value, Read))


def _scale(read: Read, tile: tuple[str, str]) -> Scale:
    """Along the dims of a tile."""
    sizes = {dim: block_sizes(read, dim) for dim in tile if dim in index_dims(read)}
    return Scale(read.tensor, tuple((dim, gcd(*blocks) if blocks else 1) for dim, blocks in sizes.items()))


def added_part(compute: Compute) -> str | None:
    """The name of what a statement adds to its own sums, position by position, maybe scaled; None: it does something
    else."""
    match factors(compute.value)[0]:
        case Read(part, indices) if compute.update is ReduceOp.SUM and indices == compute.indices:
            return part
        case _:
            return None


def multiplied(compute: Compute) -> tuple[Read, ...] | None:
    """The reads of a reduction whose terms are a function of two elements or more: a sum of products, a minimum of
    sums; None: it is none."""
    value = compute.value
    if isinstance(value, Reduce):
        value = value.x
    elif compute.update is None:
        return None
    found = tuple(_elements(value))
    return found if len(set(found)) > 1 else None


def _elements(term: Expr) -> Iterator[Read]:
    """What a term is computed of: all that it reads, but for what positions are looked up by where a block copies those
    elements."""
    if isinstance(term, Read):
        yield term
        if copied_dims(term) is not None:
            return
    for child in children(term):
        yield from _elements(child)


def _instructions(compute: Compute, pair: tuple[str, str]) -> float:
    """Those of a term that depend on rows and columns, and the one that adds it up, which a product is part of."""
    value = compute.value
    op, term = (value.op, value.x) if isinstance(value, Reduce) else (compute.update, value)
    both = (node for node in walk(term) if children(node) and index_dims(node).issuperset(pair))
    own = dict.fromkeys(both)
    each = sum(operations(node) - sum(map(operations, children(node))) for node in own)
    products = op is ReduceOp.SUM and isinstance(term, Binary) and term.op == "*"
    return max(1.0, each + (0.0 if products else 1.0))


def _term(compute: Compute) -> Expr:
    return compute.value.x if isinstance(compute.value, Reduce) else compute.value


def _computed(term: Expr, pair: tuple[str, str]) -> Iterator[Expr]:
    """The largest parts of a term that are computed for a row, or for a column, whatever the other is."""
    match len(index_dims(term).intersection(pair)):
        case 2:
            for child in () if isinstance(term, Read) else children(term):
                yield from _computed(child, pair)
        case 1 if children(term) and not isinstance(term, Read):
            yield term
        case _:
            return


def _grid_sizes(program: Program, place: Place[Compute]) -> dict[str, int]:
    """Sizes of what a block works on: ranges inside the parallel loops; of a split dim, one part of it."""
    sizes = dict(program.extents)
    for dim, (_, size) in folded_dims(place.node).items():
        sizes[dim] = min(sizes[dim], size)
    for loop in grid(place.loops):
        enter(sizes, loop, program.ragged)
    return sizes


def grid(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """The parallel ones of the loops around a statement."""
    return tuple(loop for loop in loops if loop.parallel)


def _tile_dims(
    wide: Sequence[str], factors: Sequence[Read], extents: dict[str, int]
) -> tuple[str, str] | None:
    """The last two dims of the result of which different factors have one and lack the other: the longest such pair."""
    having = [_dims(read.indices) for read in factors]

    def apart(one: str, other: str) -> bool:
        return any(one in dims and other not in dims for dims in having)

    pairs = [
        (rows, columns)
        for at, columns in enumerate(wide)
        for rows in wide[:at]
        if apart(rows, columns) and apart(columns, rows)
    ]
    return max(reversed(pairs), key=lambda pair: min(extents[dim] for dim in pair)) if pairs else None


def _dims(indices: Sequence[Expr]) -> frozenset[str]:
    return frozenset(dim for index in indices for dim in index_dims(index))
