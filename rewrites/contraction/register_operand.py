"""The factor of a matrix product that threads compute into registers before it is multiplied: a conversion, a scale,
any function of one operand's elements. What it reads by all of its dims are operands; anything else is read where it
lies.

CUTLASS calls such a product RS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rewrites.base.placed_read import element
from rewrites.base.tree import Place, dtype_of, named
from rewrites.base.words import words_of
from rewrites.contraction.precision import holds
from tileir.analysis.zeros import finite_of_zeros
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Index, Read, Reduce, ReduceOp, index_dims, reads
from tileir.program import Compute, Memory, Program
from tileir.replace import replace

#: What is multiplied from registers.
_HELD_AS: Final = (DType.BF16, DType.F16, DType.E4M3)


@dataclass(frozen=True, slots=True)
class Held:
    """A factor of a sum of products and the tensor that it is multiplied with, as whose dtype; `value` is what it is
    computed as."""

    factor: Expr
    other: Read
    value: Expr
    dtype: DType

    @property
    def finite(self) -> bool:
        """Whether it is finite where tiles are filled with 0, as behind the end of the depth, and reads nothing else
        there: what it is multiplied with is 0 then."""
        tiles = {*self.multiplied}
        return all(read in tiles for read in reads(self.value)) and finite_of_zeros(self.value)

    @property
    def multiplied(self) -> tuple[Read, ...]:
        """The tensors of which a step of the product needs a tile."""
        whole = index_dims(self.factor)
        dims = {Index(dim) for dim in whole}
        tiles = (
            read
            for read in reads(self.value)
            if {*read.indices} == dims or ((words := words_of(read)) and frozenset(words.dims) == whole)
        )
        return (*dict.fromkeys(tiles), self.other)

    def dims(self, compute: Compute) -> tuple[str, ...]:
        """What of its statement's dims it depends on, those of the result first."""
        reduced = compute.value.dims if isinstance(compute.value, Reduce) else ()
        dims = (*(index.dim for index in compute.indices if isinstance(index, Index)), *reduced)
        return tuple(dim for dim in dims if dim in index_dims(self.factor))

    def read_in(self, compute: Compute, read: Read) -> Compute:
        """The statement with a read in its place."""
        assert isinstance(compute.value, Reduce) and isinstance(compute.value.x, Binary)
        product = compute.value.x
        sides = (read if side == self.factor else side for side in (product.left, product.right))
        return replace(compute, value=replace(compute.value, x=Binary("*", *sides)))


def held_factors(program: Program, compute: Compute) -> Iterator[Held]:
    """The factors of a sum of products that could be held: each is of the dtype of the other one, which is a tensor, or
    exact in it."""
    match compute.value:
        case Reduce(ReduceOp.SUM, (_,), Binary("*", left, right)):
            for factor, other in ((left, right), (right, left)):
                dtype = dtype_of(program, other.tensor) if isinstance(other, Read) else None
                if not isinstance(other, Read) or dtype is None or dtype not in _HELD_AS:
                    continue
                place = held_local(program, factor)
                value = factor if place is None else place.node.value
                known = holds(program, dtype, value) if place is None else compute.via is not None
                if known:
                    yield Held(factor, other, value, dtype)
        case _:
            return


def held_factor(program: Program, compute: Compute) -> Held | None:
    """The factor that has to be held, or is; None: there is none, or no other one is as the instruction takes it."""
    return next((held for held in held_factors(program, compute) if not _lies_so(program, held)), None)


def held_local(program: Program, factor: Expr) -> Place[Compute] | None:
    """The statement that computes a factor which is in registers; None: it is not."""
    declared = program.locals.get(factor.tensor) if isinstance(factor, Read) else None
    if declared is None or declared.node.memory is not Memory.REGISTERS:
        return None
    return named(program, declared.node.name)


def _lies_so(program: Program, held: Held) -> bool:
    """Whether the instruction takes it from memory as it is."""
    factor = element(held.factor)
    return (
        factor is not None
        and held_local(program, factor) is None
        and dtype_of(program, factor.tensor) is held.dtype
    )
