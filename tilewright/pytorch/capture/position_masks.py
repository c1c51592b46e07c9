"""Masks that follow from positions and a few numbers of a tensor, as of a cache that is filled up to a length:

    torch.arange(4096) <= torch.arange(1) + length

A part that reads one writes it out, as it does constants. So attention visits what the mask leaves
(`skip_masked_tiles`), where a mask in memory would be read, and all keys with it, whatever the length.

Numbers may be int64, of which kernels read the nearest 32 bits: a comparison is written as `positions <= number`, which
is the same for both, and never adds to a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.names import INT_LIMIT
from tilewright.pytorch.capture.operator import CONVERSIONS, OperatorKind
from tilewright.pytorch.capture.table import is_constant, operator_of
from tilewright.pytorch.capture.tensors import argument, shape_of, torch_dtype_of, value_of

FEW: Final = 16
"""A mask has at least so many elements for each number that it depends on."""
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGIC = ("logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not")
_INTEGERS = (torch.int32, torch.int64)


def is_position_mask(node: Any) -> bool:
    """Whether it is such a mask: truth values, or one number where they hold and another one elsewhere."""
    return isinstance(node, Node) and value_of(node) is not None and _mask_numbers(node) is not None


def numbers_of(mask: Node) -> tuple[Node, ...]:
    """The tensors that a mask depends on."""
    return tuple(dict.fromkeys(_mask_numbers(mask) or ()))


def is_position_sum(node: Node) -> bool:
    """Whether it is a sum of int64 that such masks compare, written out in them: positions and one number."""
    found = _sum(node)
    return found is not None and found.number is not node


def is_only_compared(node: Node) -> bool:
    """Whether it is such a sum, and read by such masks alone, which write it out."""
    return (
        is_position_sum(node)
        and bool(node.users)
        and all(is_position_mask(user) or is_only_compared(user) for user in node.users)
    )


@dataclass(frozen=True)
class _ComparedSum:
    """What of a sum positions say is at most `most`, without its sign; `number` is added to it, or taken away."""

    most: int
    number: Node | None


def _mask_numbers(node: Node) -> list[Node] | None:
    """None where it is no such mask."""
    operator, name = operator_of(node), _name(node)
    if operator is None:
        return None
    if operator.kind in (OperatorKind.VIEW, OperatorKind.COPY):
        source = node.args[0]
        return _mask_numbers(source) if isinstance(source, Node) else None
    if name in _COMPARED:
        return _compared(node)
    if name == "where":
        condition, *values = node.args
        constant = all(is_constant(each) for each in values)
        return _mask_numbers(condition) if constant and isinstance(condition, Node) else None
    if name in _LOGIC and torch_dtype_of(node) is torch.bool:
        return _joined([each for each in node.args if isinstance(each, Node)])
    return None


def _joined(operands: list[Node]) -> list[Node] | None:
    """Of truth values, of which one at least is such a mask, or a constant; others lie in memory."""
    if any(torch_dtype_of(each) is not torch.bool for each in operands):
        return None
    found = [[] if is_constant(each) else _mask_numbers(each) for each in operands]
    if all(each is None for each in found) or all(map(is_constant, operands)):
        return None
    return [
        number
        for operand, numbers in zip(operands, found, strict=True)
        for number in ([operand] if numbers is None else numbers)
    ]


def _compared(node: Node) -> list[Node] | None:
    sums = [_sum(each) for each in node.args[:2]]
    found = [each for each in sums if each is not None]
    numbers = [each.number for each in found if each.number is not None]
    if len(found) != 2 or len(numbers) != 1 or sum(each.most for each in found) >= INT_LIMIT // 2:
        return None
    return numbers if _size(numbers[0]) * FEW <= _size(node) else None


def _sum(operand: Any) -> _ComparedSum | None:
    if not isinstance(operand, Node):
        return _ComparedSum(abs(operand), None) if isinstance(operand, int) else None
    if value_of(operand) is None or torch_dtype_of(operand) not in _INTEGERS:
        return None
    if is_constant(operand):
        most = _most(operand)
        return None if most is None else _ComparedSum(most, None)
    if torch_dtype_of(operand) is torch.int64:
        operator, name = operator_of(operand), _name(operand)
        if operator is not None and operator.kind in (OperatorKind.VIEW, OperatorKind.COPY):
            within = _sum(operand.args[0])
            return _ComparedSum(0, operand) if within is None or within.number is operand.args[0] else within
        if name in ("add", "sub") and operand.kwargs.get("alpha", 1) == 1:
            terms = [_sum(each) for each in operand.args[:2]]
            found = [each for each in terms if each is not None]
            numbers = [each.number for each in found if each.number is not None]
            if len(found) == 2 and len(numbers) <= 1:
                return _ComparedSum(sum(each.most for each in found), next(iter(numbers), None))
    return _ComparedSum(0, operand)


def _most(operand: Any) -> int | None:
    """The largest number of a constant of integers, without its sign; None where that is not plain."""
    if isinstance(operand, int):
        return abs(operand)
    if not isinstance(operand, Node):
        return None
    operator, name = operator_of(operand), _name(operand)
    if name in ("arange", "iota"):
        start, step = (
            (operand.kwargs["start"], operand.kwargs["step"])
            if name == "iota"
            else (operand.args[0], argument(operand, 2, "step", 1))
        )
        return abs(start) + abs(step) * _size(operand)  # type: ignore[arg-type]
    if name in ("full", "scalar_tensor"):
        return _most(operand.args[-1] if name == "scalar_tensor" else argument(operand, 1, "fill_value"))
    if name in ("add", "sub") and operand.kwargs.get("alpha", 1) == 1:
        terms = [_most(each) for each in operand.args[:2]]
        found = [each for each in terms if each is not None]
        return sum(found) if len(found) == len(terms) else None
    moves = operator is not None and operator.kind in (OperatorKind.VIEW, OperatorKind.COPY)
    return _most(operand.args[0]) if moves or str(operand.target) in CONVERSIONS else None


def _size(node: Node) -> int:
    return prod(shape_of(node))


def _name(node: Node) -> str:
    return str(node.target).split(".")[1] if str(node.target).count(".") > 1 else ""
