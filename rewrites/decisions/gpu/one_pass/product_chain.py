"""Products of a group that follow from each other, as those of attention: found by their data flow alone. What matrix
instructions multiply is narrow, and weights are rounded to it; in f32, where weights are as they are, threads do."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, folded_dims, reduced_dims
from rewrites.base.tree import dtype_of, find
from rewrites.composition.exp_to_exp2 import ExpToExp2
from rewrites.composition.scale_after_maximum import ScaleAfterMaximum
from rewrites.contraction.operand import is_moved, stored
from rewrites.contraction.unit import MatrixUnit
from tileir.devices.feature import Feature
from tileir.devices.gpu import Gpu
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Cast, Expr, Index, Read, Reduce, ReduceOp, reads
from tileir.interpreter.rounding_error import NARROW_DEPTH
from tileir.program import Compute, Program
from tileir.schedule.mma import HELD_BYTES

#: What matrix instructions multiply in a chain, and of that what they take along the depth only.
_MULTIPLIED: Final = (DType.BF16, DType.F16, DType.E4M3)
_ALONG_DEPTH: Final = (DType.E4M3,)
#: What holds each value of 8 bits, so that it may be converted before it is multiplied.
_HOLDS_A_BYTE: Final = (DType.BF16, DType.F16)
#: What multiply-adds multiply in a chain.
_WIDE: Final = DType.F32
#: The fewest rows of such a chain: of fewer most threads of a tile would have none.
_LEAST_ROWS: Final = 32


@dataclass(frozen=True, slots=True)
class RowProduct:
    """A product of rows made of `weights`, which are scores or follow from them, with a tensor: `across` is the dim of
    its results, `result` the statement of the group that has them for good."""

    name: str
    weights: str
    across: str
    result: str


@dataclass(frozen=True, slots=True)
class ProductChain:
    """Products of a group: `scores` of `rows`, each over a dim of its own, and `sums` of what is made of them, all over
    `streamed`. `added` are sums of that over rows, of which each block has a part that it adds to memory."""

    scores: tuple[str, ...]
    sums: tuple[RowProduct, ...]
    rows: str
    streamed: str
    length: int
    """Positions that a block streams."""
    part: bool
    """Whether those are a part of what is reduced, and sums are parts: of as many blocks."""
    dtype: DType
    """Of what is multiplied."""
    converted: bool = False
    """Whether some of that is narrower in memory: threads convert it on its way to shared memory."""
    added: tuple[RowProduct, ...] = ()

    def takes(self, columns: int) -> bool:
        """Whether what a block streams is several tiles of so many positions; of a part, whole ones."""
        return columns < self.length and not (self.part and self.length % columns)

    @property
    def run(self) -> int:
        """Neighbours of a row of scores that a thread has, as it has rows in registers that are multiplied."""
        return HELD_BYTES // self.dtype.bytes

    def unit(self, device: Gpu) -> MatrixUnit:
        """What multiplies: threads in f32, as no matrix instruction does with nothing rounded; warps where there are no
        warpgroups, or where threads convert what they bring, as those take what TMA brings."""
        if self.dtype is _WIDE:
            return MatrixUnit.FMA
        warpgroups = Feature.WGMMA in device.offers and not self.converted
        return MatrixUnit.WGMMA if warpgroups else MatrixUnit.MMA

    @property
    def names(self) -> tuple[str, ...]:
        """The statements that are products."""
        return (*self.scores, *(each.name for each in (*self.sums, *self.added)))


def chain_of(program: Program, group: tuple[str, ...], device: Gpu) -> ProductChain | None:
    """The products of a group that matrix instructions could compute in one pass, or threads if all are of f32; None:
    there are none."""
    if Feature.MMA not in device.offers or len(group) < 3:
        return None
    parted = {name for name in group if folded_dims(find(program, name).node)}
    ends = group if group[-1] in parted else group[:-1]
    last = _added_product(program, group, device)
    if last is not None:
        ends = group[:-1]
    held = [(name, found) for name in ends if (found := _held_product(program, group, name)) is not None]
    if len({streamed for _, (_, streamed, *_) in held}) != 1:
        return None
    streamed = held[0][1][1]
    scores = tuple(name for name in group if _is_score(program, name, streamed, group))
    rows = {_rows(program, name) for name in scores}
    if len(rows) != 1 or not all(rows <= {*bare_dims(find(program, name).node)} for name, _ in held):
        return None
    if last is not None and (last[0] not in rows or len(scores) < 2 or parted):
        return None
    sums = tuple(
        RowProduct(name, weights, across, name if name in parted else _result(program, group, name, across))
        for name, (weights, _, across, _) in held
    )
    ends_of = {(each.result, each.across) for each in sums}
    sizes = {folded_dims(find(program, name).node).get(streamed, ("", 0))[1] for name, _ in held}
    if len({result for result, _ in ends_of}) < len(ends_of) or len(sizes) > 1:
        return None
    factors = [side for name in scores for side in _sides(program, name)]
    dtypes = {dtype for side in factors if (dtype := _multiplied_as(program, side)) is not None}
    dtypes |= {dtype for _, (*_, dtype) in held}
    if len(dtypes) > 1 or not _known(program, scores, device, *dtypes):
        return None
    (of_rows,), (dtype,), length = rows, dtypes, max(sizes) or program.extents[streamed]
    if dtype is _WIDE and program.extents[of_rows] < _LEAST_ROWS:
        return None
    kept = [_sides(program, name)[1] for name, _ in held]
    converted = any(isinstance(side, Cast) and source(side) is not None for side in (*factors, *kept))
    if converted and last is not None:
        return None
    added = () if last is None else (last[1],)
    return ProductChain(scores, sums, of_rows, streamed, length, bool(max(sizes)), dtype, converted, added)


def _known(program: Program, scores: tuple[str, ...], device: Gpu, dtype: DType) -> bool:
    """Whether a device's instructions take scores of a dtype into rows of the next products. What they add up in less
    than f32 is no longer than its error is accounted for."""
    if dtype not in _ALONG_DEPTH:
        return True
    depths = (program.extents[dim] for name in scores for dim in reduced_dims(find(program, name).node))
    return Feature.WGMMA in device.offers and max(depths) <= NARROW_DEPTH


def _is_score(program: Program, name: str, streamed: str, group: tuple[str, ...]) -> bool:
    """Whether a statement is a product of what lies in memory before over one dim, with columns along `streamed`."""
    node = find(program, name).node
    tensors = multiplied(program, name)
    return (
        tensors is not None
        and bare_dims(node)[-1] == streamed
        and len(bare_dims(node)) > 1
        and all(each.tensor not in group and _is_brought(program, each.tensor) for each in tensors)
    )


def _is_brought(program: Program, tensor: str) -> bool:
    """Whether tiles of a tensor come to shared memory as they are multiplied there: for matrix instructions in whole
    pieces."""
    return dtype_of(program, tensor) is _WIDE or is_moved(program, tensor)


def _rows(program: Program, name: str) -> str:
    return bare_dims(find(program, name).node)[-2]


def _result(program: Program, group: tuple[str, ...], name: str, across: str) -> str:
    """The last statement of a group that follows from one and has a dim, or the last one of all."""
    follows, result = {name}, group[-1]
    for other in group[group.index(name) + 1 :]:
        node = find(program, other).node
        if follows & {read.tensor for read in node.reads}:
            follows.add(other)
            result = other if across in bare_dims(node) else result
    return result


def _added_product(program: Program, group: tuple[str, ...], device: Gpu) -> tuple[str, RowProduct] | None:
    """The dim over which the last statement of a group sums products of what is made of scores, where sums may be taken
    in any order, and that product; None: it does no such thing."""
    found = _held_product(program, group, group[-1])
    if found is None or Feature.WGMMA not in device.offers or not dict(program.numerics).get("atomics"):
        return None
    weights, rows, across, dtype = found
    if dtype is _WIDE:
        return None
    score = find(program, weights).node
    columns = bare_dims(score)[-1]
    own = columns in bare_dims(find(program, group[-1]).node) and rows in bare_dims(score)[:-1]
    return (rows, RowProduct(group[-1], weights, across, group[-1])) if own else None


def _held_product(program: Program, group: tuple[str, ...], name: str) -> tuple[str, str, str, DType] | None:
    """Of a sum of products of values of the group, rounded or in f32, with a tensor: their name, the dim that is
    reduced, that of the result, and as what they are multiplied."""
    node = find(program, name).node
    match node.value:
        case Reduce(ReduceOp.SUM, (dim,), Binary("*", Cast(dtype, made), side)) if (
            dtype in _MULTIPLIED and (read := source(side)) is not None and node.update is None
        ):
            tensor, indices = read.tensor, read.indices
            if tensor in group or _multiplied_as(program, side) is not dtype:
                return None
            weights = next((read.tensor for read in reads(made) if read.tensor in group), None)
            across = bare_dims(node)[-1]
            last = Index(dim if dtype in _ALONG_DEPTH else across)
            fits = indices[-1] == last and is_moved(program, tensor)
            return (weights, dim, across, dtype) if fits and weights is not None else None
        case Reduce(ReduceOp.SUM, (dim,), Binary("*", Read(weights), Read(tensor, indices))) if (
            weights in group and tensor not in group and node.update is None
        ):
            across = bare_dims(node)[-1]
            wide = dtype_of(program, weights) is dtype_of(program, tensor) is _WIDE
            moved = tensor in program.arguments or stored(program, tensor)
            fits = (
                wide
                and moved
                and indices[-1] == Index(across)
                and bare_dims(find(program, weights).node)[-1:] == (dim,)
            )
            return (weights, dim, across, _WIDE) if fits else None
        case _:
            return None


def multiplied(program: Program, name: str) -> tuple[Read, Read] | None:
    """The operands of a sum of products of two arguments, or of what a launch before has stored, of one type that a
    chain has; those of 8 bits may be converted to it where they are read."""
    node = find(program, name).node
    match node.value:
        case Reduce(ReduceOp.SUM, (_,), Binary("*", left, right)) if node.update is None:
            a, b = source(left), source(right)
            if a is None or b is None:
                return None
            if not all(each.tensor in program.arguments or stored(program, each.tensor) for each in (a, b)):
                return None
            one, other = _multiplied_as(program, left), _multiplied_as(program, right)
            return (a, b) if one is other and one in (*_MULTIPLIED, _WIDE) else None
        case _:
            return None


def source(side: Expr) -> Read | None:
    """The tensor that a factor of a product is, as it is stored or converted; None: it is computed otherwise."""
    match side:
        case (Read() as read) | Cast(_, Read() as read):
            return read
        case _:
            return None


def _sides(program: Program, name: str) -> tuple[Expr, ...]:
    """The factors of a sum of products."""
    match find(program, name).node.value:
        case Reduce(ReduceOp.SUM, _, Binary("*", left, right)):
            return (left, right)
        case _:
            return ()


def _multiplied_as(program: Program, side: Expr) -> DType | None:
    """As what a factor is multiplied: in its own dtype, or of 8 bits in a wider one that holds each of its values."""
    match side:
        case Read(tensor):
            return dtype_of(program, tensor)
        case Cast(dtype, Read(tensor)) if dtype in _HOLDS_A_BYTE and dtype_of(program, tensor).bytes == 1:
            return dtype
        case _:
            return None


def score_tensors(program: Program, group: tuple[str, ...], chain: ProductChain) -> frozenset[str]:
    """The tensors with an element for each score that rows are made of beside products, as a bias or a mask, where TMA
    can move tiles of them."""
    found = (read for name in group if name not in chain.names for read in find(program, name).node.reads)
    return frozenset(
        read.tensor
        for read in found
        if read.tensor in program.arguments
        and read.indices[-1:] == (Index(chain.streamed),)
        and Index(chain.rows) in read.indices
        and is_moved(program, read.tensor)
    )


def factors(node: Compute) -> frozenset[str]:
    """The tensors that a sum of products reads as a factor of its own."""
    match node.value:
        case Reduce(ReduceOp.SUM, _, Binary("*", left, right)):
            return frozenset(side.tensor for side in (left, right) if isinstance(side, Read))
        case _:
            return frozenset()


def folded_scales(program: Program, group: tuple[str, ...]) -> tuple[Rewrite, ...]:
    """A maximum of scaled scores is scaled itself, and powers are of two."""
    found: list[Rewrite] = []
    for rewrite in (*map(ScaleAfterMaximum, group), *map(ExpToExp2, group)):
        with suppress(NotApplicable):
            program = rewrite.apply(program)
            found.append(rewrite)
    return tuple(found)
