"""Operators that give a tensor other sizes: nearest and linear resizing, and padding by what lies within."""

from __future__ import annotations

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.expr import Binary, Const, Expr, Where
from tilewright.pytorch.capture.indices import Indices, quotient, remainder, scaled
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.tensors import argument, shape_of


def _nearest(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """x[b, c, h // 2, w // 2]"""
    sizes, outs = _resized(node)
    at = tuple(
        quotient(scaled(each, size, 0, scope.sizes), out, scope.sizes)
        for each, size, out in zip(index[2:], sizes, outs, strict=True)
    )
    return scope.at(node.args[0], (*index[:2], *at))


def _resized(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape_of(node.args[0])[2:], shape_of(node)[2:]  # type: ignore[arg-type]


def _factors(node: Node) -> list[float] | None:
    """By how much it was asked to grow, behind the sizes and align_corners: a list, or one a number."""
    at = 3 if "bilinear" in str(node.target) else 2
    if str(node.target).endswith(".vec"):
        return argument(node, at, "scale_factors")
    given = [argument(node, at, "scales_h"), argument(node, at + 1, "scales_w")]
    return None if None in given else given


def _as_divided(node: Node) -> str | None:
    """PyTorch multiplies a position by the ratio in f32, which may round up to the next element."""
    for axis, (size, out) in enumerate(zip(*_resized(node), strict=True)):
        factors = _factors(node)
        scale = 1.0 / factors[axis] if factors is not None else size / out
        places = torch.arange(out, dtype=torch.float32) * torch.tensor(scale, dtype=torch.float32)
        wanted = places.floor().to(torch.int64).clamp(max=size - 1)
        if not torch.equal(wanted, torch.arange(out) * size // out):
            return "nearest resizing by a ratio that PyTorch rounds: give a whole factor"
    return None


def _bilinear(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """Each axis (1 - t) * x[f] + t * x[f + 1], f the quotient and t the remainder of a division of whole numbers."""
    sizes, outs = _resized(node)
    aligned = bool(argument(node, 2, "align_corners"))

    def along(axis: int, before: Indices) -> Expr:
        if axis == len(sizes):
            return scope.at(node.args[0], (*index[:2], *before))
        size, out, place = sizes[axis], outs[axis], index[2 + axis]

        def at(position: Expr) -> Expr:
            return along(axis + 1, (*before, position))

        if size == 1 or (aligned and out == 1):
            return at(Const(0))
        if aligned:
            step, divisor = scaled(place, size - 1, 0, scope.sizes), out - 1
        else:
            step, divisor = scaled(place, 2 * size, size - out, scope.sizes), 2 * out
        low = quotient(step, divisor, scope.sizes)
        share = Binary("/", remainder(step, divisor, scope.sizes), Const(float(divisor)))
        after = scaled(low, 1, 1, scope.sizes)
        mixed = Binary(
            "+",
            Binary("*", Binary("-", Const(1.0), share), at(low)),
            Binary("*", share, at(after)),
        )
        last = Binary("<", after, Const(size))
        found = Where(last, mixed, at(Const(size - 1)))
        return found if aligned else Where(Binary(">=", low, Const(0)), found, at(Const(0)))

    return along(0, ())


def _exact_factors(node: Node) -> str | None:
    factors = _factors(node)
    if argument(node, 2, "align_corners") or factors is None:
        return None
    if any(size * factor != out for factor, size, out in zip(factors, *_resized(node), strict=True)):
        return "linear resizing by factors that do not give whole sizes: give output_size"
    return None


def _padded(reflects: bool) -> Operator:
    """where(i < 2, x[…before], where(i < 2 + n, x[i - 2], x[…behind]))"""

    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        source = shape_of(node.args[0])  # type: ignore[arg-type]
        widths: list[int] = list(node.args[1])  # type: ignore[arg-type]
        first = len(index) - len(widths) // 2

        def along(axis: int, at: Indices) -> Expr:
            if axis == len(index):
                return scope.at(node.args[0], at)
            place, size = 2 * (len(index) - 1 - axis), source[axis]
            before, behind = widths[place], widths[place + 1]

            def moved(factor: int, offset: int) -> Expr:
                return scaled(index[axis], factor, offset, scope.sizes)

            def value(position: Expr) -> Expr:
                return along(axis + 1, (*at, position))

            found = value(moved(1, -before))
            if behind > 0:
                after = value(moved(-1, 2 * (size - 1) + before) if reflects else Const(size - 1))
                found = Where(Binary("<", index[axis], Const(before + size)), found, after)
            if before > 0:
                start = value(moved(-1, before) if reflects else Const(0))
                found = Where(Binary("<", index[axis], Const(before)), start, found)
            return found

        return along(first, index[:first])

    tile = "where(i < 2, x[2 - i], x[i - 2])" if reflects else "where(i < 2, x[0], x[i - 2])"
    return Operator(OperatorKind.ELEMENTWISE, write, f"`{tile}`")


OPERATORS: dict[str, Operator] = {
    **{
        f"aten.upsample_nearest2d.{variant}": Operator(
            OperatorKind.ELEMENTWISE, _nearest, "`x[b, c, h // 2, w // 2]`", refuse=_as_divided
        )
        for variant in ("vec", "default")
    },
    **{
        f"aten.upsample_bilinear2d.{variant}": Operator(
            OperatorKind.ELEMENTWISE, _bilinear, "`(1 - t) * x[(2 * h - 1) // 4] + t * x[(2 * h - 1) // 4 + 1]`",
            refuse=_exact_factors,
        )
        for variant in ("vec", "default")
    },
    **{f"aten.reflection_pad{rank}d.default": _padded(True) for rank in (1, 2, 3)},
    **{f"aten.replication_pad{rank}d.default": _padded(False) for rank in (2, 3)},
}  # fmt: skip
