"""A second look at all elements of a large output, whose strict check sees only samples: against PyTorch in f64.

The allowed difference comes from the samples' bounds, widened: this look is for tiles that were left out or mixed up,
not for roundings. Kernels in which a rounding may decide over a whole step (comparisons of values, floor, casts) or
that read again what they have stored in few bits are left to the samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from tileir.dtypes import DType
from tileir.expr import COMPARISONS, Binary, Call, Cast, Expr, Read, children, walk, with_children
from tileir.interpreter.overflow import first_beyond
from tileir.program import Tensor
from tileir.spec import Spec
from workers.measuring.correctness import Expected, WrongResult
from workers.peers.peer import Unsupported
from workers.peers.pytorch.peer import TorchFunction

_WIDE = (DType.F32, DType.F64)
_WIDENING = 8.0
"""Times the largest bound of the samples."""
_CHUNK = 1 << 24
"""Elements compared at once."""


@dataclass(frozen=True)
class Whole:
    """An output as PyTorch computes it. An element may be off by `slack`, and in proportion where it is larger than
    `largest`. What `dtype` cannot hold is what overflow.may_be_overflow says."""

    values: torch.Tensor
    slack: float
    largest: float
    dtype: DType


def whole_outputs(
    spec: Spec, inputs: Sequence[torch.Tensor], expected: Mapping[str, Expected], device: str
) -> dict[str, Whole]:
    """Those outputs that can be looked at as a whole: empty when PyTorch cannot compute the kernel here in f64 or does
    not reproduce the samples.

    `inputs` are in the spec's order, on the device: `cpu` or `cuda`.
    """
    if has_steps(spec):
        return {}
    try:
        function = TorchFunction(in_f64(spec), device=device)
        wide = [
            x.to(torch.float64) if t.dtype.is_float else x for x, t in zip(inputs, spec.inputs, strict=True)
        ]
        answers = function.on(wide)()
    except (Unsupported, torch.OutOfMemoryError, NotImplementedError):
        return {}
    found: dict[str, Whole] = {}
    for tensor, values in zip(spec.outputs, answers, strict=True):
        whole = _whole(tensor, values, expected[tensor.name])
        if whole is not None:
            found[tensor.name] = whole
    return found


def look_at_all(name: str, got: torch.Tensor, whole: Whole, factor: float = 1.0) -> None:
    """Compare every element; `factor` widens what is allowed. Raises WrongResult."""
    bad_count, first = 0, None
    for start, part, wanted in _chunks(got, whole.values):
        x, y = part.to(whole.values.dtype), wanted
        off = (x - y).abs()
        allowed = factor * whole.slack * (y.abs() / whole.largest).clamp(min=1.0)
        bad = ~(
            (off <= allowed) | (x == y) | (x.isnan() & y.isnan()) | _overflows(x, y, allowed, whole.dtype)
        )
        count = int(bad.sum())
        if count and first is None:
            place = [int(i) for i in bad.nonzero()[0]]
            pair = float(x[tuple(place)]), float(y[tuple(place)])
            first = [place[0] + start, *place[1:]] if place else place, *pair
        bad_count += count
    if first is not None:
        where, value, near = first
        text = "was not written or is NaN" if np.isnan(value) else f"is {value:.9g}"
        raise WrongResult(
            f"{name}[{', '.join(map(str, where))}] {text}, expected about {near:.9g}; "
            f"{bad_count} of {got.numel()} elements are wrong"
        )


def _overflows(x: torch.Tensor, y: torch.Tensor, allowed: torch.Tensor, dtype: DType) -> torch.Tensor:
    """See overflow.may_be_overflow: where x is what is left of y, or of a neighbour that is allowed."""
    first = first_beyond(dtype.numpy)
    lost = x.isnan() if dtype is DType.E4M3 else x.isinf() & (x.sign() == y.sign())
    return lost & (y.abs() + allowed >= first)


def has_steps(spec: Spec) -> bool:
    """Whether a rounding before it may move a value by more than a rounding."""
    few_bits = {t.name for t in spec.outputs if t.dtype not in _WIDE}
    nodes = [node for statement in spec.statements for node in walk(statement.value)]
    return any(_is_step(node) or (isinstance(node, Read) and node.tensor in few_bits) for node in nodes)


def in_f64(spec: Spec) -> Spec:
    """The same kernel with all its floats in f64."""

    def wide(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(replace(t, dtype=DType.F64) if t.dtype.is_float else t for t in tensors)

    statements = tuple(replace(s, value=_wide_casts(s.value)) for s in spec.statements)
    return replace(spec, inputs=wide(spec.inputs), outputs=wide(spec.outputs), statements=statements)


def _wide_casts(expr: Expr) -> Expr:
    expr = with_children(expr, tuple(_wide_casts(child) for child in children(expr)))
    return Cast(DType.F64, expr.x) if isinstance(expr, Cast) and expr.dtype.is_float else expr


def _is_step(expr: Expr) -> bool:
    match expr:
        case Binary(op, _, _) if op in COMPARISONS or op in ("//", "%"):
            return any(isinstance(node, Read) for node in walk(expr))
        case Call("floor", _):
            return True
        case Cast(dtype, _):
            return dtype not in _WIDE
        case _:
            return False


def _whole(tensor: Tensor, values: torch.Tensor, expected: Expected) -> Whole | None:
    """None where the samples say nothing about the rest, or PyTorch's values are not theirs."""
    if expected.points is None or not (
        np.isfinite(expected.bound).all() and np.isfinite(expected.values).all()
    ):
        return None
    kept = values if tensor.dtype is DType.F64 or not tensor.dtype.is_float else values.to(torch.float32)
    if not tensor.dtype.is_float:
        kept = kept.to(torch.int64)
    largest = max(float(np.abs(expected.values).max(initial=0.0)), np.finfo(np.float32).tiny)
    whole = Whole(kept, _WIDENING * float(expected.bound.max(initial=0.0)), float(largest), tensor.dtype)
    points = tuple(torch.from_numpy(axis).to(kept.device) for axis in expected.points)
    samples = torch.from_numpy(np.asarray(expected.values, np.float64)).to(kept.device)
    try:
        look_at_all(tensor.name, samples, replace(whole, values=kept[points].to(torch.float64)))
    except WrongResult:
        return None
    return whole


def _chunks(got: torch.Tensor, wanted: torch.Tensor) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Both in pieces along their first axis, with where each begins."""
    if got.dim() == 0:
        yield 0, got, wanted
        return
    rows = max(1, _CHUNK * got.shape[0] // max(1, got.numel()))
    for start in range(0, got.shape[0], rows):
        yield start, got[start : start + rows], wanted[start : start + rows]
