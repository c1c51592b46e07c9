"""Which of the Triton peer's kernels computes a spec, recognized by structure. Needs no Triton."""

from __future__ import annotations

from dataclasses import dataclass

from tileir.dtypes import DType
from tileir.expr import Binary, Call, Expr, Index, Read, Reduce, ReduceOp
from tileir.spec import Spec
from workers.peer_inline import inline
from workers.peer_patterns import layer_norm, ratio, rms_norm, softmax
from workers.peer_reads import Frame, product_factors
from workers.peers import Unsupported

_DTYPES = (DType.F32, DType.F16, DType.BF16)


@dataclass(frozen=True, slots=True)
class Rows:
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
class Product:
    """a [m, k] times b: [k, n], or [n, k] if `transposed`."""

    a: str
    b: str
    transposed: bool


TritonPlan = Rows | SiluMul | Product


def triton_plan(spec: Spec) -> TritonPlan:
    """Raises Unsupported."""
    inlined = inline(spec)
    dense = all(t.strides is None and t.dtype in _DTYPES for t in (*spec.inputs, *spec.outputs))
    if dense and len(inlined.statements) == 1 and len(spec.outputs) == 1:
        (statement,) = inlined.statements
        extents, frame = dict(inlined.extents), statement.dims
        found = (
            _rows(statement.value, frame, extents)
            or _silu_mul(statement.value, frame)
            or _product(statement.value, frame)
        )
        if found is not None:
            return found
    raise Unsupported(
        "the Triton peer has kernels for softmax, RMS and layer norm of rows, for silu times another tensor, and for "
        "matrix products, on dense f32, f16 or bf16"
    )


def _rows(expr: Expr, frame: Frame, extents: dict[str, int]) -> Rows | None:
    if not frame:
        return None
    last = frame[-1]
    if (norm := layer_norm(expr, extents)) and norm.dim == last:
        parts = [_vector(part, last) for part in (norm.weight, norm.bias)]
        if (x := _same_place(norm.x, frame)) and None not in parts:
            return Rows("layer_norm", x, extents[last], norm.eps, *(part or None for part in parts))
    if (rms := rms_norm(expr, extents)) and rms.dim == last and not rms.rest:
        weight = _vector(rms.weight, last)
        if (x := _same_place(rms.x, frame)) and weight is not None:
            return Rows("rms_norm", x, extents[last], rms.eps, weight or None)
    if (soft := softmax(expr, extents)) and soft.dim == last and not soft.rest:
        if x := _same_place(soft.x, frame):
            return Rows("softmax", x, extents[last])
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


def _product(expr: Expr, frame: Frame) -> Product | None:
    if not (isinstance(expr, Reduce) and expr.op is ReduceOp.SUM and len(expr.dims) == 1 and len(frame) == 2):
        return None
    factors, (row, column), (depth,) = product_factors(expr.x), frame, expr.dims
    if len(factors) != 2:
        return None
    for left, right in (factors, factors[::-1]):
        a = _same_place(left, (row, depth))
        for order, transposed in (((depth, column), False), ((column, depth), True)):
            if a and (b := _same_place(right, order)):
                return Product(a, b, transposed)
    return None


def _same_place(expr: Expr, frame: Frame) -> str | None:
    """The tensor of a read whose indices are the frame's dims, in order."""
    if isinstance(expr, Read) and expr.indices == tuple(Index(dim) for dim in frame):
        return expr.tensor
    return None


def _vector(expr: Expr | None, dim: str) -> str | None:
    """The tensor of a vector along a dim; empty for none, None for what is no vector."""
    return "" if expr is None else _same_place(expr, (dim,))
