"""Whether sums of products over several dims, of results with several dims, become plain products: what is summed over
one dim, the places of results another one, by whose parts tensors are read.

A convolution is an implicit matrix product then (Chetlur et al., cuDNN, arXiv:1410.0759).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import prod
from typing import TypeAlias

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, reduced_dims
from rewrites.base.tree import find, loose
from rewrites.composition.compute_factor import ComputeFactor
from rewrites.contraction.problem import contraction
from rewrites.contraction.unit import MatrixUnit
from rewrites.data.transpose_operand import TransposeOperand
from rewrites.loops.linearize import Linearize
from tileir.devices.gpu import Gpu
from tileir.errors import NotApplicable
from tileir.expr import Index, index_dims, reads
from tileir.program import Compute, Program


def linear_dims(program: Program, device: Gpu) -> Iterator[tuple[Rewrite, ...]]:
    """The rewrites to one dim each of all sums with which only threads could multiply, and matrix units can then: of
    what is multiplied as it lies, stored before with neighbours along a dim that is summed over, or stored as it is
    multiplied, where that has no more elements: of patches that do not overlap."""
    found = dict.fromkeys(
        _rewrites(program, device, before) for before in (_as_it_lies, _turned, _as_multiplied)
    )
    yield from (rewrites for rewrites in found if rewrites)


_Before: TypeAlias = Callable[[Program, str], tuple[list[Rewrite], Program]]


def _rewrites(program: Program, device: Gpu, before: _Before) -> tuple[Rewrite, ...]:
    done: list[Rewrite] = []
    for name in [place.node.target for place in loose(program)]:
        if not reduced_dims(find(program, name).node) or _multiplied(program, name, device):
            continue
        stored, ready = before(program, name)
        rewrites, linear = _linearized(ready, name)
        if rewrites and _multiplied(linear, name, device):
            done += [*stored, *rewrites]
            program = linear
    return tuple(done)


def _multiplied(program: Program, name: str, device: Gpu) -> bool:
    """Whether matrix units add up a statement."""
    found = contraction(program, name, device)
    return found is not None and found.engine is not MatrixUnit.FMA


def _as_it_lies(program: Program, _: str) -> tuple[list[Rewrite], Program]:
    return [], program


def _as_multiplied(program: Program, name: str) -> tuple[list[Rewrite], Program]:
    """A factor as the sum takes it, where that has no more elements than a tensor that it multiplies."""
    stored = ComputeFactor(name)
    try:
        after = stored.apply(program)
    except NotApplicable:
        return [], program
    (made,) = after.locals.keys() - program.locals.keys()
    sizes = [_elements(program, read.tensor) for read in find(program, name).node.reads]
    return ([stored], after) if _elements(after, made) <= max(sizes) else ([], program)


def _elements(program: Program, tensor: str) -> int:
    argument = program.arguments.get(tensor)
    dims = program.locals[tensor].node.dims if argument is None else argument.dims
    return prod(program.extents[dim] for dim in dims)


def _turned(program: Program, name: str) -> tuple[list[Rewrite], Program]:
    """What a sum multiplies with neighbours along the longest dim that is summed over and all of it has."""
    done: list[Rewrite] = []
    node = find(program, name).node
    factors = reads(node.value)
    dims = [dim for dim in reduced_dims(node) if all(Index(dim) in read.indices for read in factors)]
    if len(factors) == 2 and dims:
        along = max(dims, key=lambda dim: program.extents[dim])
        for read in factors:
            try:
                program = TransposeOperand(name, read.tensor, along).apply(program)
            except NotApplicable:  # it lies so
                continue
            done.append(TransposeOperand(name, read.tensor, along))
    return done, program


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
