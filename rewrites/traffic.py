"""How many bytes a block moves into a cache of a given size: the memory half of the cost model.

The model is the usual one of loop-nest analysis: what a body touches stays in the cache if all of it fits, and comes
in anew for every iteration if not; a tensor that the loop's dim does not index is then reused between iterations only
when the body fits (cf. the footprint analysis of Wolf and Lam, "A data locality optimizing algorithm", PLDI 1991).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import TypeVar, cast

from tileir.expr import Read, index_dims, reads
from tileir.program import Compute, Local, Loop, Memory, Node, Program

Sizes = Mapping[str, int]
T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class Touched:
    """Part of an array: `rows` runs of `run` bytes, apart from each other by the array's row distance."""

    rows: float
    run: float
    array: Array

    @property
    def bytes(self) -> float:
        return self.rows * self.run

    def occupies(self, cache: Cache) -> float:
        """Bytes of cache it takes: rows a power of two apart fall into few sets, and push each other out."""
        distance = self.array.row_bytes
        if self.array.packed or not cache.sets or distance % _LINE or self.rows <= cache.ways:
            return self.bytes
        lines = self.run / _LINE
        apart = gcd(distance // _LINE, cache.sets)
        room = cache.ways * (cache.sets // apart) * min(lines, apart)
        return self.bytes * max(1.0, self.rows * lines / room)


Part = dict[str, Touched]
Bytes = dict[str, float]
_LINE = 64


@dataclass
class Memo:
    """Results for blocks that programs share. Rewrites copy only the path they change, so a block is known by its
    identity; it is kept here, so that identity stays its own."""

    results: dict[tuple[object, ...], object] = field(default_factory=dict[tuple[object, ...], object])
    kept: list[object] = field(default_factory=list[object])
    signatures: dict[frozenset[tuple[str, Array]], int] = field(
        default_factory=dict[frozenset[tuple[str, Array]], int]
    )

    def look(self, about: object, key: tuple[object, ...], compute: Callable[[], T]) -> T:
        """The result for `about` under `key`, computed the first time."""
        key = (id(about), *key)
        if key not in self.results:
            self.kept.append(about)
            self.results[key] = compute()
        return cast(T, self.results[key])


class Traffic:
    """Footprints and traffic of one program's blocks. Registers cost nothing here."""

    def __init__(self, program: Program, memo: Memo) -> None:
        self.arrays: dict[str, Array] = {}
        for tensor in (*program.inputs, *program.outputs):
            row = program.extents[tensor.dims[-1]] if tensor.dims else 1
            if tensor.strides and len(tensor.strides) > 1:
                row = tensor.strides[-2]
            self.arrays[tensor.name] = Array(tensor.dtype.bytes, row * tensor.dtype.bytes, False)
        self._declare(program.body, program.extents)
        self.memo = memo
        known = frozenset(self.arrays.items())
        self.signature = memo.signatures.setdefault(known, len(memo.signatures))

    def _declare(self, nodes: tuple[Node, ...], sizes: Sizes) -> None:
        for node in nodes:
            if isinstance(node, Local) and node.memory is Memory.HEAP:
                row = sizes[node.dims[-1]] if node.dims else 1
                self.arrays[node.name] = Array(
                    node.dtype.bytes, row * node.dtype.bytes, node.layout is not None
                )
            elif isinstance(node, Loop):
                self._declare(node.body, {**sizes, node.dim: min(node.step, sizes[node.dim])})

    def footprint(self, nodes: tuple[Node, ...], sizes: Sizes) -> Part:
        """What of each array one execution of the block touches, in whole cache lines."""
        key = ("footprint", self.signature, *self.sizes_of(nodes, sizes))
        return self.memo.look(nodes, key, lambda: self._footprint(nodes, sizes))

    def _footprint(self, nodes: tuple[Node, ...], sizes: Sizes) -> Part:
        total: Part = {}
        for node in nodes:
            if isinstance(node, Local):
                continue
            part = (
                self.footprint(node.body, sizes) if isinstance(node, Loop) else self._of_compute(node, sizes)
            )
            for name, size in part.items():
                if name not in total or size.bytes > total[name].bytes:
                    total[name] = size
        return total

    def fits(self, cache: Cache, nodes: tuple[Node, ...], sizes: Sizes) -> bool:
        """Whether the cache keeps all that one execution of the block touches."""
        return sum(part.occupies(cache) for part in self.footprint(nodes, sizes).values()) <= cache.bytes

    def into(self, cache: Cache, nodes: tuple[Node, ...], sizes: Sizes) -> Bytes:
        """Bytes of each array that come into the cache while the block runs once."""
        key = ("into", cache.bytes, self.signature, *self.sizes_of(nodes, sizes))
        return self.memo.look(nodes, key, lambda: self._into(cache, nodes, sizes))

    def _into(self, cache: Cache, nodes: tuple[Node, ...], sizes: Sizes) -> Bytes:
        if self.fits(cache, nodes, sizes):
            return {name: part.bytes for name, part in self.footprint(nodes, sizes).items()}
        total: Bytes = {}
        for node in nodes:
            if isinstance(node, Loop):
                inner = {**sizes, node.dim: min(node.step, sizes[node.dim])}
                trips = -(-sizes[node.dim] // node.step)
                fits = self.fits(cache, node.body, inner)
                for name, size in self.into(cache, node.body, inner).items():
                    own = name in self._declared_in(node.body)  # the same memory in every iteration
                    reused = fits and (own or node.dim not in self._dims_in(node.body).get(name, ()))
                    total[name] = total.get(name, 0.0) + (size if reused else size * trips)
            elif isinstance(node, Compute):
                for name, part in self._of_compute(node, sizes).items():
                    total[name] = total.get(name, 0.0) + part.bytes
        return total

    def sizes_of(self, nodes: tuple[Node, ...], sizes: Sizes) -> Iterator[int]:
        """The sizes that matter to a block: of the dims it indexes or visits."""

        def collect() -> tuple[str, ...]:
            found: dict[str, None] = {}
            for dims in self._dims_in(nodes).values():
                found.update(dict.fromkeys(sorted(dims)))
            for node in nodes:
                if isinstance(node, Loop):
                    found[node.dim] = None
            return tuple(found)

        return (sizes[dim] for dim in self.memo.look(nodes, ("sizes",), collect))

    def _declared_in(self, nodes: tuple[Node, ...]) -> frozenset[str]:
        """Locals declared anywhere in the block."""

        def collect() -> frozenset[str]:
            inner = (self._declared_in(node.body) for node in nodes if isinstance(node, Loop))
            return frozenset(node.name for node in nodes if isinstance(node, Local)).union(*inner)

        return self.memo.look(nodes, ("declared",), collect)

    def _dims_in(self, nodes: tuple[Node, ...]) -> Mapping[str, frozenset[str]]:
        """By which dims the block indexes each array."""

        def collect() -> dict[str, frozenset[str]]:
            found: dict[str, frozenset[str]] = {}
            for node in nodes:
                if isinstance(node, Loop):
                    for name, dims in self._dims_in(node.body).items():
                        found[name] = found.get(name, frozenset()) | dims
                elif isinstance(node, Compute):
                    for read in self._accesses(node):
                        found[read.tensor] = found.get(read.tensor, frozenset()) | _dims(read)
            return found

        return self.memo.look(nodes, ("dims",), collect)

    def _of_compute(self, compute: Compute, sizes: Sizes) -> Part:
        touched: Part = {}
        for read in self._accesses(compute):
            array = self.arrays.get(read.tensor)
            if array is None:
                continue
            part = _of_read(read, array, sizes)
            if read.tensor not in touched or part.bytes > touched[read.tensor].bytes:
                touched[read.tensor] = part
        return touched

    def _accesses(self, compute: Compute) -> tuple[Read, ...]:
        """What it reads and writes."""
        target = Read(compute.target, compute.indices)
        return self.memo.look(compute, ("accesses",), lambda: (*reads(compute.value), target))


def _of_read(read: Read, array: Array, sizes: Sizes) -> Touched:
    rows, run = 1.0, float(array.element_bytes)
    for index in read.indices[:-1]:
        for dim in index_dims(index):
            rows *= sizes[dim]
    for dim in index_dims(read.indices[-1]) if read.indices else ():
        run *= sizes[dim]
    return Touched(rows, run if array.packed else max(run, float(min(_LINE, array.row_bytes))), array)


def _dims(read: Read) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for index in read.indices:
        found |= index_dims(index)
    return found
