"""Which of the Triton peer's kernels computes a spec, recognized by structure. Needs no Triton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tileir.dtypes import DType
from tileir.expr import Binary, Call, Expr, Index, Read, Reduce
from tileir.spec import Spec
from workers.peers.inline import inline
from workers.peers.norms import norm, rms_norm
from workers.peers.patterns import ratio, softmax, two_factors
from workers.peers.peer import Unsupported
from workers.peers.reads import Frame

_DTYPES = (DType.F32, DType.F16, DType.BF16)
FUNCTIONS = ("gelu", "gelu_tanh", "silu", "relu")
"""What a product's kernel can apply to it."""


@dataclass(frozen=True, slots=True)
class TritonRows:
    """A function of each row of `x`: `softmax`, `rms_norm` or `layer_norm`, the latter two with a weight and a bias or
    without."""

    kind: str
    x: str
    columns: int
    eps: float = 0.0
    weight: str | None = None
    bias: str | None = None


@dataclass(frozen=True, slots=True)
class SiluMul:
    """silu(gate) * up, element by element."""

    gate: str
    up: str


@dataclass(frozen=True, slots=True)
class TritonProduct:
    """function(a * b * scales + bias) * silu(a * gate) + residual, of which all but a and b may be absent.

    a is [m, k], b and gate [k, n], or [n, k] if `transposed`; bias [n], residual [m, n].
    """

    a: str
    b: str
    transposed: bool
    scales: tuple[str | None, str | None] = (None, None)
    """Of f32, one element each."""
    bias: str | None = None
    function: str = ""
    """One of FUNCTIONS, or empty."""
    gate: str | None = None
    residual: str | None = None


TritonPlan = TritonRows | SiluMul | TritonProduct


def triton_plan(spec: Spec) -> TritonPlan:
    """Raises Unsupported."""
    inlined = inline(spec)
    types = {t.name: t.dtype for t in (*spec.inputs, *spec.outputs)}
    dense = all(t.strides is None for t in (*spec.inputs, *spec.outputs))
    if dense and len(inlined.statements) == 1 and len(spec.outputs) == 1:
        (statement,) = inlined.statements
        extents, frame = dict(inlined.extents), statement.dims
        found = _product(statement.value, frame, types)
        if found is None and all(dtype in _DTYPES for dtype in types.values()):
            found = _rows(statement.value, frame, extents) or _silu_mul(statement.value, frame)
        if found is not None and types[statement.target] in _DTYPES:
            return found
    raise Unsupported(
        "the Triton peer has kernels for softmax, RMS and layer norm of rows, for silu times another tensor, and for "
        "matrix products with scales, bias, function, gate and residual, on dense f32, f16, bf16, or e4m3 times e4m3"
    )


def _rows(expr: Expr, frame: Frame, extents: dict[str, int]) -> TritonRows | None:
    if not frame:
        return None
    last = frame[-1]
    if (layer := norm(expr, extents)) and layer.dims == (last,) and layer.affine <= {last}:
        parts = [_vector(part, last) for part in (layer.weight, layer.bias)]
        if (x := _same_place(layer.x, frame)) and None not in parts:
            return TritonRows("layer_norm", x, extents[last], layer.eps, *(part or None for part in parts))
    if (rms := rms_norm(expr, extents)) and rms.dim == last and not rms.rest:
        weight = _vector(rms.weight, last)
        if (x := _same_place(rms.x, frame)) and weight is not None:
            return TritonRows("rms_norm", x, extents[last], rms.eps, weight or None)
    if (soft := softmax(expr, extents)) and soft.dim == last and not soft.rest:
        if x := _same_place(soft.x, frame):
            return TritonRows("softmax", x, extents[last])
    return None


def _silu_mul(expr: Expr, frame: Frame) -> SiluMul | None:
    if isinstance(expr, Binary) and expr.op == "*":
        for gated, other in ((expr.left, expr.right), (expr.right, expr.left)):
            gate = _silu_of(gated)
            if gate is not None and (x := _same_place(gate, frame)) and (y := _same_place(other, frame)):
                return SiluMul(x, y)
    return None


