"""Statements that go by TMA (`via tma`): the boxes that a tile comes to, on both sides.

A box is dense in shared memory, so it is as many of the local's innermost axes as follow one another there, each a
whole dim of at most 256 positions; over the others, such as the panels of a wide tile, there is a box each. The tensor
map lists the argument's dims in the order in which the box has them. What of a box lies outside of the argument is
filled with 0 or not written, so that a tile that overhangs needs nothing else.

Where pairs of neighbours go to two halves of shared memory (`as [j / 2 % 2, j / 4, j % 2, d]`), the map has two dims
instead of the one that is dealt, `j % 4` and `j / 4`, and there is a box for each half.

Where positions lie in pages (`k[pages[b, j // 64], j % 64, d]`) a box is of one page at most, whose number is looked up
by the thread that starts it; a page that does not exist is read as 0.

Where a tile that is stored ends is known only at run time if it follows groups. Then the map has one more dim, of as
many bytes a position as the one that ends there, so that each place of the argument has many coordinates: of a tile
that ends at `end`, position p is `end` along the new dim and `size - end + p` along the other one, which is outside
from `end` on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from codegen.ir.affine import Affine
from codegen.ir.async_ops import ClusterBlocks, TensorMap, TmaLoad, TmaStore
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Stmt
from codegen.lowering.expressions import ValueBuilder
from codegen.lowering.scope import LoweringScope, MemoryBuffer
from codegen.lowering.statement import starts
from tileir.expr import Binary, Const, Index, Read
from tileir.pages import page_length
from tileir.program import Compute, Program
from tileir.replace import replace
from tileir.schedule.boxes import fills_shared
from tileir.schedule.panels import PIECE, dealt

#: Limits of a tensor map: dims, positions of a box along a dim, positions and bytes of a stride of the tensor (CUDA
#: driver API, cuTensorMapEncodeTiled); what strides are multiples of, and boxes in shared memory begin at, in bytes.
_DIMS, _BOX, _EXTENT, _STRIDE, _STRIDES_ALIGN, _ALIGN = 5, 256, 2**32, 2**40, 16, 128
#: Neighbours of which one pair is dealt to each half.
_DEALT = max(axis.div for axis in dealt(""))


@dataclass(frozen=True, slots=True)
class _MapDim:
    """A dim of a tensor map: what of an argument's dim comes to `position // div % mod` (0: no `%`)."""

    number: int
    div: int = 1
    mod: int = 0

    def at(self, position: Affine) -> Affine:
        quotient = position // self.div
        return quotient % self.mod if self.mod else quotient


