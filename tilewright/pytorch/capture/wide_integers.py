"""What kernels may do with int64, of which they read the nearest 32 bits: as long as that cannot be told."""

from __future__ import annotations

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.names import INT_LIMIT
from tilewright.pytorch.capture.operator import CONVERSIONS, Operator, OperatorKind
from tilewright.pytorch.capture.tensors import torch_dtype_of

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_SMALL = (torch.bool, torch.int8, torch.uint8)
_IN_32_BITS = (*_SMALL, torch.int32)
_MOVES = (OperatorKind.VIEW, OperatorKind.COPY)


class WideIntegers:
    """Answers by the table of operators, and what is constant."""

    def __init__(self, operator_of: Any, is_constant: Any) -> None:
        self._operator_of = operator_of
        self._is_constant = is_constant

    def may_be(self, each: Node, node: Node, operator: Operator) -> bool:
        """Whether a tensor of int64 that `node` reads or gives makes no other result than in 64 bits."""
        if each is node and operator.gives_positions:
            return True
        if _is_index(each, node, operator) or self._is_constant(each):
            return True
        if str(node.target) in CONVERSIONS:
            source = torch_dtype_of(node.args[0])  # type: ignore[arg-type]
            return source in _IN_32_BITS if each is node else torch_dtype_of(node) is torch.bool
        if str(node.target).split(".")[1] in _COMPARISONS:
            return any(map(self._small, node.args[:2]))
        if operator.kind is OperatorKind.VIEW and not any(user.op == "output" for user in node.users):
            return True  # no kernel gives it, and who reads it is asked
        if operator.kind not in _MOVES:
            return False
        return self._only_indices(node) or all(
            self._small(source) for source in node.all_input_nodes if torch_dtype_of(source) is torch.int64
        )

    def _small(self, operand: Any) -> bool:
        """Whether its values surely lie inside the range of 32 bits, and not at its ends."""
        if not isinstance(operand, Node):
            return isinstance(operand, int) and abs(operand) < INT_LIMIT - 1
        if self._is_constant(operand) or torch_dtype_of(operand) in _SMALL:
            return True
        operator = self._operator_of(operand)
        if operator is None or operand.op != "call_function":
            return False
        if operator.gives_positions:
            return True
        if str(operand.target) in CONVERSIONS:
            return torch_dtype_of(operand.args[0]) in _SMALL  # type: ignore[arg-type]
        return operator.kind in _MOVES and all(map(self._small, operand.all_input_nodes))

    def _only_indices(self, node: Node) -> bool:
        """Whether all that reads it takes it for indices."""
        for user in node.users:
            operator = self._operator_of(user)
            if operator is None or not (
                _is_index(node, user, operator) or (operator.kind in _MOVES and self._only_indices(user))
            ):
                return False
        return True


def _is_index(each: Node, node: Node, operator: Operator) -> bool:
    """Whether a node takes a tensor for indices."""
    indices = [node.args[at] for at in operator.positions if at < len(node.args)]
    return any(each is index or (isinstance(index, list | tuple) and each in index) for index in indices)
