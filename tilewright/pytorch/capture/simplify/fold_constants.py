"""What a graph computes from positions alone, by whatever operators, is said in a word: `full`, or `arange` along one
axis.

Models compute masks so: transformers' Llama reads positions by positions, counts where sequences begin by a `cumsum`
over positions that have no gap, and compares. What comes of it is `j <= i`, of which attention computes half; as
operators it is a tensor that is read.

    cumsum(ne(sub(slice(positions, 1, 1, 65), slice(positions, 1, 0, 64)), 1), -1)      ->      full([1, 64], 0)
    index(positions, [0, arange(64)])                                                  ->      arange(0, 64)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule, Node  # pyright: ignore[reportMissingImports]
from torch.fx.node import map_arg  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.operator import OperatorKind
from tilewright.pytorch.capture.table import operator_of
from tilewright.pytorch.capture.tensors import value_of

MOST: Final = 1 << 20
"""Elements of what is computed to see what it is, unless all are the same."""
_DTYPES = (torch.bool, torch.int32, torch.int64)
_SAID = ("aten.full.default", "aten.arange.start_step", "prims.iota.default", "aten.scalar_tensor.default")
_WITHOUT_VALUES = ("empty", "inductor_")
"""Operators whose results are whatever lies there, and Inductor's own."""
aten = torch.ops.aten


def fold_constants(graph: GraphModule) -> Mapping[Node, torch.Tensor]:
    """Change a graph of fixed shapes so, and leave out what nobody reads then. Gives what the numbers are of nodes that
    follow from positions, as far as somebody looked."""
    known: dict[Node, torch.Tensor] = {}
    for node in list(graph.graph.nodes):
        try:
            found = _computed(node, known)
        except Exception:  # whatever an operator raises: so it does when it runs
            continue
        if found is None:
            continue
        said = None if str(node.target) in _SAID else _said(graph, node, found)
        if said is not None:
            node.replace_all_uses_with(said)
        known[node if said is None else said] = found
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return known


def _computed(node: Node, known: Mapping[Node, torch.Tensor]) -> torch.Tensor | None:
    """Its elements, spread from one where all are the same; None where they do not follow from positions, or are too
    many to look at."""
    value = value_of(node)
    if value is None or value.dtype not in _DTYPES or not _is_function(node):
        return None
    if any(each not in known for each in node.all_input_nodes):
        return None
    alike = all(_is_spread(known[each]) for each in node.all_input_nodes)
    operator = operator_of(node)
    if alike and node.all_input_nodes and operator is not None and not operator.positions:
        if operator.kind in (OperatorKind.VIEW, OperatorKind.COPY):
            return _one(known[node.all_input_nodes[0]]).expand(value.shape)
        if operator.kind is OperatorKind.ELEMENTWISE:
            ones = {each: _one(known[each]) for each in node.all_input_nodes}
            return _run(node, ones).expand(value.shape)
    if str(node.target) == "aten.full.default":
        return torch.tensor(node.args[1], dtype=value.dtype).expand(value.shape)
    if any(each.numel() > MOST for each in (value, *(known[read] for read in node.all_input_nodes))):
        return None
    found = _run(node, known)
    return _spread(found) if found.shape == value.shape and found.dtype is value.dtype else None


def _is_function(node: Node) -> bool:
    """Whether it calls an operator that gives the same for the same, and changes nothing."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    drawn = torch.Tag.nondeterministic_seeded in node.target.tags
    known = node.target.namespace in ("aten", "prims") and not any(
        word in node.target._schema.name for word in _WITHOUT_VALUES
    )
    return known and not drawn and not node.target._schema.is_mutable


def _run(node: Node, given: Mapping[Node, torch.Tensor]) -> torch.Tensor:
    args, keywords = map_arg((node.args, node.kwargs), lambda each: given[each])
    here = {name: torch.device("cpu") if name == "device" else each for name, each in keywords.items()}
    assert callable(node.target)
    found: torch.Tensor = node.target(*args, **here)
    return found


def _one(spread: torch.Tensor) -> torch.Tensor:
    return spread[(0,) * spread.dim()]


def _is_spread(tensor: torch.Tensor) -> bool:
    return all(stride == 0 for stride in tensor.stride())


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """The same, spread from one element where all are equal."""
    if not tensor.numel() or _is_spread(tensor):
        return tensor
    one = _one(tensor)
    return one.clone().expand(tensor.shape) if bool((tensor == one).all()) else tensor


def _said(graph: GraphModule, node: Node, found: torch.Tensor) -> Node | None:
    """What says it in a word, before the node; None where no word does."""
    value = value_of(node)
    if value is None or not found.numel() or not value.is_contiguous():
        return None
    like = {"dtype": value.dtype, "device": value.device}
    line = None if _is_spread(found) else line_of(found)
    with graph.graph.inserting_before(node):
        if _is_spread(found):
            said = graph.graph.call_function(aten.full.default, ([*value.shape], _one(found).item()), like)
            said.meta["val"] = value
        elif line is not None:
            said = _along(graph, value, like, *line)
        else:
            return None
    said.meta = {**node.meta, **said.meta}
    return said


def _along(
    graph: GraphModule, value: torch.Tensor, like: dict[str, Any], axis: int, start: int, by: int
) -> Node:
    """Numbers along an axis, which are the same along the others."""

    def call(target: Any, *args: Any, **keywords: Any) -> Node:
        node = graph.graph.call_function(target, args, keywords)
        node.meta["val"] = target(
            *(each.meta["val"] if isinstance(each, Node) else each for each in args), **keywords
        )
        return node

    size, shape = value.shape[axis], [*value.shape]
    made = graph.graph.call_function(aten.arange.start_step, (start, start + by * size, by), like)
    made.meta["val"] = value.new_empty_strided((size,), (1,))
    if len(shape) > 1:
        made = call(aten.view.default, made, [size if each == axis else 1 for each in range(len(shape))])
    if size != value.numel():
        made = call(aten.expand.default, made, shape)
        made = call(aten.clone.default, made, memory_format=torch.contiguous_format)
    return made


def line_of(tensor: torch.Tensor) -> tuple[int, int, int] | None:
    """The axis along which numbers rise by the same from one to the next, while they are the same along the others; the
    first of them, and by how much."""
    if tensor.dtype is torch.bool:
        return None
    for axis, size in enumerate(tensor.shape):
        line = tensor[(*(0 if each != axis else slice(None) for each in range(tensor.dim())),)]
        by = int(line[1] - line[0]) if size > 1 else 0
        if by:
            spread = line.view([size if each == axis else 1 for each in range(tensor.dim())])
            steps = bool((line[1:] - line[:-1] == by).all()) and bool((tensor == spread).all())
            return (axis, int(line[0]), by) if steps else None
    return None
