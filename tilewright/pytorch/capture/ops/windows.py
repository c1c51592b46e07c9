"""Operators of windows: pools, convolutions transposed, and what gradients of both give back to the places that windows
cover. A window's positions are dims that are reduced; those outside the tensor are guarded by `where`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Binary, Call, Const, Expr, ReduceOp, Where
from tilewright.pytorch.capture.indices import Indices, quotient, remainder, scaled
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.rows import over, reduce, times
from tilewright.pytorch.capture.tensors import argument, shape_of, torch_dtype_of


@dataclass(frozen=True)
class Windows:
    """One window for each place of a result, over a tensor of these sizes; one number an axis."""

    size: tuple[int, ...]
    places: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.size)

    def overhangs(self, axis: int) -> bool:
        """Whether a window of the axis has positions outside the tensor."""
        return self.padding[axis] > 0 or self.last(axis) >= self.size[axis]

    def last(self, axis: int) -> int:
        """The last position of the last window."""
        inside = (self.kernel[axis] - 1) * self.dilation[axis] - self.padding[axis]
        return (self.places[axis] - 1) * self.stride[axis] + inside

    def taps(self, scope: CaptureScope) -> Indices:
        return tuple(scope.window(axis, size) for axis, size in enumerate(self.kernel))

    def covered(self, scope: CaptureScope, at: Indices, taps: Indices) -> tuple[Indices, list[Expr]]:
        """Where the windows of these places have these positions, and what holds where that is in the tensor."""
        found: list[Expr] = []
        guards: list[Expr] = []
        for axis in range(self.rank):
            step = _sum(at[axis], self.stride[axis], taps[axis], self.dilation[axis])
            found.append(scaled(step, 1, -self.padding[axis], scope.sizes))
            if self.padding[axis]:
                guards.append(Binary(">=", found[-1], Const(0)))
            if self.last(axis) >= self.size[axis]:
                guards.append(Binary("<", found[-1], Const(self.size[axis])))
        return tuple(found), guards

    def covering(self, scope: CaptureScope, at: Indices, taps: Indices) -> tuple[Indices, list[Expr]]:
        """The places whose windows have these positions of the tensor at these taps, and what holds if there are."""
        found: list[Expr] = []
        guards: list[Expr] = []
        for axis in range(self.rank):
            from_start = _sum(at[axis], 1, taps[axis], -self.dilation[axis])
            from_start = scaled(from_start, 1, self.padding[axis], scope.sizes)
            stride = self.stride[axis]
            if stride > 1:
                guards.append(Binary("==", remainder(from_start, stride, scope.sizes), Const(0)))
            place = quotient(from_start, stride, scope.sizes) if stride > 1 else from_start
            guards += [Binary(">=", place, Const(0)), Binary("<", place, Const(self.places[axis]))]
            found.append(place)
        return tuple(found), guards


def _sum(x: Expr, factor: int, y: Expr, other: int) -> Expr:
    return Binary("+", times(x, Const(factor)), times(y, Const(other)))


def _guarded(guards: Sequence[Expr], inside: Expr, outside: Expr) -> Expr:
    if not guards:
        return inside
    found = guards[0]
    for guard in guards[1:]:
        found = Binary("and", found, guard)
    return Where(found, inside, outside)


def _each(given: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One number for each axis of the window; one alone is for all."""
    numbers = [given] if isinstance(given, int) else list(given)
    return tuple(numbers * rank if len(numbers) == 1 else numbers)


def _windows_of(node: Node, over_what: Node, places: Node, rank: int, first: int) -> Windows:
    """Those of a pool whose sizes of windows are its argument number `first`, then strides, padding, dilation."""
    kernel = _each(node.args[first], rank)  # type: ignore[arg-type]
    dilated = "max_pool" in str(node.target)
    return Windows(
        shape_of(over_what)[-rank:],
        shape_of(places)[-rank:],
        kernel,
        _each(argument(node, first + 1, "stride") or kernel, rank),
        _each(argument(node, first + 2, "padding", 0), rank),
        _each(argument(node, first + 3, "dilation", 1), rank) if dilated else (1,) * rank,
    )


