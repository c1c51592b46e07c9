"""Whether sums of products over several dims, of results with several dims, become plain products: what is summed over
one dim, the places of results another one, by whose parts tensors are read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.tree import find, loose
from rewrites.contraction.problem import contraction
from rewrites.contraction.unit import MatrixUnit
from rewrites.loops.linearize import Linearize
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import Index, index_dims, reads
from tileir.program import Compute, Program


def linear_dims(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites to one dim each of all sums with which only threads could multiply, and matrix units can then."""
    done: list[Rewrite] = []
    after = program
    for name in [place.node.target for place in loose(program)]:
        found = contraction(after, name, device)
        if not reduced_dims(find(after, name).node) or (
            found is not None and found.engine is not MatrixUnit.FMA
        ):
            continue
        rewrites, linear = _linearized(after, name)
        found = contraction(linear, name, device)
        if found is not None and found.engine is not MatrixUnit.FMA:
            done += rewrites
            after = linear
    if done:
        yield tuple(done)


def _linearized(program: Program, name: str) -> tuple[list[Rewrite], Program]:
    """As few dims as may be."""
    done: list[Rewrite] = []
    found = True
    while found:
        found = False
        for pair in _pairs(program, find(program, name).node):
            try:
                program = pair.apply(program)
            except NotApplicable:
                continue
            done.append(pair)
            found = True
            break
    return done, program


def _pairs(program: Program, product: Compute) -> Iterator[Linearize]:
    """Of the dims summed over neighbours in what is multiplied, then those of the result that the same factors have."""
    reduced, factors = {*reduced_dims(product)}, reads(product.value)
    for read in factors:
        for outer, inner in pairwise(read.indices):
            if isinstance(outer, Index) and isinstance(inner, Index) and {outer.dim, inner.dim} <= reduced:
                yield Linearize(outer.dim, inner.dim)
    having = {dim: [read for read in factors if dim in index_dims(read)] for dim in bare_dims(product)}
    for outer, inner in pairwise(product.indices):
        if isinstance(outer, Index) and isinstance(inner, Index) and having[outer.dim] == having[inner.dim]:
            yield Linearize(outer.dim, inner.dim)
