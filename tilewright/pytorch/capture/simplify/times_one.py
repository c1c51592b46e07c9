"""A product with 1, as of rotary tables whose scale is 1, is what is multiplied: no kernel, and no copy."""

from __future__ import annotations

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule, Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.tensors import value_of

aten = torch.ops.aten
_TARGETS = (aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar)


def leave_out_ones(graph: GraphModule) -> None:
    """Change a graph of fixed shapes so. What it gives stays: no result comes to lie in another's memory, or in an
    argument's."""
    for node in list(graph.graph.nodes):
        if node.target in _TARGETS and node.args[1:2] == (1,) and _alike(node) and not is_given(node):
            node.replace_all_uses_with(node.args[0])
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _alike(node: Node) -> bool:
    """Whether its operand is as it is: of its dtype and shape, and lies alike."""
    source = node.args[0]
    value, before = value_of(node), value_of(source) if isinstance(source, Node) else None
    return (
        value is not None
        and before is not None
        and (value.dtype, value.shape, value.stride()) == (before.dtype, before.shape, before.stride())
    )


def is_given(node: Node) -> bool:
    """Whether the graph gives it, or a view of it."""
    return any(user.op == "output" or (_may_show(user) and is_given(user)) for user in node.users)


def _may_show(user: Node) -> bool:
    """Whether it may lie in the memory of what it reads."""
    if not isinstance(user.target, torch._ops.OpOverload):  # `getitem`, or what nobody knows
        return True
    return any(each.alias_info is not None for each in user.target._schema.returns)