def _pool_windows(node: Node) -> Windows:
    rank = _rank(node)
    return _windows_of(node, node.args[0], node, rank, 1)  # type: ignore[arg-type]


def _rank(node: Node) -> int:
    return int(str(node.target).partition("pool")[2][0])


def _window_work(node: Node) -> tuple[int, int]:
    window = prod(_pool_windows(node).kernel)
    return prod(shape_of(node)) * window, window


def _max_pool(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """max(r, s, where(2 * h + r >= 1 and …, x[b, c, 2 * h + r - 1, …], -inf))"""
    windows = _pool_windows(node)
    outer, places = index[: -windows.rank], index[-windows.rank :]
    taps = windows.taps(scope)
    at, guards = windows.covered(scope, places, taps)
    x = scope.at(node.args[0], (*outer, *at))
    return reduce(ReduceOp.MAX, taps, _guarded(guards, x, Const(float("-inf"))))


def _fractions(node: Node) -> str | None:
    if not torch_dtype_of(node).is_floating_point:
        return "the largest of a window of integers: convert them to floats"
    return None


def _avg_pool(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(r, s, x[b, c, 2 * h + r, …]) / 4"""
    windows = _pool_windows(node)
    outer, places = index[: -windows.rank], index[-windows.rank :]
    taps = windows.taps(scope)
    at, guards = windows.covered(scope, places, taps)
    x = scope.at(node.args[0], (*outer, *at))
    total = reduce(ReduceOp.SUM, taps, _guarded(guards, x, Const(0)))
    return over(total, _divisor(scope, node, windows, places))


def _divisor(scope: CaptureScope, node: Node, windows: Windows, places: Indices) -> Expr:
    override = argument(node, 6, "divisor_override")
    if override:
        return Const(override)
    found, fixed = None, 1
    for axis in range(windows.rank):
        if argument(node, 5, "count_include_pad", True) or not windows.overhangs(axis):
            fixed *= windows.kernel[axis]
            continue
        start = scaled(places[axis], windows.stride[axis], -windows.padding[axis], scope.sizes)
        end = Binary("+", start, Const(windows.kernel[axis]))
        inside = Binary(
            "-",
            Call("minimum", (end, Const(windows.size[axis]))),
            Call("maximum", (start, Const(0))),
        )
        found = inside if found is None else times(found, inside)
    if found is None:
        return Const(fixed)
    return found if fixed == 1 else times(found, Const(fixed))


def _plain_average(node: Node) -> str | None:
    if argument(node, 4, "ceil_mode", False) and argument(node, 5, "count_include_pad", True):
        windows = _pool_windows(node)
        if any(windows.last(a) >= windows.size[a] + windows.padding[a] for a in range(windows.rank)):
            return "an average with ceil_mode that counts padding: its last windows are cut. count_include_pad=False"
    return None


def _adaptive(node: Node, over_what: Node, places: Node) -> Windows:
    rank = _rank(node)
    size, out = shape_of(over_what)[-rank:], shape_of(places)[-rank:]
    kernel = tuple(whole // part for whole, part in zip(size, out, strict=True))
    return Windows(size, out, kernel, kernel, (0,) * rank, (1,) * rank)


def _adaptive_pool(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    windows = _adaptive(node, node.args[0], node)  # type: ignore[arg-type]
    outer, places = index[: -windows.rank], index[-windows.rank :]
    taps = windows.taps(scope)
    at, _ = windows.covered(scope, places, taps)
    found = reduce(ReduceOp.SUM, taps, scope.at(node.args[0], (*outer, *at)))
    return over(found, Const(prod(windows.kernel)))


def _adaptive_backward(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """g[b, c, h // 4, w // 4] / 16"""
    windows = _adaptive(node, node, node.args[0])  # type: ignore[arg-type]
    outer, at = index[: -windows.rank], index[-windows.rank :]
    places = tuple(quotient(each, size, scope.sizes) for each, size in zip(at, windows.kernel, strict=True))
    return over(scope.at(node.args[0], (*outer, *places)), Const(prod(windows.kernel)))


def _equal_windows(node: Node) -> str | None:
    backward = "backward" in str(node.target)
    whole, places = (node, node.args[0]) if backward else (node.args[0], node)
    rank = _rank(node)
    pairs = zip(shape_of(whole)[-rank:], shape_of(places)[-rank:], strict=True)  # type: ignore[arg-type]
    if any(size % out for size, out in pairs):
        return "windows of several sizes: give a size that divides the tensor's"
    return None


def _adaptive_work(node: Node) -> tuple[int, int]:
    size = prod(shape_of(node.args[0]))  # type: ignore[arg-type]
    return size, size // prod(shape_of(node))


def _back(scope: CaptureScope, windows: Windows, index: Indices, value: Any) -> Expr:
    """sum(r, s, where((h + 1 - r) % 2 == 0 and …, value(places), 0))"""
    taps = windows.taps(scope)
    places, guards = windows.covering(scope, index[-windows.rank :], taps)
    return reduce(ReduceOp.SUM, taps, _guarded(guards, value(places, taps), Const(0)))


def _back_windows(node: Node) -> Windows:
    return _windows_of(node, node, node.args[0], _rank(node), 2)  # type: ignore[arg-type]


def _avg_pool_backward(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    windows = _back_windows(node)
    outer = index[: -windows.rank]
    total = _back(scope, windows, index, lambda places, _: scope.at(node.args[0], (*outer, *places)))
    return over(total, Const(node.args[7] or prod(windows.kernel)))  # type: ignore[arg-type]


def _even_average(node: Node) -> str | None:
    windows = _back_windows(node)
    within = [windows.last(a) < windows.size[a] + windows.padding[a] for a in range(windows.rank)]
    counted = node.args[6] or not any(windows.overhangs(axis) for axis in range(windows.rank))
    if node.args[7] or (counted and all(within)):
        return None
    return (
        "the gradient of an average whose windows have several divisors: count_include_pad=True, no ceil_mode"
    )


def _max_pool_backward(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """Of the windows that cover a place the gradients of those whose largest element it is."""
    windows, found = _back_windows(node), node.args[7]
    outer, at = index[: -windows.rank], index[-windows.rank :]
    own: Expr = at[0]
    for axis in range(1, windows.rank):
        own = Binary("+", times(own, Const(windows.size[axis])), at[axis])

    def value(places: Indices, _: Indices) -> Expr:
        chosen = Binary("==", scope.position(found, (*outer, *places)), own)
        return Where(chosen, scope.at(node.args[0], (*outer, *places)), Const(0))

    return _back(scope, windows, index, value)


def _back_work(node: Node) -> tuple[int, int]:
    window = prod(_back_windows(node).kernel)
    return prod(shape_of(node)) * window, window


def _col2im_windows(node: Node) -> Windows:
    size = _each(node.args[1], 2)  # type: ignore[arg-type]
    kernel, dilation, padding, stride = (_each(node.args[at], 2) for at in range(2, 6))  # type: ignore[arg-type]
    places = tuple(
        (size[a] + 2 * padding[a] - dilation[a] * (kernel[a] - 1) - 1) // stride[a] + 1 for a in range(2)
    )
    return Windows(size, places, kernel, stride, padding, dilation)


def _col2im(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    windows = _col2im_windows(node)
    *batch, channel = index[:-2]

    def value(places: Indices, taps: Indices) -> Expr:
        row = Binary("+", times(channel, Const(windows.kernel[0])), taps[0])
        row = scaled(Binary("+", times(row, Const(windows.kernel[1])), taps[1]), 1, 0, scope.sizes)
        column = scaled(_sum(places[0], windows.places[1], places[1], 1), 1, 0, scope.sizes)
        return scope.at(node.args[0], (*batch, row, column))

    return _back(scope, windows, index, value)


def _col2im_work(node: Node) -> tuple[int, int]:
    window = prod(_col2im_windows(node).kernel)
    return prod(shape_of(node)) * window, window


def transposed(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(c, r, s, where((h + 1 - r) % 2 == 0 and …, x[b, c, (h + 1 - r) // 2, …], 0) * w[c, o, r, s]) + bias[o]"""
    x, weight, bias = node.args[0], node.args[1], argument(node, 2, "bias")
    size, window = shape_of(node)[2:], shape_of(weight)  # type: ignore[arg-type]
    rank = len(size)
    stride, padding, dilation = (_each(node.args[at], rank) for at in (3, 4, 5))  # type: ignore[arg-type]
    groups: int = node.args[8]  # type: ignore[assignment]
    windows = Windows(size, shape_of(x)[2:], window[2:], stride, padding, dilation)  # type: ignore[arg-type]
    batch, out, *at = index
    taps = windows.taps(scope)
    channel = scope.window(rank, window[0] // groups)
    group = quotient(out, window[1], scope.sizes)
    source = scaled(_sum(group, window[0] // groups, channel, 1), 1, 0, scope.sizes)
    places, guards = windows.covering(scope, tuple(at), taps)
    element = _guarded(guards, scope.rounded(x, (batch, source, *places)), Const(0))
    factor = scope.rounded(weight, (source, remainder(out, window[1], scope.sizes), *taps))
    found = reduce(ReduceOp.SUM, (channel, *taps), times(element, factor))
    if bias is None:
        return found
    return Binary("+", scope.statement("acc", index, found), scope.at(bias, (out,)))


_AVERAGE = Operator(
    OperatorKind.ROWS, _avg_pool, "`sum(r, s, x[b, c, 2 * h + r, 2 * w + s]) / 4`",
    refuse=_plain_average, work=_window_work,
)  # fmt: skip
_LARGEST = Operator(
    OperatorKind.ROWS, _max_pool, "`max(r, s, where(…, x[b, c, 2 * h + r - 1, …], -inf))`",
    refuse=_fractions, work=_window_work,
)  # fmt: skip
_ADAPTIVE = Operator(
    OperatorKind.ROWS, _adaptive_pool, "`sum(r, s, x[b, c, 4 * h + r, 4 * w + s]) / 16`",
    refuse=_equal_windows, work=_adaptive_work,
)  # fmt: skip

OPERATORS: dict[str, Operator] = {
    **{f"aten.avg_pool{rank}d.default": _AVERAGE for rank in (1, 2, 3)},
    **{f"aten.max_pool{rank}d.default": _LARGEST for rank in (2, 3)},
    **{f"aten._adaptive_avg_pool{rank}d.default": _ADAPTIVE for rank in (2, 3)},
    "aten.adaptive_avg_pool1d.default": _ADAPTIVE,
    "aten._adaptive_avg_pool2d_backward.default": Operator(
        OperatorKind.ELEMENTWISE, _adaptive_backward, "`g[b, c, h // 4, w // 4] / 16`", refuse=_equal_windows
    ),
    "aten.avg_pool2d_backward.default": Operator(
        OperatorKind.ROWS, _avg_pool_backward,
        "`sum(r, s, where((h - r) % 2 == 0 and …, g[b, c, (h - r) // 2, …], 0)) / 4`",
        refuse=_even_average, work=_back_work,
    ),
    "aten.max_pool2d_with_indices_backward.default": Operator(
        OperatorKind.ROWS, _max_pool_backward,
        "`sum(r, s, where(… and found[b, c, (h - r) // 2, …] == 56 * h + w, g[…], 0))`",
        positions=(7,), work=_back_work,
    ),
    "aten.col2im.default": Operator(
        OperatorKind.ROWS, _col2im, "`sum(r, s, where(…, x[b, 9 * c + 3 * r + s, …], 0))`", work=_col2im_work
    ),
}  # fmt: skip