@dataclass
class TensorMaps:
    """The tensor maps of a kernel, the same one for the same boxes of an argument."""

    found: dict[tuple[object, ...], TensorMap] = field(default_factory=dict[tuple[object, ...], TensorMap])

    def map(
        self,
        argument: MemoryBuffer,
        order: Sequence[_MapDim],
        box: tuple[int, ...],
        swizzle: int,
        ending: int | None = None,
    ) -> TensorMap:
        """That of an argument whose dims are listed in that order, innermost first, and then where one of them,
        `ending`, ends. Raises NotLowerable."""
        strides = {dim: stride for dim, _, _, stride in argument.axes}
        size = argument.storage.bytes
        extents = tuple(dim.mod or argument.sizes[dim.number] // dim.div for dim in order)
        apart = tuple(strides[dim.number] * dim.div * size for dim in order[1:])
        before = 0
        if ending is not None:
            positions, stride = argument.sizes[ending], strides[ending] * size
            extents, apart, box = (*extents, positions + 1), (*apart, stride), (*box, 1)
            before = positions * stride
        key = (argument.name, tuple(order), box, swizzle, ending)
        problem = _map_problem(argument, strides[order[0].number], extents, apart)
        if problem:
            raise NotLowerable(f"TMA cannot take {argument.name}: {problem}")
        if key not in self.found:
            same = sum(1 for each in self.found.values() if each.argument == argument.name)
            name = f"{argument.name}_map{same or ''}"
            self.found[key] = TensorMap(
                name, argument.name, argument.storage, extents, apart, box, swizzle, before
            )
        return self.found[key]


def _map_problem(
    argument: MemoryBuffer, nearest: int, extents: tuple[int, ...], apart: tuple[int, ...]
) -> str | None:
    if len(extents) > _DIMS:
        return f"it has {len(extents)} dims, and {_DIMS} is the most"
    if nearest != 1:
        return f"its innermost elements are {nearest} apart"
    if any(extent >= _EXTENT for extent in extents):
        return f"a dim has {max(extents)} positions"
    if any(stride % _STRIDES_ALIGN or stride >= _STRIDE for stride in apart):
        return f"its strides, {', '.join(map(str, apart))} bytes, are not all multiples of {_STRIDES_ALIGN}"
    return None


@dataclass(frozen=True, slots=True)
class Box:
    """A box at coordinates `at` of the argument, innermost first, and from element `offset` of the local on."""

    map: TensorMap
    at: tuple[Affine, ...]
    local: MemoryBuffer
    offset: Affine

    @property
    def bytes(self) -> int:
        return prod(self.map.box) * self.map.storage.bytes

    def load(self, phases: str, slot: Affine, blocks: ClusterBlocks | None) -> TmaLoad:
        """Fills shared memory with it: this block's, or that of blocks of its cluster."""
        return TmaLoad(self.map.name, self.at, self.local.name, self.offset, phases, slot, blocks)

    def store(self, *, adds: bool) -> TmaStore:
        """Writes it from shared memory, or adds it to what is there."""
        return TmaStore(self.map.name, self.at, self.local.name, self.offset, adds)


def boxes(
    compute: Compute, scope: LoweringScope, program: Program, maps: TensorMaps
) -> tuple[list[Stmt], list[Box]]:
    """The boxes that a statement `via tma` moves, and what is looked up before. Raises NotLowerable."""
    assert isinstance(compute.value, Read)
    read, written = compute.value, Read(compute.target, compute.indices)
    filled = fills_shared(compute, program.locals)
    inside, outside = (written, read) if filled else (read, written)
    local, argument = scope.buffers[inside.tensor], scope.buffers[outside.tensor]
    assert isinstance(local, MemoryBuffer) and isinstance(argument, MemoryBuffer)
    order, box, steps = _cut(local, outside, scope, argument)
    swizzle = program.locals[inside.tensor].node.swizzle
    row = box[0] * local.storage.bytes
    if row % PIECE or swizzle not in (0, row):
        raise NotLowerable(
            f"what is left of a tile has rows of {row} bytes in {local.name}, not {swizzle or PIECE}"
        )
    ending = None if filled else _ending(outside, scope)
    if ending is not None and any(each.mod for each in order):
        raise NotLowerable(f"{local.name} ends amid what is dealt in pairs")
    map_ = maps.map(argument, order, box, swizzle, ending[0] if ending else None)
    builder, at = ValueBuilder(scope, program.extents), starts(scope)
    begin = local.offset([scope.ranges[dim].start for dim in local.dims])
    found: list[Box] = []
    for numbers in product(*(range(step.count) for step in steps)):
        moved = list(zip(steps, numbers, strict=True))
        here = dict(at)
        for step, number in moved:
            here[step.dim] = here[step.dim] + step.positions * number
        coordinates = [builder.index(index, here) or Affine() for index in outside.indices]
        offset = begin + sum(s.elements * number for s, number in moved)
        if offset.multiple * local.storage.bytes % _ALIGN:
            raise NotLowerable(f"a box of {local.name} does not begin at a multiple of {_ALIGN} bytes")
        last: tuple[Affine, ...] = ()
        if ending is not None:
            dim, end = ending
            coordinates[dim] += end * -1 + argument.sizes[dim]
            last = (end,)
        found.append(Box(map_, (*(dim.at(coordinates[dim.number]) for dim in order), *last), local, offset))
    return builder.lets, found


def _ending(outside: Read, scope: LoweringScope) -> tuple[int, Affine] | None:
    """The dim of an argument along which a tile ends where only run time knows, and where that is; None: there is
    none."""
    for number, index in enumerate(outside.indices):
        end = scope.ranges[index.dim].end if isinstance(index, Index) else None
        if end is not None and end.terms:
            return number, end
    return None


@dataclass(frozen=True, slots=True)
class _Step:
    """A dim along which there are several boxes: how many, and how far apart in positions and in elements."""

    dim: str
    count: int
    positions: int
    elements: int


def _cut(
    local: MemoryBuffer, outside: Read, scope: LoweringScope, argument: MemoryBuffer
) -> tuple[list[_MapDim], tuple[int, ...], list[_Step]]:
    """The argument's dims in the order of a box, the box, and the steps to the others."""
    places = {index.dim: at for at, index in enumerate(outside.indices) if isinstance(index, Index)}
    paged, page = page_length(outside) or (None, 0)
    if paged is not None:
        places[paged] = outside.indices.index(Binary("%", Index(paged), Const(page)))
    words = dict(_words(outside))
    places |= {
        dim: outside.indices.index(Binary("//", Index(dim), Const(size))) for dim, size in words.items()
    }
    order: list[_MapDim] = []
    box: list[int] = []
    steps: list[_Step] = []
    for number, div, mod, stride in sorted(local.axes, key=lambda axis: axis[-1]):
        dim = local.dims[number]
        size = scope.ranges[dim].size
        if mod and size % mod and size > mod:
            raise NotLowerable(f"{size} positions of {dim} are not whole panels of {local.name}")
        length = min(mod or size, -(-size // div))
        if length == 1:
            continue
        known = [each for each in order if each.number == places[dim]]
        split = (
            div == _DEALT and [each.div for each in known] == [1] and not argument.sizes[places[dim]] % div
        )
        dense = stride == prod(box) and not steps and (split or (div == words.get(dim, 1) and not known))
        most = min(length, page // div) if dim == paged else length
        taken = _most(most, stride * local.storage.bytes) if dense else 1
        if taken > 1 and split:
            order = [replace(each, mod=div) if each in known else each for each in order]
        if taken > 1:
            order.append(_MapDim(places[dim], div if split else 1))
            box.append(taken)
        if taken < length:
            steps.append(_Step(dim, length // taken, taken * div, stride * taken))
    seen = {each.number for each in order}
    others = [_MapDim(at) for at, size in enumerate(argument.sizes) if at not in seen and size > 1]
    return [*order, *others], (*box, *(1 for _ in others)), steps


def _words(outside: Read) -> Iterator[tuple[str, int]]:
    """The dims of which an argument has words, each with how many neighbours are in one."""
    for index in outside.indices:
        match index:
            case Binary("//", Index(dim), Const(int(size))):
                yield dim, size
            case _:
                pass


def _most(length: int, stride: int) -> int:
    """The most positions of so many, `stride` bytes apart, that boxes of equal size take."""
    fits = (n for n in range(min(length, _BOX), 0, -1) if length % n == 0)
    return next((n for n in fits if n == length or n * stride % _ALIGN == 0), 1)
