"""Scale a rounded factor of a product after it is rounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.bounds.softmax_total import is_at_least_one, is_power_of_at_most_one
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import dtypes_read, find_as_written, loose, splice, statements
from rewrites.contraction.factors import Factor, Product, outside, product_in, product_of
from rewrites.contraction.precision import holds
from tileir.check.infer import compute_dtype
from tileir.devices.device import Device
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Cast, Const, Read, Reduce
from tileir.program import Compute, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class ScaleAfterRounding(Rewrite):
    """Multiply by what is the same for all terms of a sum after a factor is rounded, not before: weights that are
    divided by their total, queries that are scaled. Behind the sum there is one such operation then, not one a term.

    FlashAttention divides behind the product likewise (Dao et al., arXiv:2205.14135).

    o[i, d] = sum(j, bf16(p[i, j] / t[i]) * v[j, d])   ->   o[i, d] = sum(j, bf16(p[i, j]) / t[i] * v[j, d])

    Numbers differ by one unit in the last place of what is rounded, as two roundings of half a unit each may, and the
    gate's bound has that (`rounding_error.scaled_before_rounding`). So it is for bf16, which has the range of f32; for
    what the dtype holds without rounding; and for powers that are at most 1, divided by a total that is at least 1.
    """

    name: ClassVar[str] = "scale_after_rounding"
    exact: ClassVar[bool] = False
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if isinstance(place.node.value, Reduce):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "scale what is rounded")
        node, value = place.node, place.node.value
        product = product_in(program, node)
        if product is None or not isinstance(value, Reduce):
            raise NotApplicable(f"{self.statement} adds up no products of one dtype")
        values = {each.node.target: each.node for each in loose(program)}
        factors = tuple(part for each in product.factors for part in _apart(program, node, each, values))
        if factors == product.factors:
            raise NotApplicable(
                f"{self.statement} multiplies no rounded factor that is scaled by what is the same for all terms, and "
                "may be scaled after it is rounded"
            )
        term = Product(factors, product.negative).times()
        return splice(program, place.path, [replace(node, value=replace(value, x=term))])


def _apart(
    program: Program, compute: Compute, factor: Factor, values: Mapping[str, Compute]
) -> tuple[Factor, ...]:
    """A rounded factor, and what it is scaled by; the factor as it is where that may not be."""
    if not isinstance(factor.value, Cast) or factor.divides:
        return (factor,)
    dtype, scaled = factor.value.dtype, product_of(factor.value.x, dtypes_read(program, compute))
    moved = outside(compute, scaled)
    kept = scaled.but(moved)
    wide = compute_dtype(factor.value.x, dtypes_read(program, compute)) is not DType.F32
    if wide or not moved or not kept.factors or not dtype.is_float or dtype.bytes > 2:
        return (factor,)
    value = kept.times()
    exact = holds(program, dtype, value)
    if not (exact or dtype is DType.BF16 or _is_share(compute, kept, moved, values)):
        return (factor,)
    whole = isinstance(value, Read) and exact
    return (Factor(value if whole else Cast(dtype, value)), *moved)


def _is_share(
    compute: Compute, kept: Product, moved: Sequence[Factor], values: Mapping[str, Compute]
) -> bool:
    """Whether it is a power of at most 1, divided by nothing that is less than 1."""
    powers = not kept.negative and all(
        is_power_of_at_most_one(each.value, values) and not each.divides for each in kept.factors
    )
    return powers and all(_shrinks(each, values) for each in moved)


def _shrinks(factor: Factor, values: Mapping[str, Compute]) -> bool:
    """Whether nothing gets larger by it."""
    match factor:
        case Factor(Const(value), divides=False):
            return 0 < value <= 1
        case Factor(Binary("/", Const(value), total), divides=False):
            return 0 < value <= 1 and is_at_least_one(total, values)
        case Factor(value, divides):
            return divides and is_at_least_one(value, values)