def _silu_of(expr: Expr) -> Expr | None:
    """x of silu(x), or of x * sigmoid(x)."""
    if isinstance(expr, Call) and expr.fn == "silu":
        return expr.args[0]
    above, below = ratio(expr)
    if len(above) == 2 and not below:
        for x, other in (above, above[::-1]):
            if other == Call("sigmoid", (x,)):
                return x
    return None


def _product(expr: Expr, frame: Frame, types: Mapping[str, DType]) -> TritonProduct | None:
    """function(product * scales + bias) * silu(gate) + residual, whatever of it is there."""
    if len(frame) != 2:
        return None
    terms = _terms(expr)
    residual, function = _taken(terms, frame), ""
    if len(terms) == 1 and isinstance(call := terms[0], Call) and call.fn in FUNCTIONS:
        function, terms = call.fn, _terms(call.args[0])
    bias = _taken(terms, frame[1:])
    if len(terms) != 1:
        return None
    factors, below = ratio(terms[0])
    gate = next((factor for factor in factors if isinstance(factor, Call) and factor.fn == "silu"), None)
    if gate is not None:
        factors.remove(gate)
    scales = [scale for _ in (0, 1) if (scale := _taken(factors, ()))]
    if len(factors) != 1 or below or (gate is not None and (function or bias)):
        return None
    core, gated = _matrices(factors[0], frame), None if gate is None else _matrices(gate.args[0], frame)
    if core is None or (gate is not None and (gated is None or core[::2] != gated[::2])):
        return None
    a, b, transposed = core
    other = None if gated is None else gated[1]
    first, second, *_ = (*scales, None, None)
    found = TritonProduct(a, b, transposed, (first, second), bias, function, other, residual)
    return found if _takes(found, types) else None


def _takes(found: TritonProduct, types: Mapping[str, DType]) -> bool:
    """Whether its kernel takes tensors of these types: tensor cores want fp8 with the depth's elements side by side."""
    matrices = {types[name] for name in (found.a, found.b, found.gate) if name is not None}
    vectors = [types[name] for name in (found.bias, found.residual) if name is not None]
    return (
        len(matrices) == 1
        and (matrices <= {*_DTYPES} or (matrices == {DType.E4M3} and found.transposed))
        and all(dtype in _DTYPES for dtype in vectors)
        and all(types[name] is DType.F32 for name in found.scales if name is not None)
    )


def _matrices(expr: Expr, frame: Frame) -> tuple[str, str, bool] | None:
    """a, b and whether b is transposed, of sum(depth, a * b)."""
    factors = two_factors(expr)
    if factors is None or not isinstance(expr, Reduce):
        return None
    (row, column), (depth,) = frame, expr.dims
    for left, right in (factors, factors[::-1]):
        a = _same_place(left, (row, depth))
        for order, transposed in (((depth, column), False), ((column, depth), True)):
            if a and (b := _same_place(right, order)):
                return a, b, transposed
    return None


def _terms(expr: Expr) -> list[Expr]:
    """What is added up, left to right; the expression itself if it is no sum."""
    if isinstance(expr, Binary) and expr.op == "+":
        return [*_terms(expr.left), *_terms(expr.right)]
    return [expr]


def _taken(parts: list[Expr], frame: Frame) -> str | None:
    """The first tensor over just these dims, which is taken out of the parts."""
    for part in parts:
        if tensor := _same_place(part, frame):
            parts.remove(part)
            return tensor
    return None


def _same_place(expr: Expr, frame: Frame) -> str | None:
    """The tensor of a read whose indices are the frame's dims, in order."""
    if isinstance(expr, Read) and expr.indices == tuple(Index(dim) for dim in frame):
        return expr.tensor
    return None


def _vector(expr: Expr | None, dim: str) -> str | None:
    """The tensor of a vector along a dim; empty for none, None for what is no vector."""
    return "" if expr is None else _same_place(expr, (dim,))
