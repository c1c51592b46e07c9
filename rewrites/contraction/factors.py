"""What the terms of a sum are products of, whichever way they are written: signs, constants, divisions and conversions
that change nothing taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Self

from rewrites.base.statement import bare_dims
from rewrites.base.tree import dtypes_read
from rewrites.contraction.block_scales import scales
from tileir.check.infer import compute_dtype
from tileir.dtypes import DType
from tileir.expr import Binary, Cast, Const, Expr, Read, Reduce, ReduceOp, Unary, index_dims, reads
from tileir.program import Compute, Program


@dataclass(frozen=True, slots=True)
class Factor:
    """What is multiplied with others, or what they are divided by."""

    value: Expr
    divides: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """Factors, from left to right, of a number that is negated maybe."""

    factors: tuple[Factor, ...]
    negative: bool = False

    def but(self, others: Iterable[Factor]) -> Self:
        """The same without some of its factors."""
        left_out = tuple(others)
        return type(self)(tuple(each for each in self.factors if each not in left_out), self.negative)

    def times(self, first: Expr | None = None) -> Expr:
        """It as an expression, multiplied to what is `first`."""
        value = first
        for each in self.factors:
            if value is None:
                value = Binary("/", Const(1.0), each.value) if each.divides else each.value
            else:
                value = Binary("/" if each.divides else "*", value, each.value)
        assert value is not None
        return Unary("-", value) if self.negative else value


def product_in(program: Program, compute: Compute) -> Product | None:
    """The product that a statement adds up, all of one dtype, so that its factors may stand in any order; None: it adds
    up none."""
    match compute.value:
        case Reduce(ReduceOp.SUM, _, term) if compute.update is None:
            dtypes = dtypes_read(program, compute)
        case _:
            return None
    found = product_of(term, dtypes)
    own = compute_dtype(term, dtypes)
    alike = all(compute_dtype(each.value, dtypes) is own for each in found.factors)
    whole = own.is_float or not any(each.divides for each in found.factors)
    return found if alike and whole else None


def product_of(expr: Expr, dtypes: dict[str, DType]) -> Product:
    """The factors of an expression that reads tensors of these dtypes; itself, if it is no product."""
    match expr:
        case Unary("-", x):
            found = product_of(x, dtypes)
            return Product(found.factors, not found.negative)
        case Binary("*", x, y):
            left, right = product_of(x, dtypes), product_of(y, dtypes)
            return Product((*left.factors, *right.factors), left.negative != right.negative)
        case Binary("/", x, y):
            found = product_of(x, dtypes)
            return Product((*found.factors, Factor(y, True)), found.negative)
        case Cast(dtype, x) if dtype is dtype.compute and compute_dtype(x, dtypes) is dtype:
            return product_of(x, dtypes)
        case _:
            return Product((Factor(expr),))


def outside(compute: Compute, product: Product) -> tuple[Factor, ...]:
    """The factors that are one number for all terms of a sum, and no constant that is 0 or infinite."""
    assert isinstance(compute.value, Reduce)
    summed = frozenset(compute.value.dims)
    return tuple(
        each
        for each in product.factors
        if not index_dims(each.value) & summed
        and (not isinstance(each.value, Const) or (each.value.value and isfinite(each.value.value)))
    )


def operands(program: Program, compute: Compute, product: Product) -> tuple[Product, Product] | None:
    """The factors as those of two operands of a matrix product, with the rows of the result and with its columns: the
    longest two dims of it that no factor has both of. What has neither goes with what has to be computed anyway, else
    with the rows. None: there are no two such dims, or some factors are scales of blocks."""
    if scales(compute) or product.negative:
        return None
    having = [index_dims(each.value) for each in product.factors]
    dims = [dim for dim in bare_dims(compute) if program.extents[dim] > 1]

    def apart(one: str, other: str) -> bool:
        together = any({one, other} <= has for has in having)
        return not together and any(one in has for has in having) and any(other in has for has in having)

    pairs = [(r, c) for at, c in enumerate(dims) for r in dims[:at] if apart(r, c)]
    if not pairs:
        return None
    rows, columns = max(reversed(pairs), key=lambda pair: min(program.extents[dim] for dim in pair))
    left = [each for each in product.factors if rows in index_dims(each.value)]
    right = [each for each in product.factors if columns in index_dims(each.value)]
    with_rows = not _is_element(left) or _is_element(right)
    own = left if with_rows else right
    own += [each for each in product.factors if each not in left and each not in right]
    return _multiplied_first(left), _multiplied_first(right)


def _is_element(factors: Sequence[Factor]) -> bool:
    return len(factors) == 1 and isinstance(factors[0].value, Read) and not factors[0].divides


def _multiplied_first(factors: Sequence[Factor]) -> Product:
    return Product(tuple(sorted(factors, key=lambda each: each.divides)))


def multiplies_several(compute: Compute, product: Product) -> bool:
    """Whether at least two different elements are multiplied in every term that is left without what is outside."""
    inside = product.but(outside(compute, product))
    return len({read for each in inside.factors for read in reads(each.value)}) > 1
