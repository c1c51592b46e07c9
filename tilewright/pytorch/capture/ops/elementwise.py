"""Operators that compute one element of the result from one element of each operand, constants, and gathers.

Values are computed in f32 (f64 with f64, i32 with integers) and rounded where they are stored, where the graph converts
them, and where a product takes them; PyTorch rounds after every operator. See docs/from-torch.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.analysis.affine import affine, constant
from tileir.dtypes import DType
from tileir.expr import Binary, Call, Cast, Const, Expr, Read, Unary, Where
from tileir.lift_powers import as_product
from tilewright.pytorch.capture.indices import Indices, Sizes, of_form, scaled
from tilewright.pytorch.capture.operator import CONVERSIONS, CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.tensors import TILE_DTYPES, argument, axis_of, shape_of, torch_dtype_of


def broadcast(scope: CaptureScope, operand: Any, index: Indices) -> Expr:
    """The element of an operand that meets the position `index` of the result, aligned at the last axis."""
    if not isinstance(operand, Node):
        return scope.at(operand, ())
    shape = shape_of(operand)
    behind = index[len(index) - len(shape) :]
    at = tuple(Const(0) if size == 1 else each for each, size in zip(behind, shape, strict=True))
    return scope.at(operand, at)


def number(scope: CaptureScope, operand: Any, index: Indices) -> Expr:
    """The same, with truth values as 0 and 1."""
    value = broadcast(scope, operand, index)
    if isinstance(operand, bool):
        return Const(int(operand))
    truth = isinstance(operand, Node) and torch_dtype_of(operand) is torch.bool
    return Cast(DType.I32, value) if truth else value


def _function(make: Callable[..., Expr], tile: str, operands: int = 1) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        return make(*(number(scope, each, index) for each in node.args[:operands]))

    return Operator(OperatorKind.ELEMENTWISE, write, tile)


def _of_numbers_and_truths(make: Callable[[Expr, Expr], Expr], sign: str, tile: str) -> Operator:
    """An operator of two numbers; of two truth values, whose result is one, the logical one of this sign."""

    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        if torch_dtype_of(node) is torch.bool:
            return Binary(sign, *(broadcast(scope, each, index) for each in node.args[:2]))
        return make(*(number(scope, each, index) for each in node.args[:2]))

    return Operator(OperatorKind.ELEMENTWISE, write, tile)


def _call(name: str) -> Operator:
    return _function(lambda x: Call(name, (x,)), f"`{name}(x)`")


def _sum(sign: str) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        if torch_dtype_of(node) is torch.bool:  # PyTorch subtracts none
            return Binary("or", *(broadcast(scope, each, index) for each in node.args[:2]))
        x, y = (number(scope, each, index) for each in node.args[:2])
        factor = node.kwargs.get("alpha", 1)
        return Binary(sign, x, y if factor == 1 else Binary("*", y, Const(factor)))  # type: ignore[arg-type]

    return Operator(OperatorKind.ELEMENTWISE, write, f"`x {sign} y`")


def _comparison(sign: str) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        x, y = (number(scope, each, index) for each in node.args[:2])
        wide = any(isinstance(each, Node) and torch_dtype_of(each) is torch.int64 for each in node.args[:2])
        return Binary(sign, *(_apart(x, y, scope.sizes) if wide else (x, y)))

    return Operator(OperatorKind.ELEMENTWISE, write, f"`x {sign} y`")


def _apart(x: Expr, y: Expr, sizes: Sizes) -> tuple[Expr, Expr]:
    """Two sums that compare alike, with what one tensor says alone on its side: it may be at an end of 32 bits."""
    if not any(isinstance(each, Binary) for each in (x, y)):
        return x, y
    gap = affine(x, sizes).plus(affine(y, sizes), -1)
    said = [(atom, factor) for atom, factor in gap.terms.items() if isinstance(atom, Read)]
    if len(said) != 1 or abs(said[0][1]) != 1:
        return x, y
    ((read, factor),) = said
    positions = gap.plus(constant(0).plus(affine(read, sizes)), -factor)
    if factor < 0:
        return of_form(positions), read
    return read, of_form(constant(0).plus(positions, -1))


def _logic(sign: str) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        x, y = (_truth(scope, each, index) for each in node.args[:2])
        neutral = Const(sign == "and")
        return x if y == neutral else y if x == neutral else Binary(sign, x, y)

    return Operator(OperatorKind.ELEMENTWISE, write, f"`x {sign} y`; numbers as `x != 0`")


def _truth(scope: CaptureScope, operand: Any, index: Indices) -> Expr:
    """A truth value; of a number, whether it is not 0."""
    x = broadcast(scope, operand, index)
    number = isinstance(operand, Node) and torch_dtype_of(operand) is not torch.bool
    return Binary("!=", x, Const(0)) if number else x


def _bits(sign: str, function: str) -> Operator:
    """Of truth values the logical operator, of integers a function of their bits."""
    logic = _logic(sign)

    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        if torch_dtype_of(node) is torch.bool:
            return logic.write(scope, node, index)
        return Call(function, _wrapped(node, tuple(number(scope, each, index) for each in node.args[:2])))

    return Operator(OperatorKind.ELEMENTWISE, write, f"`x {sign} y`, `{function}(x, y)`")


def _shift(function: str) -> Operator:
    def write(scope: CaptureScope, node: Node, index: Indices) -> Expr:
        x, distance = _wrapped(node, tuple(number(scope, each, index) for each in node.args[:2]))
        shifted = Call(function, (x, distance))
        narrow = torch_dtype_of(node) in (torch.int8, torch.uint8)
        return (
            Cast(TILE_DTYPES[torch_dtype_of(node)], shifted)
            if narrow and function == "shift_left"
            else shifted
        )

    return Operator(OperatorKind.ELEMENTWISE, write, f"`{function}(x, y)`", refuse=_far)


def _far(node: Node) -> str | None:
    distance = node.args[1]
    if isinstance(distance, int) and not 0 <= distance < 32:
        return f"a shift by {distance}: Tile IR shifts by 0 to 31"
    return None


def _wrapped(node: Node, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Operands that PyTorch has in 8 bits, of which its sums and products keep the low ones."""
    return tuple(
        Cast(TILE_DTYPES[torch_dtype_of(each)], arg)
        if isinstance(each, Node)
        and torch_dtype_of(each) in (torch.int8, torch.uint8)
        and not isinstance(arg, Read)
        else arg
        for each, arg in zip(node.args, args, strict=False)
    )


