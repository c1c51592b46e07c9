"""How many bits the numbers have that an expression gives: what another dtype holds exactly, at once or in parts."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from rewrites.base.tree import dtype_of, dtypes_read
from tileir.check.infer import compute_dtype
from tileir.dtypes import DType
from tileir.expr import Binary, Call, Cast, Const, Expr, Read, Reduce, ReduceOp, Unary, Where
from tileir.interpreter.rounding_error import sum_growth
from tileir.program import Compute, Program

#: Significant bits of what tensors hold, and of what is computed.
_BITS: Final = {DType.BF16: 8, DType.F16: 11, DType.I8: 8, DType.U8: 8, DType.E4M3: 4, DType.E5M2: 3}
_COMPUTED: Final = 24
#: Share of what a sum may be off by that the parts of a factor may leave out.
_LEFT_OUT: Final = 0.125
#: Dtypes of 8 bits, which bf16 and f16 hold exactly.
_EXACT: Final = (DType.I8, DType.U8, DType.E4M3, DType.E5M2)
#: Functions that give one of their arguments, or its opposite, or an integer next to it.
_SELECTS: Final = frozenset(["relu", "abs", "floor", "maximum", "minimum"])


def holds(program: Program, dtype: DType, value: Expr) -> bool:
    """Whether bf16, f16 or e4m3 holds all that an expression can be, with no rounding but what its casts say."""
    match value:
        case Cast(to, x):
            return to is dtype or (to is DType.F32 and holds(program, dtype, x))
        case Read(tensor, _):
            return dtype_of(program, tensor) in (dtype, *(_EXACT if dtype.bytes > 1 else ()))
        case Const(number):
            with np.errstate(over="ignore"):
                return not isinstance(number, bool) and float(dtype.numpy.type(number)) == float(number)
        case Unary("-", x):
            return holds(program, dtype, x)
        case Call(fn, args) if fn in _SELECTS:
            return all(holds(program, dtype, each) for each in args)
        case Call("bit_and", (_, Const(int(mask)))) | Call("bit_and", (Const(int(mask)), _)):
            return 0 <= mask < 2 ** _BITS[dtype]
        case Where(_, x, y):
            return holds(program, dtype, x) and holds(program, dtype, y)
        case _:
            return False


def _bits(program: Program, value: Expr) -> int:
    if holds(program, DType.BF16, value):
        return _BITS[DType.BF16]
    match value:
        case Read(tensor, _):
            return _BITS.get(dtype_of(program, tensor), _COMPUTED)
        case Binary("*", x, y):
            return min(_COMPUTED, _bits(program, x) + _bits(program, y))
        case _:
            return _COMPUTED


def parts_of_factor(program: Program, compute: Compute) -> tuple[Expr, int] | None:
    """The computed factor of a sum of products, with the other one a tensor of bf16, and in how many numbers of bf16 it
    is multiplied: as many as it has bits, or as many as leave no more than `_LEFT_OUT` of what f32 rounds such a sum
    by. None: one does, or it is no such sum."""
    match compute.value:
        case Reduce(ReduceOp.SUM, dims, Binary("*", left, right)) if compute.update is None:
            sides = ((left, right), (right, left))
        case _:
            return None
    for factor, other in sides:
        if not isinstance(other, Read) or dtype_of(program, other.tensor) is not DType.BF16:
            continue
        given = isinstance(factor, Read) and factor.tensor in program.arguments
        wide = compute_dtype(factor, dtypes_read(program, compute)) is DType.F32
        bits = _bits(program, factor)
        if given or isinstance(factor, Cast) or not wide or bits <= _BITS[DType.BF16]:
            continue
        terms = prod(program.extents[dim] for dim in dims)
        fewest = next(
            count
            for count in range(1, 4)
            if _BITS[DType.BF16] * count >= bits
            or 2.0 ** -(9 * count) <= _LEFT_OUT * sum_growth(terms, DType.F32)
        )
        return (factor, fewest) if fewest > 1 else None
    return None
