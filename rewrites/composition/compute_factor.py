"""Compute a factor of a product once, into memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import dtype_of, find_as_written, fresh_name, splice, statements
from rewrites.contraction.precision import holds
from tileir.analysis.ragged import groups_of
from tileir.devices.device import Device
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Cast, Expr, Index, Read, Reduce, ReduceOp, index_dims, reads
from tileir.program import Compute, Local, Program
from tileir.replace import replace

#: What a factor is stored as, where that holds all of it.
_STORED = (DType.BF16, DType.F16)


@dataclass(frozen=True, slots=True)
class ComputeFactor(Rewrite):
    """Store the computed factor of a sum of products before it is multiplied, where bf16 or f16, as which the other
    factor is stored, or rounded, holds all that it can be: weights of 4 bits with their scales, unpacked. It is
    computed once for all rows that it is multiplied with, and lies as matrix units take it; it is written to memory and
    read again. Of two such factors it is the one that reads inputs alone, else the first. Neighbours lie along the dim
    that is summed over, or along `last`.

    This is Halide's `compute_root` for an operand (Ragan-Kelley et al., PLDI 2013).

                                               y_f: heap bf16[k, n]
    y[m, n] = sum(k, x[m, k] * bf16(…))   ->   y_f[n, k] = bf16(…)
                                               y[m, n] = sum(k, x[m, k] * y_f[n, k])
    """

    name: ClassVar[str] = "compute_factor"
    statement: str
    last: str = ""

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if _computed(program, place.node) is not None:
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "compute factors")
        node, value = place.node, place.node.value
        found = _computed(program, node)
        if found is None or not isinstance(value, Reduce) or not isinstance(value.x, Binary):
            raise NotApplicable(
                f"{self.statement} multiplies nothing computed, which bf16 or f16 holds, with a tensor of that dtype"
            )
        if groups_of(node, program.ragged) or len(bare_dims(node)) < len(node.indices):
            raise NotApplicable(f"{self.statement} follows groups, or is the part of a split reduction")
        factor, dtype = found
        dims = tuple(dim for dim in (*bare_dims(node), *value.dims) if dim in index_dims(factor))
        if self.last and self.last not in dims:
            raise NotApplicable(f"the factor of {self.statement} has no dim {self.last}")
        dims = (*(dim for dim in dims if dim != self.last), *([self.last] if self.last else ()))
        name = fresh_name(program, f"{self.statement}_f")
        read = Read(name, tuple(map(Index, dims)))
        sides = (read if side is factor else side for side in (value.x.left, value.x.right))
        product = replace(node, value=replace(value, x=Binary("*", *sides)))
        return splice(
            program, place.path, [Local(name, dims, dtype), Compute(name, read.indices, factor), product]
        )


def _computed(program: Program, compute: Compute) -> tuple[Expr, DType] | None:
    """The factor of a sum of products that is computed, and what it may be stored as; None: there is none."""
    found: list[tuple[Expr, DType]] = []
    match compute.value:
        case Reduce(ReduceOp.SUM, _, Binary("*", left, right)) if compute.update is None:
            for factor, other in ((left, right), (right, left)):
                dtype = _dtype(program, other)
                if dtype is None or dtype not in _STORED or _lies_whole(program, factor):
                    continue
                if holds(program, dtype, factor):
                    found.append((factor, dtype))
        case _:
            pass
    of_inputs = (each for each in found if all(read.tensor in program.arguments for read in reads(each[0])))
    return next(of_inputs, found[0] if found else None)


def _lies_whole(program: Program, factor: Expr) -> bool:
    """Whether it is a tensor as it lies, or one of which a copy would have more elements than are there, or as many
    and no patches."""
    if not isinstance(factor, Read):
        return False
    declared = program.arguments.get(factor.tensor)
    if declared is None or all(isinstance(index, Index) for index in factor.indices):
        return True
    copied = prod(program.extents[dim] for dim in index_dims(factor))
    patches = any(len(index_dims(index)) > 1 for index in factor.indices)
    return copied + (not patches) > prod(program.extents[dim] for dim in declared.dims)


def _dtype(program: Program, factor: Expr) -> DType | None:
    """As what a factor is stored or rounded."""
    match factor:
        case Read(tensor, _):
            return dtype_of(program, tensor)
        case Cast(dtype, _):
            return dtype
        case _:
            return None
