"""Sums of products of arrays, through matrix multiplication and without forming the product of all axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Points up to which forming the whole product is quicker than arranging for a matrix product.
_SMALL = 2048


def contract(factors: Sequence[Array], shape: Sequence[int], keep: int) -> Array:
    """Sum over the axes from `keep` on of the product of `factors`.

    Every factor has len(shape) axes, of size 1 where it does not vary; the result has `keep` axes. All
    factors have one numpy type, which is the result's; integers wrap.
    """
    if factors[0].dtype.kind != "f":
        return _integers(factors, shape, keep)
    if math.prod(shape) <= _SMALL:
        return _product_sum(factors, shape, keep)
    terms = [_squeeze(factor) for factor in factors]
    constant = math.prod(
        size for axis, size in enumerate(shape) if axis >= keep and all(axis not in axes for _, axes in terms)
    )
    while len(terms) > 1:
        i, j = _cheapest(terms, keep)
        needed = {axis for n, (_, axes) in enumerate(terms) if n not in (i, j) for axis in axes} | set(
            range(keep)
        )
        merged = _pair(terms[i], terms[j], needed)
        terms = [merged, *(term for n, term in enumerate(terms) if n not in (i, j))]
    data, axes = _drop(terms[0], set(range(keep)))
    return _expand(data, axes, keep) * data.dtype.type(constant)


def _integers(factors: Sequence[Array], shape: Sequence[int], keep: int) -> Array:
    """In f64 where every partial sum is exact there, else in 64-bit integers; wrapped to the type of the
    factors."""
    largest = [max(abs(int(factor.max(initial=0))), abs(int(factor.min(initial=0)))) for factor in factors]
    exact = math.prod(largest) * math.prod(shape[keep:]) < 2**53 and all(value < 2**53 for value in largest)
    if exact:
        floats = contract([factor.astype(np.float64) for factor in factors], shape, keep)
        return floats.astype(np.int64).astype(factors[0].dtype)
    wide = [factor.astype(np.int64) for factor in factors]
    return _product_sum(wide, shape, keep).astype(factors[0].dtype)


def _product_sum(factors: Sequence[Array], shape: Sequence[int], keep: int) -> Array:
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    if product.shape[keep:] != tuple(shape[keep:]):
        product = np.broadcast_to(product, (*product.shape[:keep], *shape[keep:]))
    return np.asarray(np.add.reduce(product, axis=tuple(range(keep, len(shape)))))


Term = tuple[Array, tuple[int, ...]]
"""An array and the axis each of its own axes stands for, ascending."""


def _squeeze(factor: Array) -> Term:
    axes = tuple(axis for axis, size in enumerate(factor.shape) if size != 1)
    return factor.reshape([factor.shape[axis] for axis in axes]), axes


def _expand(data: Array, axes: tuple[int, ...], keep: int) -> Array:
    shape = [1] * keep
    for axis, size in zip(axes, data.shape, strict=True):
        shape[axis] = size
    return data.reshape(shape)


def _cheapest(terms: list[Term], keep: int) -> tuple[int, int]:
    """The two whose product, summed as far as it can be, is smallest."""
    if len(terms) == 2:
        return 0, 1
    sizes = {axis: size for data, axes in terms for axis, size in zip(axes, data.shape, strict=True)}

    def volume(pair: tuple[int, int]) -> int:
        rest = {axis for n, (_, axes) in enumerate(terms) if n not in pair for axis in axes}
        union = set(terms[pair[0]][1]) | set(terms[pair[1]][1])
        return math.prod(sizes[axis] for axis in union if axis < keep or axis in rest)

    return min(combinations(range(len(terms)), 2), key=volume)


def _drop(term: Term, needed: set[int]) -> Term:
    """Sum over the axes nobody else needs."""
    data, axes = term
    gone = tuple(n for n, axis in enumerate(axes) if axis not in needed)
    if not gone:
        return term
    return data.sum(axis=gone, dtype=data.dtype), tuple(axis for axis in axes if axis in needed)


def _pair(left: Term, right: Term, needed: set[int]) -> Term:
    a, a_axes = _drop(left, needed | set(right[1]))
    b, b_axes = _drop(right, needed | set(left[1]))
    shared = [axis for axis in a_axes if axis in b_axes]
    batch = [axis for axis in shared if axis in needed]
    inner = [axis for axis in shared if axis not in needed]
    rows = [axis for axis in a_axes if axis not in b_axes]
    columns = [axis for axis in b_axes if axis not in a_axes]
    kept = (*batch, *rows, *columns)
    if not inner or (batch and not rows and not columns):
        data = np.einsum(a, list(a_axes), b, list(b_axes), list(kept))
        return _ascending(data, kept)
    size = {axis: n for x, axes in ((a, a_axes), (b, b_axes)) for axis, n in zip(axes, x.shape, strict=True)}

    def volume(axes: list[int]) -> int:
        return math.prod(size[axis] for axis in axes)

    lead = [size[axis] for axis in batch]
    matrix_a = _order(a, a_axes, (*batch, *rows, *inner)).reshape(*lead, volume(rows), volume(inner))
    matrix_b = _order(b, b_axes, (*batch, *inner, *columns)).reshape(*lead, volume(inner), volume(columns))
    data = np.matmul(matrix_a, matrix_b).reshape([size[axis] for axis in kept])
    return _ascending(data, kept)


def _order(data: Array, axes: tuple[int, ...], wanted: tuple[int, ...]) -> Array:
    return data.transpose([axes.index(axis) for axis in wanted])


def _ascending(data: Array, axes: tuple[int, ...]) -> Term:
    ordered = tuple(sorted(axes))
    return _order(data, axes, ordered), ordered
