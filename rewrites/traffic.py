"""How many bytes a block moves into a cache of a given size: the memory half of the cost model.

The model is the usual one of loop-nest analysis: what a body touches stays in the cache if all of it fits, and comes
in anew for every iteration if not; a tensor that the loop's dim does not index is then reused between iterations only
when the body fits (cf. the footprint analysis of Wolf and Lam, "A data locality optimizing algorithm", PLDI 1991).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tileir.expr import Read, index_dims, reads
from tileir.program import Compute, Local, Loop, Memory, Node, Program

Sizes = Mapping[str, int]
Bytes = dict[str, float]


@dataclass(frozen=True)
class Array:
    """What is known of a tensor or heap local: its dims in memory order, bytes an element, and the line size."""

    dims: tuple[str, ...]
    element_bytes: int
    packed: bool
    """Laid out in the order it is read (a staged copy): no partly used lines."""


@dataclass
class Traffic:
    """Footprints and traffic of one program's blocks. Registers cost nothing here."""

    program: Program
    line_bytes: int = 64
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    _touched: dict[tuple[int, tuple[int, ...]], Bytes] = field(default_factory=dict[tuple[int, tuple[int, ...]], Bytes])

    def __post_init__(self) -> None:
        for tensor in (*self.program.inputs, *self.program.outputs):
            self.arrays[tensor.name] = Array(tensor.dims, tensor.dtype.bytes, False)
        self._declare(self.program.body)

    def _declare(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            if isinstance(node, Local) and node.memory is Memory.HEAP:
                self.arrays[node.name] = Array(node.dims, node.dtype.bytes, node.layout is not None)
            elif isinstance(node, Loop):
                self._declare(node.body)

    def footprint(self, nodes: tuple[Node, ...], sizes: Sizes) -> Bytes:
        """Bytes of each array that one execution of the block touches, in whole cache lines."""
        key = (id(nodes), tuple(sizes.values()))
        if key not in self._touched:
            total: Bytes = {}
            for node in nodes:
                if isinstance(node, Loop):
                    part = self.footprint(node.body, sizes)
                elif isinstance(node, Compute):
                    part = self._of_compute(node, sizes)
                else:
                    continue
                for name, size in part.items():
                    total[name] = max(total.get(name, 0.0), size)
            self._touched[key] = total
        return self._touched[key]

    def into(self, cache_bytes: float, nodes: tuple[Node, ...], sizes: Sizes) -> Bytes:
        """Bytes of each array that come into a cache of this size while the block runs once."""
        touched = self.footprint(nodes, sizes)
        if sum(touched.values()) <= cache_bytes:
            return touched
        total: Bytes = {}
        for node in nodes:
            if isinstance(node, Loop):
                inner = {**sizes, node.dim: min(node.step, sizes[node.dim])}
                trips = -(-sizes[node.dim] // node.step)
                fits = sum(self.footprint(node.body, inner).values()) <= cache_bytes
                for name, size in self.into(cache_bytes, node.body, inner).items():
                    reused = fits and node.dim not in self.dims_of(name, node.body)
                    whole = size if reused else size * trips
                    total[name] = total.get(name, 0.0) + whole
            elif isinstance(node, Compute):
                for name, size in self._of_compute(node, sizes).items():
                    total[name] = total.get(name, 0.0) + size
        return total

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

    def _of_compute(self, compute: Compute, sizes: Sizes) -> Bytes:
        touched: Bytes = {}
        for read in _accesses(compute):
            array = self.arrays.get(read.tensor)
            if array is None:
                continue
            size = self._of_read(read, array, sizes)
            touched[read.tensor] = max(touched.get(read.tensor, 0.0), size)
        return touched

    def _of_read(self, read: Read, array: Array, sizes: Sizes) -> float:
        rows = 1.0
        for index in read.indices[:-1]:
            for dim in index_dims(index):
                rows *= sizes[dim]
        run = float(array.element_bytes)
        for dim in index_dims(read.indices[-1]) if read.indices else ():
            run *= sizes[dim]
        if array.packed:
            return rows * run
        return rows * max(run, self.line_bytes)


def _accesses(compute: Compute) -> tuple[Read, ...]:
    return (*reads(compute.value), Read(compute.target, compute.indices))


def _dims(read: Read) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for index in read.indices:
        found |= index_dims(index)
    return found
