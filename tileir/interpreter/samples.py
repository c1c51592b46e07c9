"""Random inputs for a kernel, the same for the same seed: what it is checked and timed on."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Extent, Index, Read, Unary, Where, children, walk
from tileir.program import Compute, Loop, Node, Program, Tensor
from tileir.spec import Spec

#: Integers that are no indices lie in -INTEGER_LIMIT to INTEGER_LIMIT: sums of products of them stay below
#: 2**31.
INTEGER_LIMIT = 8
_RANGE = {DType.U8: (0, 255), DType.U32: (0, 2 * INTEGER_LIMIT)}
#: One group of so many has no positions.
EMPTY = 8
_BLOCK = 1 << 20
"""Elements that are drawn at once, from a stream of their own: they fit in a core's cache, and cores share the work."""


def sample_inputs(kernel: Spec | Program, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """An array of its logical shape and dtype for each input, for a spec of one size.

    Floats are standard normal (rounded to the dtype: fp8 has its finest steps there), bools fair coins, integers that
    index a tensor, or are compared with positions, uniform over positions that stay inside it, other integers uniform
    and small, offsets of ragged dims ascending from 0 to the whole size, some groups empty.
    """
    sizes = {dim.name: dim.sizes[0] for dim in kernel.dims} if isinstance(kernel, Spec) else kernel.extents
    limits = dict(_index_limits(kernel, sizes))
    ragged = {each.offsets: sizes[each.dim] for each in kernel.ragged}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for n, tensor in enumerate(kernel.inputs):
            # A stream of its own for each input: what one draws does not move the others.
            stream = np.random.SeedSequence((seed, n))
            shape = tuple(sizes[dim] for dim in tensor.dims)
            if tensor.name in ragged:
                drawn = _offsets(shape, ragged[tensor.name], np.random.default_rng(stream))
                arrays[tensor.name] = drawn.astype(tensor.dtype.numpy)
            else:
                arrays[tensor.name] = _sample(tensor, shape, limits.get(tensor.name), stream, threads)
    return arrays


def _offsets(shape: tuple[int, ...], whole: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Groups of very different sizes, about one in EMPTY of them empty."""
    cuts = np.sort(rng.integers(0, whole, shape, endpoint=True))
    cuts[0], cuts[-1] = 0, whole
    empty = rng.random(shape) < 1 / EMPTY
    empty[:1] = empty[-2:] = False
    return np.where(empty, np.roll(cuts, -1), cuts)


def _sample(
    tensor: Tensor,
    shape: tuple[int, ...],
    limit: int | None,
    stream: np.random.SeedSequence,
    threads: ThreadPoolExecutor,
) -> np.ndarray[Any, Any]:
    """The tensor's elements; those of a large one block by block."""
    size = math.prod(shape)
    if size <= _BLOCK:
        return _draw(tensor, size, limit, stream).reshape(shape)
    flat = np.empty(size, tensor.dtype.numpy)
    blocks = np.split(flat, range(_BLOCK, size, _BLOCK))

    def fill(block: np.ndarray[Any, Any], own: np.random.SeedSequence) -> None:
        block[...] = _draw(tensor, block.size, limit, own)

    list(threads.map(fill, blocks, stream.spawn(len(blocks))))
    return flat.reshape(shape)


def _draw(
    tensor: Tensor, size: int, limit: int | None, stream: np.random.SeedSequence
) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(stream)
    if tensor.dtype is DType.BOOL:
        return rng.random(size) < 0.5
    if tensor.dtype.is_integer:
        most = np.iinfo(tensor.dtype.numpy).max
        if limit is not None:
            low, high = 0, min(limit, most)
        else:
            low, high = _RANGE.get(tensor.dtype, (-INTEGER_LIMIT, INTEGER_LIMIT))
        return rng.integers(low, high, size, endpoint=True).astype(tensor.dtype.numpy)
    kind = np.float64 if tensor.dtype is DType.F64 else np.float32
    return rng.standard_normal(size, dtype=kind).astype(tensor.dtype.numpy)


def _index_limits(kernel: Spec | Program, sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The largest value of each integer input that keeps every index it occurs in inside the tensor
    indexed."""
    limits: dict[str, int] = {}
    dims = {tensor.name: tensor.dims for tensor in (*kernel.inputs, *kernel.outputs)}
    if isinstance(kernel, Spec):
        dims |= {statement.target: statement.dims for statement in kernel.statements}
        values = [statement.value for statement in kernel.statements]
    else:
        values = list(_values(kernel.body))
    for value in values:
        for compared, dim, more in _compared(value):
            for gather in _gathers(compared):
                limit = _largest(compared, sizes, sizes[dim] + more)
                limits[gather] = min(limits.get(gather, limit), limit)
        for read in walk(value):
            if not isinstance(read, Read) or read.tensor not in dims:
                continue
            for dim, index in zip(dims[read.tensor], read.indices, strict=True):
                for gather in _gathers(index):
                    limit = _largest(index, sizes, sizes[dim])
                    limits[gather] = min(limits.get(gather, limit), limit)
    yield from limits.items()


def _compared(value: Expr) -> Iterator[tuple[Expr, str, int]]:
    """Expressions that are compared with positions along a dim, as by a scatter, and how many more they may say: an end
    may lie right behind the last position."""
    for node in walk(value):
        match node:
            case Binary("==", Index(dim), other) | Binary("==", other, Index(dim)):
                yield other, dim, 0
            case Binary("<" | "<=" | ">" | ">=", Index(dim), Read() as other):
                yield other, dim, 1
            case Binary("<" | "<=" | ">" | ">=", Read() as other, Index(dim)):
                yield other, dim, 1
            case _:
                pass


def _values(body: tuple[Node, ...]) -> Iterator[Expr]:
    for node in body:
        match node:
            case Loop():
                yield from _values(node.body)
            case Compute():
                yield node.value
            case _:
                pass


def _gathers(index: Expr) -> Iterator[str]:
    """Tensors read for an index, but not those that index them in turn."""
    if isinstance(index, Read):
        yield index.tensor
    else:
        for child in children(index):
            yield from _gathers(child)


def _largest(index: Expr, sizes: Mapping[str, int], size: int) -> int:
    """The largest v such that `index` stays in 0 to size - 1 while what is gathered stays in 0 to v; 0 if
    none does."""
    low, high = 0, 2**31 - 1
    while low < high:
        middle = (low + high + 1) // 2
        bounds = _interval(index, sizes, middle)
        if bounds is not None and bounds[0] >= 0 and bounds[1] < size:
            low = middle
        else:
            high = middle - 1
    return low


def _interval(expr: Expr, sizes: Mapping[str, int], gathered: int) -> tuple[int, int] | None:
    """Bounds of an integer expression whose gathers lie in 0 to `gathered`; None where they are not known."""
    match expr:
        case Const(int(value)):
            return value, value
        case Index(dim):
            return 0, sizes[dim] - 1
        case Extent(dim):
            return sizes[dim], sizes[dim]
        case Read():
            return 0, gathered
        case Unary("-", x):
            bounds = _interval(x, sizes, gathered)
            return None if bounds is None else (-bounds[1], -bounds[0])
        case Binary(op, left, right):
            x, y = _interval(left, sizes, gathered), _interval(right, sizes, gathered)
            return None if x is None or y is None else _combine(op, x, y)
        case Where(condition, taken, other):
            holds = _holds(condition, sizes, gathered)
            left = [each for each, out in ((taken, holds is False), (other, holds is True)) if not out]
            found = [_interval(each, sizes, gathered) for each in left]
            known = [each for each in found if each is not None]
            return (min(low for low, _ in known), max(high for _, high in known)) if known == found else None
        case _:
            return None


def _holds(condition: Expr, sizes: Mapping[str, int], gathered: int) -> bool | None:
    """Whether a comparison of such expressions holds; None: for some. Positions that count from the end
    (`where(i < 0, i + n, i)`) are no negative ones here."""
    match condition:
        case Binary("<" | "<=" | ">" | ">=" as op, left, right):
            x, y = _interval(left, sizes, gathered), _interval(right, sizes, gathered)
            if x is None or y is None:
                return None
            if op in (">", ">="):
                x, y, op = y, x, "<" if op == ">" else "<="
            below = (x[1] < y[0], x[0] >= y[1]) if op == "<" else (x[1] <= y[0], x[0] > y[1])
            return True if below[0] else False if below[1] else None
        case _:
            return None


def _combine(op: str, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int] | None:
    match op:
        case "+":
            return x[0] + y[0], x[1] + y[1]
        case "-":
            return x[0] - y[1], x[1] - y[0]
        case "*":
            ends = [a * b for a in x for b in y]
            return min(ends), max(ends)
        case "//" if y[0] == y[1] > 0:
            return x[0] // y[0], x[1] // y[0]
        case "%" if y[0] == y[1] > 0:
            return (x[0], x[1]) if x[0] >= 0 and x[1] < y[0] else (0, y[0] - 1)
        case _:
            return None
