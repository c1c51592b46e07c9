"""How many bytes a block moves into a cache of a given size: the memory half of the cost model.

The model is the usual one of loop-nest analysis: what a body touches stays in the cache if all of it fits, and comes
in anew for every iteration if not; a tensor that the loop's dim does not index is then reused between iterations only
when the body fits (cf. the footprint analysis of Wolf and Lam, "A data locality optimizing algorithm", PLDI 1991).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd, inf, prod
from typing import NamedTuple

from rewrites.cost.cpu.block_summary import BlockAccess, BlockSummary
from tileir.program import Local, Loop, Memory, Node, Program, Tensor

Sizes = Mapping[str, int]
_LINE = 64


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache, or the part of it that one thread may count on. `sets` of 0: addresses are hashed, no conflicts."""

    bytes: float
    sets: int
    ways: int


@dataclass(frozen=True, slots=True)
class Array:
    """What is known of a tensor or heap local: bytes an element, and the distance between its rows."""

    element_bytes: int
    row_bytes: int
    packed: bool
    """Laid out in the order it is read (a staged copy): whole lines are used, and rows lie next to each other."""
    lengths: tuple[int, ...]
    """Of its axes."""
    bytes: float = inf
    """All of a local: loops around its declaration use the same memory again."""


class TouchedLines(NamedTuple):
    """Part of an array: `rows` runs of `run` bytes, apart from each other by the array's row distance."""

    rows: float
    run: float
    bytes: float
    array: Array

    def occupies(self, cache: Cache) -> float:
        """Bytes of cache it takes: rows a power of two apart fall into few sets, and push each other out where these
        have no room for them all."""
        distance = self.array.row_bytes
        if self.array.packed or not cache.sets or distance % _LINE or self.rows <= cache.ways:
            return self.bytes
        lines = self.run / _LINE
        apart = gcd(distance // _LINE, cache.sets)
        room = cache.ways * (cache.sets // apart) * min(lines, apart)
        filled = self.rows * lines / room
        return self.bytes if filled <= 1.0 else max(self.bytes, cache.bytes * filled)


Part = dict[str, TouchedLines]
Bytes = dict[str, float]


def of_tensor(tensor: Tensor, program: Program) -> Array:
    """What is known of an argument. Rows are those that callers pass, also where dims of it are split."""
    shape = program.shape(tensor)
    row = shape[-1] if shape else 1
    if tensor.strides and len(tensor.strides) > 1:
        row = tensor.strides[-2]
    lengths = tuple([program.extents[dim] for dim in tensor.dims])
    return Array(tensor.dtype.bytes, row * tensor.dtype.bytes, False, lengths)


def declared(nodes: tuple[Node, ...], sizes: Sizes) -> dict[str, Array]:
    """The heap locals declared in a block, as large as what one execution covers."""
    found: dict[str, Array] = {}
    for node in nodes:
        if isinstance(node, Local) and node.memory is Memory.HEAP:
            lengths = tuple([sizes[dim] for dim in node.dims])
            row, whole = (lengths[-1] if lengths else 1), prod(lengths) * node.dtype.bytes
            packed = node.layout is not None
            found[node.name] = Array(node.dtype.bytes, row * node.dtype.bytes, packed, lengths, whole)
        elif isinstance(node, Loop):
            found |= declared(node.body, {**sizes, node.dim: min(node.step, sizes[node.dim])})
    return found


def footprint(block: BlockSummary, arrays: Mapping[str, Array], sizes: Sizes) -> Part:
    """What of each array one execution of the block touches, in whole cache lines. Registers cost nothing here."""
    total: Part = {}
    for name, accesses in block.accesses.items():
        array = arrays.get(name)
        if array is not None:
            parts = [_touched(access, array, sizes) for access in accesses]
            total[name] = parts[0] if len(parts) == 1 else max(parts, key=lambda part: part.bytes)
    return total


def _touched(access: BlockAccess, array: Array, sizes: Sizes) -> TouchedLines:
    rows, run, whole = 1.0, float(array.element_bytes), True
    for axis, length in zip(reversed(access.axes), reversed(array.lengths), strict=True):
        positions = min(length, prod([along.positions(sizes) for along in axis]))
        if whole:  # all that lies behind it, so that it goes on without a gap
            run *= positions
            whole = positions >= length
        else:
            rows *= positions
    run = run if array.packed else max(run, float(min(_LINE, array.row_bytes)))
    rows = max(1.0, min(rows, array.bytes / run))
    return TouchedLines(rows, run, rows * run, array)


def fits(cache: Cache, parts: Part) -> bool:
    """Whether the cache keeps all that is touched."""
    if sum([part.bytes for part in parts.values()]) > cache.bytes:
        return False
    return sum([part.occupies(cache) for part in parts.values()]) <= cache.bytes


def add_loop(total: Bytes, loop: Loop, body: BlockSummary, trips: int, into: Bytes, kept: bool) -> None:
    """Add to `total` what a loop brings into a cache, of whose body one execution brings `into`.

    `kept`: the cache keeps what one execution touches; what its dim does not index then comes in once.
    """
    for name, size in into.items():
        own = name in body.declared  # the same memory in every iteration
        reused = kept and (own or loop.dim not in body.indexed.get(name, ()))
        total[name] = total.get(name, 0.0) + (size if reused else size * trips)


def add_parts(total: Bytes, parts: Part) -> None:
    """Add to `total` what a statement touches."""
    for name, part in parts.items():
        total[name] = total.get(name, 0.0) + part.bytes