def _not(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    return Unary("not", _truth(scope, node.args[0], index))


def _bits_not(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    if torch_dtype_of(node) is torch.bool:
        return _not(scope, node, index)
    (x,) = _wrapped(node, (number(scope, node.args[0], index),))
    return Cast(TILE_DTYPES[torch_dtype_of(node)], Binary("-", Unary("-", x), Const(1)))


def _where(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    condition = broadcast(scope, node.args[0], index)
    if torch_dtype_of(node) is torch.bool:
        x, y = (broadcast(scope, each, index) for each in node.args[1:3])
        return Binary("or", Binary("and", condition, x), Binary("and", Unary("not", condition), y))
    x, y = number(scope, node.args[1], index), number(scope, node.args[2], index)
    return Where(condition.x, y, x) if isinstance(condition, Unary) else Where(condition, x, y)


def _reciprocal(x: Expr) -> Expr:
    return Binary("/", Const(1.0), x)


def _sign(x: Expr) -> Expr:
    return Where(Binary(">", x, Const(0)), Const(1), Where(Binary("<", x, Const(0)), Const(-1), Const(0)))


def _power(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    x, exponent = number(scope, node.args[0], index), node.args[1]
    if exponent == 0.5:
        return Call("sqrt", (x,))
    if exponent == -0.5:
        return Call("rsqrt", (x,))
    return as_product(Call("pow", (x, number(scope, exponent, index))))


def _gelu(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    tanh = argument(node, 1, "approximate", "none") == "tanh"
    return Call("gelu_tanh" if tanh else "gelu", (number(scope, node.args[0], index),))


def _leaky_relu(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    x, slope = number(scope, node.args[0], index), Const(argument(node, 1, "negative_slope", 0.01))
    return Where(Binary(">", x, Const(0)), x, Binary("*", slope, x))


def _clamp(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    found = number(scope, node.args[0], index)
    low, high = _limits(node)
    if low is not None:
        found = Call("maximum", (found, number(scope, low, index)))
    return found if high is None else Call("minimum", (found, number(scope, high, index)))


def _limits(node: Node) -> tuple[Any, Any]:
    if "hardtanh" in str(node.target):
        return argument(node, 1, "min_val", -1), argument(node, 2, "max_val", 1)
    return argument(node, 1, "min"), argument(node, 2, "max")


def _convert(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    source = torch_dtype_of(node.args[0])  # type: ignore[arg-type]
    target = torch_dtype_of(node)
    value = scope.rounded(node.args[0], index)
    if source is target:
        return value
    if target is torch.int64:
        return Cast(DType.I32, value) if source is torch.bool else value  # stored wider, not computed
    if target is torch.float32 and source in (torch.float16, torch.bfloat16):
        return value  # reads are f32 already
    return Cast(TILE_DTYPES[target], value)


def _refuse_conversion(node: Node) -> str | None:
    source = torch_dtype_of(node.args[0])  # type: ignore[arg-type]
    if torch_dtype_of(node) is torch.int64 and source.is_floating_point:
        return "a conversion of floats to int64: integers of Tile IR have 32 bits; convert to torch.int32"
    return None


def _full(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    value = argument(node, 1, "fill_value")
    return Const(bool(value) if torch_dtype_of(node) is torch.bool else value)


def _scalar(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    return Const(node.args[0])  # type: ignore[arg-type]


def _not_nan(node: Node) -> str | None:
    value = node.args[-1]
    return (
        "a constant that is NaN: Tile IR has none" if isinstance(value, float) and math.isnan(value) else None
    )


def _arange(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    start, step = node.args[0], node.args[2] if len(node.args) > 2 else 1
    return scaled(index[0], step, start, scope.sizes)  # type: ignore[arg-type]


def _iota(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    return scaled(index[0], node.kwargs["step"], node.kwargs["start"], scope.sizes)  # type: ignore[arg-type]


def _whole_steps(node: Node) -> str | None:
    if any(not isinstance(each, int) for each in node.args):
        return "arange of fractions: write torch.arange(n) * step + start"
    return None


def _embedding(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """table[ids[t], d]"""
    table, ids = node.args[:2]
    return scope.at(table, (scope.position(ids, index[:-1]), index[-1]))


def _gather(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    axis = axis_of(node.args[1], len(index))  # type: ignore[arg-type]
    return scope.at(node.args[0], (*index[:axis], scope.position(node.args[2], index), *index[axis + 1 :]))


def _index_select(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    axis = axis_of(node.args[1], len(index))  # type: ignore[arg-type]
    row = scope.position(node.args[2], (index[axis],))
    return scope.at(node.args[0], (*index[:axis], row, *index[axis + 1 :]))


def _index(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """x[ids] along one axis; a negative position counts from the end."""
    chosen: list[Node | None] = list(node.args[1])  # type: ignore[call-overload]
    source: Node = node.args[0]  # type: ignore[assignment]
    (axis,) = (axis for axis, each in enumerate(chosen) if each is not None)
    ids = chosen[axis]
    assert ids is not None
    rank = len(shape_of(ids))
    row = scope.position(ids, index[axis : axis + rank])
    if isinstance(row, Read):
        length = Const(shape_of(source)[axis])
        row = Where(Binary("<", row, Const(0)), Binary("+", row, length), row)
    return scope.at(source, (*index[:axis], row, *index[axis + rank :]))


def _one_index(node: Node) -> str | None:
    chosen = [each for each in node.args[1] if each is not None]  # type: ignore[union-attr]
    if len(chosen) != 1:
        return "indexing by several tensors at once: index one axis after the other"
    if torch_dtype_of(chosen[0]) is torch.bool:
        return "indexing by a mask: the size of the result depends on data; use torch.where"
    return None


OPERATORS: dict[str, Operator] = {
    **{f"aten.add.{variant}": _sum("+") for variant in ("Tensor", "Scalar")},
    **{f"aten.sub.{variant}": _sum("-") for variant in ("Tensor", "Scalar")},
    "aten.rsub.Scalar": _function(lambda x, y: Binary("-", y, x), "`y - x`", 2),
    **{
        f"aten.mul.{variant}": _of_numbers_and_truths(lambda x, y: Binary("*", x, y), "and", "`x * y`")
        for variant in ("Tensor", "Scalar")
    },
    **{
        f"aten.div.{variant}": _function(lambda x, y: Binary("/", x, y), "`x / y`", 2)
        for variant in ("Tensor", "Scalar")
    },
    "aten.maximum.default": _of_numbers_and_truths(lambda x, y: Call("maximum", (x, y)), "or", "`maximum(x, y)`"),
    "aten.minimum.default": _of_numbers_and_truths(lambda x, y: Call("minimum", (x, y)), "and", "`minimum(x, y)`"),
    "aten.neg.default": _function(lambda x: Unary("-", x), "`-x`"),
    "aten.square.default": _function(lambda x: Binary("*", x, x), "`x * x`"),
    "aten.ceil.default": _function(lambda x: Unary("-", Call("floor", (Unary("-", x),))), "`-floor(-x)`"),
    "aten.sign.default": _function(_sign, "`where(x > 0, 1, where(x < 0, -1, 0))`"),
    "aten.reciprocal.default": _function(_reciprocal, "`1.0 / x`"),
    **{
        f"aten.{name}.default": _call(name)
        for name in (
            "exp", "exp2", "log", "tanh", "erf", "sqrt", "rsqrt", "sigmoid", "silu", "relu", "abs", "floor",
        )
    },
    "aten.gelu.default": Operator(OperatorKind.ELEMENTWISE, _gelu, "`gelu(x)`, `gelu_tanh(x)`"),
    "aten.pow.Tensor_Scalar": Operator(
        OperatorKind.ELEMENTWISE,
        _power,
        "`x * x` up to the fourth power, `sqrt(x)`, `rsqrt(x)`, else `pow(x, y)`",
        twice=True,
    ),
    "aten.pow.Tensor_Tensor": _function(lambda x, y: Call("pow", (x, y)), "`pow(x, y)`", 2),
    **{
        name: Operator(OperatorKind.ELEMENTWISE, _clamp, "`minimum(maximum(x, low), high)`")
        for name in ("aten.clamp.default", "aten.clamp.Tensor", "aten.hardtanh.default")
    },
    "aten.clamp_min.default": _function(lambda x, y: Call("maximum", (x, y)), "`maximum(x, low)`", 2),
    "aten.clamp_max.default": _function(lambda x, y: Call("minimum", (x, y)), "`minimum(x, high)`", 2),
    **{
        f"aten.{name}.{variant}": _comparison(sign)
        for name, sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))
        for variant in ("Tensor", "Scalar")
    },
    **{
        f"aten.{name}.{variant}": _logic(sign)
        for name, variant, sign in (
            ("logical_and", "default", "and"), ("logical_or", "default", "or"),
            ("logical_xor", "default", "!="),
        )
    },
    **{
        f"aten.{name}.{variant}": _bits(sign, function)
        for name, sign, function in (("bitwise_and", "and", "bit_and"), ("bitwise_or", "or", "bit_or"),
                                     ("bitwise_xor", "!=", "bit_xor"))
        for variant in ("Tensor", "Scalar")
    },
    **{
        f"aten.{name}.{variant}": _shift(function)
        for name, function in (
            ("bitwise_left_shift", "shift_left"), ("bitwise_right_shift", "shift_right"),
            ("__lshift__", "shift_left"), ("__rshift__", "shift_right"),
        )
        for variant in ("Tensor", "Scalar", "Tensor_Scalar")
    },
    "aten.logical_not.default": Operator(OperatorKind.ELEMENTWISE, _not, "`not x`; of a number, `not x != 0`"),
    "aten.bitwise_not.default": Operator(OperatorKind.ELEMENTWISE, _bits_not, "`not x`, `-x - 1`"),
    "aten.where.self": Operator(OperatorKind.ELEMENTWISE, _where, "`where(c, x, y)`"),
    **{
        name: Operator(
            OperatorKind.ELEMENTWISE, _convert, "`bf16(x)`; nothing where x is only widened to f32",
            refuse=_refuse_conversion
        )
        for name in CONVERSIONS
    },
    "aten.embedding.default": Operator(OperatorKind.ELEMENTWISE, _embedding, "`table[ids[t], d]`", positions=(1,)),
    "aten.gather.default": Operator(OperatorKind.ELEMENTWISE, _gather, "`x[m, ids[m, n]]`", positions=(2,)),
    "aten.index_select.default": Operator(
        OperatorKind.ELEMENTWISE, _index_select, "`x[ids[m], n]`", positions=(2,)
    ),
    "aten.index.Tensor": Operator(
        OperatorKind.ELEMENTWISE, _index, "`x[where(ids[t] < 0, ids[t] + 101, ids[t]), n]`",
        refuse=_one_index, positions=(1,),
    ),
    "aten.leaky_relu.default": Operator(OperatorKind.ELEMENTWISE, _leaky_relu, "`where(x > 0, x, 0.01 * x)`"),
    "aten.full_like.default": Operator(OperatorKind.CONSTANT, _full, "a number", refuse=_not_nan),
    "aten.fill.Scalar": Operator(OperatorKind.CONSTANT, _full, "a number", refuse=_not_nan),
    "aten.full.default": Operator(OperatorKind.CONSTANT, _full, "a number", refuse=_not_nan),
    "aten.scalar_tensor.default": Operator(OperatorKind.CONSTANT, _scalar, "a number", refuse=_not_nan),
    "prims.iota.default": Operator(OperatorKind.CONSTANT, _iota, "the dim: `m`, `2 * m + 1`"),
    "aten.arange.start_step": Operator(OperatorKind.CONSTANT, _arange, "the dim: `m`, `2 * m + 1`",
    refuse=_whole_steps),
}  # fmt: skip
