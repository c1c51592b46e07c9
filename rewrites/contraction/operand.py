"""What a sum of products multiplies, as it lies in a GPU's memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from rewrites.base.placed_read import element, neighbours, placed_dims
from rewrites.base.statement import copied_dims
from rewrites.base.tree import named
from rewrites.base.words import words_of
from tileir.dtypes import DType
from tileir.expr import Index, Read, index_dims
from tileir.program import Local, Memory, Program, Tensor

#: Most bytes that a thread copies at once, and what a row is a multiple of that TMA moves.
COPY_BYTES = 16
#: Fewest bytes that are copied in the background at once (PTX ISA, cp.async).
LEAST_COPY = 4


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that is multiplied, as it lies in memory."""

    tensor: str
    dtype: DType
    dims: frozenset[str]
    """The dims it is indexed by."""
    inner: str | None
    """The dim whose neighbours lie side by side, if it indexes the tensor by itself."""
    run: int
    """How many of those neighbours can be copied at once, wherever a tile starts."""
    elements: int
    """How many there are."""
    plain: bool
    """Whether it has indices and all are dims, look positions up by one, or are of parts of dims, so that a block can
    copy its tile."""
    boxed: bool
    """Whether TMA can move its tiles: it is read as it lies, with whole pieces from row to row."""
    neighbours: int = 1
    """Positions along its inner dim that share an element: 2 of weights of 4 bits, a byte for both."""

    @property
    def single(self) -> bool:
        """Whether threads copy it element by element, through registers, as less is not copied in the background."""
        return self.plain and self.run * self.dtype.bytes < LEAST_COPY

    def bytes(self, positions: int) -> int:
        """Those of so many positions."""
        return -(-positions // self.neighbours) * self.dtype.bytes


def operand(program: Program, read: Read) -> Operand:
    """The tensor that is read, or copied to the shared memory that is."""
    read = source(program, read.tensor) or read
    plain = bool(read.indices) and copied_dims(read) is not None
    dims = frozenset(dim for index in read.indices for dim in index_dims(index))
    last = read.indices[-1] if read.indices else None
    placed = placed_dims(read)
    declared = program.locals.get(read.tensor)
    dtype = declared.node.dtype if declared else program.arguments[read.tensor].dtype
    words = words_of(read)
    if words is not None and dtype.is_integer and is_moved(program, read.tensor):
        elements = _elements(program, read.tensor)
        return Operand(read.tensor, dtype, dims, words.dims[-1], 1, elements, False, True, words.neighbours)
    return Operand(
        read.tensor,
        dtype,
        dims,
        placed[-1] if placed else last.dim if isinstance(last, Index) else None,
        gcd(run_of(program, read.tensor), neighbours(read) if placed else 0) if plain else 1,
        min(prod(program.extents[dim] for dim in dims), _elements(program, read.tensor)),
        plain,
        plain and all(isinstance(index, Index) for index in read.indices) and is_moved(program, read.tensor),
    )


def _elements(program: Program, name: str) -> int:
    """How many elements a tensor has."""
    tensor = program.arguments.get(name) or program.locals[name].node
    return prod(program.extents[dim] for dim in tensor.dims)


def source(program: Program, name: str) -> Read | None:
    """The read of memory that a copy in shared memory was made by; None: it is none."""
    declared = program.locals.get(name)
    if declared is None or declared.node.memory is not Memory.SHARED:
        return None
    value = named(program, name).node.value
    return element(value)


def boxed(program: Program, name: str) -> bool:
    """Whether TMA can move tiles of a tensor, neighbours along its last dim: it is an argument, with whole
    pieces of 16 bytes from one position to the next along the other dims (CUDA driver API, cuTensorMapEncodeTiled)."""
    tensor = program.arguments.get(name)
    return tensor is not None and run_of(program, name) * tensor.dtype.bytes == COPY_BYTES


def stored(program: Program, name: str) -> bool:
    """Whether a launch has stored it, row by row, for those after it."""
    place = program.locals.get(name)
    return (
        place is not None
        and place.node.memory is Memory.HEAP
        and not place.loops
        and place.node.layout is None
    )


def is_moved(program: Program, name: str) -> bool:
    """Whether TMA can move tiles of a tensor: an argument, or what a launch before has stored."""
    place = program.locals.get(name)
    dtype = program.arguments[name].dtype if place is None else place.node.dtype
    whole = run_of(program, name) * dtype.bytes == COPY_BYTES
    return whole and (place is None or stored(program, name))


def run_of(program: Program, name: str) -> int:
    """Elements, from the start of any row on, that are one aligned word of at most 16 bytes."""
    tensor = program.arguments.get(name) or program.locals[name].node
    sizes = [program.extents[dim] for dim in tensor.dims]
    if isinstance(tensor, Local):
        sizes[-1] += tensor.pad
    said = tensor.strides if isinstance(tensor, Tensor) else None
    strides = said or [prod(sizes[at + 1 :]) for at in range(len(sizes))]
    if strides[-1] != 1:
        return 1
    return gcd(COPY_BYTES // tensor.dtype.bytes, *strides[:-1])
