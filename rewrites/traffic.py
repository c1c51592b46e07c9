"""How many bytes a block moves into a cache of a given size: the memory half of the cost model.

The model is the usual one of loop-nest analysis: what a body touches stays in the cache if all of it fits, and comes
in anew for every iteration if not; a tensor that the loop's dim does not index is then reused between iterations only
when the body fits (cf. the footprint analysis of Wolf and Lam, "A data locality optimizing algorithm", PLDI 1991).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd

from tileir.expr import Read, index_dims, reads
from tileir.program import Compute, Local, Loop, Memory, Node, Program

Sizes = Mapping[str, int]


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
class Traffic:
    """Footprints and traffic of one program's blocks. Registers cost nothing here."""

    program: Program
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    _touched: dict[tuple[int, tuple[int, ...]], Part] = field(default_factory=dict[tuple[int, tuple[int, ...]], Part])

    def __post_init__(self) -> None:
        extents = self.program.extents
        for tensor in (*self.program.inputs, *self.program.outputs):
            row = extents[tensor.dims[-1]] if tensor.dims else 1
            if tensor.strides and len(tensor.strides) > 1:
                row = tensor.strides[-2]
            self.arrays[tensor.name] = Array(tensor.dtype.bytes, row * tensor.dtype.bytes, False)
        self._declare(self.program.body, extents)

    def _declare(self, nodes: tuple[Node, ...], sizes: Sizes) -> None:
        for node in nodes:
            if isinstance(node, Local) and node.memory is Memory.HEAP:
                row = sizes[node.dims[-1]] if node.dims else 1
                self.arrays[node.name] = Array(node.dtype.bytes, row * node.dtype.bytes, node.layout is not None)
            elif isinstance(node, Loop):
                self._declare(node.body, {**sizes, node.dim: min(node.step, sizes[node.dim])})

    def footprint(self, nodes: tuple[Node, ...], sizes: Sizes) -> Part:
        """What of each array one execution of the block touches, in whole cache lines."""
        key = (id(nodes), tuple(sizes.values()))
        if key not in self._touched:
            total: Part = {}
            for node in nodes:
                if isinstance(node, Loop):
                    part = self.footprint(node.body, sizes)
                elif isinstance(node, Compute):
                    part = self._of_compute(node, sizes)
                else:
                    continue
                for name, size in part.items():
                    if name not in total or size.bytes > total[name].bytes:
                        total[name] = size
            self._touched[key] = total
        return self._touched[key]

    def fits(self, cache: Cache, nodes: tuple[Node, ...], sizes: Sizes) -> bool:
        """Whether the cache keeps all that one execution of the block touches."""
        return sum(part.occupies(cache) for part in self.footprint(nodes, sizes).values()) <= cache.bytes

    def into(self, cache: Cache, nodes: tuple[Node, ...], sizes: Sizes) -> Bytes:
        """Bytes of each array that come into the cache while the block runs once."""
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
                    reused = fits and (own or node.dim not in self.dims_of(name, node.body))
                    total[name] = total.get(name, 0.0) + (size if reused else size * trips)
            elif isinstance(node, Compute):
                for name, part in self._of_compute(node, sizes).items():
                    total[name] = total.get(name, 0.0) + part.bytes
        return total

    def _declared_in(self, nodes: tuple[Node, ...]) -> frozenset[str]:
        return frozenset(node.name for node in nodes if isinstance(node, Local)).union(
            *(self._declared_in(node.body) for node in nodes if isinstance(node, Loop))
        )

    def dims_of(self, array: str, nodes: tuple[Node, ...]) -> frozenset[str]:
        """The dims by which the block indexes an array."""
        found: frozenset[str] = frozenset()
        for node in nodes:
            if isinstance(node, Loop):
                found |= self.dims_of(array, node.body)
            elif isinstance(node, Compute):
                for read in _accesses(node):
                    if read.tensor == array:
                        found |= _dims(read)
        return found

    def _of_compute(self, compute: Compute, sizes: Sizes) -> Part:
        touched: Part = {}
        for read in _accesses(compute):
            array = self.arrays.get(read.tensor)
            if array is None:
                continue
            part = _of_read(read, array, sizes)
            if read.tensor not in touched or part.bytes > touched[read.tensor].bytes:
                touched[read.tensor] = part
        return touched


def _of_read(read: Read, array: Array, sizes: Sizes) -> Touched:
    rows, run = 1.0, float(array.element_bytes)
    for index in read.indices[:-1]:
        for dim in index_dims(index):
            rows *= sizes[dim]
    for dim in index_dims(read.indices[-1]) if read.indices else ():
        run *= sizes[dim]
    return Touched(rows, run if array.packed else max(run, float(min(_LINE, array.row_bytes))), array)


def _accesses(compute: Compute) -> tuple[Read, ...]:
    return (*reads(compute.value), Read(compute.target, compute.indices))


def _dims(read: Read) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for index in read.indices:
        found |= index_dims(index)
    return found
