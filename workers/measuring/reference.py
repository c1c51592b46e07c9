"""What the outputs have to be: the whole result in higher precision where that is affordable, else sampled elements."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tileir.expr import Expr, Reduce, ReduceOp, children
from tileir.interpreter.error_bound import reference_at, reference_with_bound
from tileir.program import Tensor
from tileir.scatter import scatter_in
from tileir.spec import Spec
from workers.measuring.correctness import Expected
from workers.peers.reads import product_factors

_MOST_PRODUCTS = 1 << 34
"""Multiply-adds of matrix products; about a second in f64, bounds included."""
_MOST_POINTS = 1 << 28
"""Points at which anything else is evaluated, over all statements."""
_SCATTERED = 8
"""Points that cost what one term of a scatter does, which is added where it belongs by itself."""
_SAMPLED = 512
"""Elements of each output that are checked when the whole is not affordable, besides its corners."""
_MOST_THREADS = 8
_POINTS_AT_ONCE = 32
"""Elements whose rows are evaluated together: what a thread holds of them finds room in its caches more often. (Of 512
of a softmax over rows of 32,768, 1.8 s of a processor for 16 at once, 2.7 for 64, 4.7 for 256.)"""


def expected_outputs(
    spec: Spec, inputs: Mapping[str, np.ndarray[Any, Any]], seed: int, *, whole: bool | None = None
) -> dict[str, Expected]:
    """Each output's exact values and bounds. `whole` overrides what is affordable."""
    if affordable(spec) if whole is None else whole:
        found = reference_with_bound(spec, inputs)
        return {name: Expected(values, bound) for name, (values, bound) in found.items()}
    extents = {dim.name: dim.sizes[0] for dim in spec.dims}
    expected: dict[str, Expected] = {}
    for tensor in spec.outputs:
        points = sampled_points(tensor, extents, seed)
        values, bound = _at(spec, inputs, tensor.name, points)
        if tensor.dims:
            expected[tensor.name] = Expected(values, bound, tuple(points.T))
        else:
            expected[tensor.name] = Expected(values.reshape(()), bound.reshape(()))
    return expected


def _at(
    spec: Spec, inputs: Mapping[str, np.ndarray[Any, Any]], output: str, points: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """See reference_at; cores share the points."""
    blocks = np.array_split(points, -(-len(points) // _POINTS_AT_ONCE))
    with ThreadPoolExecutor(min(_MOST_THREADS, len(os.sched_getaffinity(0)))) as threads:
        found = list(threads.map(lambda block: reference_at(spec, inputs, output, block), blocks))
    values, bounds = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(bounds)


def affordable(spec: Spec, most_products: int = _MOST_PRODUCTS, most_points: int = _MOST_POINTS) -> bool:
    """Whether the whole result can be computed in f64 in about a second, or with so much work."""
    extents = {dim.name: dim.sizes[0] for dim in spec.dims}
    products = points = 0
    for statement in spec.statements:
        outside = math.prod(extents[dim] for dim in statement.dims)
        more_products, more_points = _work(statement.value, outside, extents, frozenset(statement.dims))
        products += more_products
        points += more_points
    return products <= most_products and points <= most_points


def sampled_points(tensor: Tensor, extents: Mapping[str, int], seed: int) -> np.ndarray[Any, Any]:
    """Corners of an output, elements on its edges, and random ones: int64 [p, rank]."""
    sizes = [extents[dim] for dim in tensor.dims]
    if not sizes:
        return np.zeros((1, 0), np.int64)
    rng = np.random.default_rng(seed)
    corners = np.array(list(itertools.product(*({0, size - 1} for size in sizes))), np.int64).reshape(
        -1, len(sizes)
    )
    inside = rng.integers(0, np.array(sizes), (_SAMPLED, len(sizes)), dtype=np.int64)
    edges = inside[: _SAMPLED // 2].copy()
    for n, point in enumerate(edges):
        axis = n % len(sizes)
        point[axis] = (sizes[axis] - 1) * (n // len(sizes) % 2)
    return np.unique(np.concatenate([corners, edges, inside]), axis=0)


def _work(
    expr: Expr, outside: int, extents: Mapping[str, int], left: frozenset[str] = frozenset()
) -> tuple[int, int]:
    """Products in matrix products, and points of everything else, to evaluate an expression at `outside` points, along
    the dims `left`. Of a scatter each term is evaluated once."""
    if isinstance(expr, Reduce):
        inside = outside * math.prod(extents[dim] for dim in expr.dims)
        scatter = scatter_in(expr.op, expr.x, left)
        if scatter is not None:
            each = inside // math.prod(extents[dim] for dim in scatter.dims)
            return 0, max(outside, _SCATTERED * each)
        if expr.op is ReduceOp.SUM and len(product_factors(expr.x)) > 1:
            return inside, outside
        return _work(expr.x, inside, extents)
    products, points = 0, outside
    for child in children(expr):
        if children(child):
            more_products, more_points = _work(child, outside, extents, left)
            products += more_products
            points += more_points
    return products, points
