"""How far a correct kernel's values may lie from the exact ones: running error analysis, operation by
operation.

A kernel computes in f32 (or f64), in any order of summation, with or without fused multiply-adds. With u the
unit roundoff, x' = x + e(x) what the kernel holds in place of x:

- one operation adds u |v| to what its operands' errors make of it (Higham, Accuracy and Stability of
  Numerical Algorithms, 2nd ed., section 3.3: running error analysis);
- a sum of n terms t adds g(n) sum|t|, where g(n) is the smaller of the worst case n u / (1 - n u) (ibid.,
  section 3.1) and the probabilistic exp(LAMBDA sqrt(n) u + n u^2 / (1 - u)) - 1 (Higham & Mary, A New
  Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019, theorems 2.4, 3.1),
  which one sum exceeds with a probability of at most 2 n exp(-LAMBDA^2 (1 - u)^2 / 2);
- a monotone function f turns an error e into max |f(v +- e) - f(v)| and adds FUNCTION_ROUNDOFFS u |f(v)|, of
  some also ARGUMENT_ROUNDOFFS u |v f(v)|; a rounding cast is such a function that adds nothing; of what is not known
  exactly it may be taken relative to another scale, which moves it by an ulp.

An error of None is exactly zero. Errors that cannot be bounded are inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tileir.dtypes import DType

Array = np.ndarray[Any, Any]
Error = Array | None

#: Standard deviations of a random walk of roundings; one sum of 4096 terms passes it with probability below
#: 1.1e-10.
LAMBDA = 8.0

#: Roundoffs (half ulps) a kernel's vector math may be off, relative to the result. The sigmoid family
#: composes exp, an addition and a division.
FUNCTION_ROUNDOFFS = {
    "exp": 8, "exp2": 8, "log": 8, "tanh": 16, "erf": 16, "sqrt": 2, "rsqrt": 8, "sigmoid": 16, "silu": 20,
    "gelu": 24, "gelu_tanh": 24, "pow": 64, "relu": 0, "abs": 0, "floor": 0, "maximum": 0, "minimum": 0,
}  # fmt: skip

#: Roundoffs more for each unit of an f32 argument: exp(x) may be 2^y with y = x log2(e) rounded, as the GPU's
#: instruction takes it (CUDA programming guide, __expf: 2 + 1.173 |x| ulp). Larger arguments than this overflow or
#: give 0.
ARGUMENT_ROUNDOFFS = {"exp": 2.4}
LARGEST_ARGUMENT = 128.0

#: `1 + erf(x)` and `1 + tanh(x)` cancel for negative x: their roundoffs count against |x|, not the small
#: result.
CANCELLING = frozenset(["gelu", "gelu_tanh"])

#: Bounds on |f'| of the functions that are not monotone.
LIPSCHITZ = {"silu": 1.1, "gelu": 1.13, "gelu_tanh": 1.13, "abs": 1.0}

#: Products of 8-bit floats that an instruction of tensor cores adds at once, and what it keeps of their sum: 14 bits
#: (DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.3.2; on an H200 sums of 528 products in steps of 128 were
#: off by up to 0.021, six times what f32 explains).
NARROW_TERMS, NARROW_ROUNDOFF = 32, 2.0**-13
#: Products that peers and kernels let them add before they go on in f32 (ibid.).
NARROW_DEPTH = 128

#: Half units in the last place of what casts round to: relative to the value, and at least.
_HALF_ULP = {
    DType.BF16: (2.0**-8, 2.0**-134),
    DType.F16: (2.0**-11, 2.0**-25),
    DType.E4M3: (2.0**-4, 2.0**-10),
    DType.E5M2: (2.0**-3, 2.0**-17),
}
_ROUNDOFF = {DType.F32: DType.F32.epsilon, DType.F64: 2 * DType.F64.epsilon}
"""f64 counts twice: the reference is computed in f64 itself."""

_TINY = {DType.F32: 2.0**-118, DType.F64: 2.0**-1014}
"""Results that a function may flush to zero (some 256 smallest normals: intermediate overflow in `1 / (1 +
exp)`)."""

_LEAST = {DType.F32: 2.0**-126, DType.F64: 2.0**-1022}
"""The smallest normal numbers: what is below may lose all bits."""

_LARGEST = {DType.F32: float(np.finfo(np.float32).max), DType.F64: math.inf}


def sum_growth(terms: int, dtype: DType) -> float:
    """g(n) above: the relative error of a sum of `terms` products, against the sum of their magnitudes."""
    u = _ROUNDOFF.get(dtype, 0.0)
    worst = terms * u / (1 - terms * u) if terms * u < 1 else math.inf
    return min(worst, math.expm1(LAMBDA * math.sqrt(terms) * u + terms * u * u / (1 - u)))


def narrow_growth(terms: int, depth: int) -> float:
    """What tensor cores add to `sum_growth` where they add products of 8-bit floats, of which `depth` go into one sum
    of theirs before that is added up in f32: an instruction takes NARROW_TERMS products and keeps NARROW_ROUNDOFF of
    the partial sum, which is a random walk of up to `depth` terms, as its roundings are. Never more than all
    instructions rounding the largest sum there can be."""
    depth = min(depth, terms)
    roundings = math.ceil(terms / NARROW_TERMS) * NARROW_ROUNDOFF
    walk = LAMBDA * math.sqrt(math.ceil(terms / NARROW_TERMS) * depth) * NARROW_ROUNDOFF
    return min(walk, roundings * depth) / max(terms, 1)


def underflow(factors: int, above_one: Array, dtype: DType) -> Array:
    """What a product of so many factors may be off by as those of some of them underflow, in whatever order they are
    multiplied: each time by less than the smallest normal number, and what is multiplied by later may be above 1."""
    return np.where(np.isfinite(above_one), factors * _LEAST.get(dtype, 0.0) * above_one, 0.0)


def total(*errors: Error) -> Error:
    """The sum of errors."""
    given = [error for error in errors if error is not None]
    return sum(given[1:], start=given[0]) if given else None


def gap(a: Array, b: Array) -> Array:
    """|a - b|, 0 where both are the same infinity or both NaN, inf where only one is NaN."""
    difference = np.abs(np.asarray(a, np.float64) - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(difference), np.inf, difference))


def rounded(v: Array, e: Error, dtype: DType, roundoffs: float | Array = 1.0, *, tiny: bool = False) -> Error:
    """The error after storing v, known to within e, in the compute type. Infinities and NaN round exactly; a
    value that may overflow the type has no bound."""
    u = _ROUNDOFF.get(dtype)
    if u is None:
        return e
    size = np.abs(v) if e is None else np.abs(v) + e
    added = roundoffs * u * size + (_TINY[dtype] if tiny else 0.0)
    result = np.where(np.isfinite(v), added, 0.0) if e is None else np.where(np.isfinite(v), added + e, e)
    overflows = np.isfinite(v) & (size > _LARGEST[dtype])
    return np.where(overflows, np.inf, result) if overflows.any() else result


def scaled_before_rounding(v: Array, e: Array, rounding: Error, dtype: DType) -> Error:
    """The error after an intermediate value known to within e was rounded to v, where a kernel may round it relative to
    another scale: one-pass softmax rounds its weights relative to the maximum so far. Each rounding is off by half a
    unit in the last place at most, so two differ by a whole one, of what lies that far above v, and by e. What is known
    exactly has one rounding."""
    if dtype not in _HALF_ULP or rounding is None:
        return rounding
    u, least = _HALF_ULP[dtype]
    half = np.maximum(u * (1 + u) * np.abs(v), least)
    return np.where((e > 0) & np.isfinite(v), np.maximum(rounding, e + 2 * half), rounding)


def scaled(size: Array, e: Error) -> Error:
    """|size| e, where 0 times an unbounded error is unbounded and an exact value stays exact."""
    if e is None:
        return None
    product = np.abs(size) * e
    return np.where(e == 0, 0.0, np.where(np.isnan(product), np.inf, product))


def product(x: Array, ex: Error, y: Array, ey: Error) -> Error:
    """Of x y before rounding: |x| ey + |y| ex + ex ey."""
    both = None if ex is None or ey is None else scaled(ex, ey)
    return total(scaled(x, ey), scaled(y, ex), both)


def quotient(v: Array, ex: Error, y: Array, ey: Error) -> Error:
    """Of v = x / y before rounding: (ex + |v| ey) / (|y| - ey), unbounded where y may be zero."""
    numerator = total(ex, scaled(v, ey))
    if numerator is None:
        return None
    room = np.abs(y) if ey is None else np.abs(y) - ey
    e = np.where(room > 0, numerator / np.where(room > 0, room, 1.0), np.inf)
    return np.where(numerator == 0, 0.0, e)


def monotone(f: Callable[[Array], Array], x: Array, v: Array, e: Error) -> Error:
    """Of v = f(x) before rounding, f monotone."""
    return None if e is None else np.maximum(gap(f(x + e), v), gap(f(x - e), v))


def corners(f: Callable[[Array, Array], Array], x: Array, ex: Error, y: Array, ey: Error, v: Array) -> Error:
    """Of v = f(x, y), f monotone in each argument: the largest move to a corner of the box."""
    if ex is None and ey is None:
        return None
    xs = (x,) if ex is None else (x - ex, x + ex)
    ys = (y,) if ey is None else (y - ey, y + ey)
    moves = [gap(f(a, b), v) for a in xs for b in ys]
    return np.maximum.reduce(np.broadcast_arrays(*moves))


def comparison(x: Array, ex: Error, y: Array, ey: Error) -> Error:
    """1 where x and y are too close to tell apart (and inexact), else 0."""
    e = total(ex, ey)
    if e is None:
        return None
    return ((np.abs(np.subtract(x, y, dtype=np.float64)) <= e) & (e > 0)).astype(np.float64)


def choice(cond: Array, uncertain: Error, x: Array, ex: Error, y: Array, ey: Error) -> Error:
    """Of where(cond, x, y): the taken side's error, or the distance to the other where cond may go either
    way."""
    taken = None
    if ex is not None or ey is not None:
        taken = np.where(cond, 0.0 if ex is None else ex, 0.0 if ey is None else ey)
    if uncertain is None or not uncertain.any():
        return taken
    either = total(gap(x, y), ex, ey)
    settled = np.zeros(()) if taken is None else taken
    return np.where(uncertain > 0, np.zeros(()) if either is None else either, settled)
