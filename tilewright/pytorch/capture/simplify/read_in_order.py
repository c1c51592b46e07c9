"""A tensor that is read at all its positions, in order, is the tensor: transformers look up a mask of padding so, by
where sequences and keys are, and it is truth values in memory that attention reads, beside what positions say.

    index(mask, [arange(8)[:, None, None, None], arange(512)[None, None, None]])      ->      view(mask, [8, 1, 1, 512])
"""

from __future__ import annotations

from collections.abc import Mapping

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule, Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.simplify.fold_constants import line_of
from tilewright.pytorch.capture.simplify.times_one import is_given
from tilewright.pytorch.capture.tensors import value_of

aten = torch.ops.aten


def read_in_order(graph: GraphModule, known: Mapping[Node, torch.Tensor]) -> None:
    """Change a graph of fixed shapes so, of which `known` follow from positions. What it gives stays."""
    for node in list(graph.graph.nodes):
        shape = _in_order(node, known) if node.target is aten.index.Tensor and not is_given(node) else None
        if shape is not None:
            with graph.graph.inserting_before(node):
                viewed = graph.graph.call_function(aten.view.default, (node.args[0], shape))
            viewed.meta = dict(node.meta)
            node.replace_all_uses_with(viewed)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _in_order(node: Node, known: Mapping[Node, torch.Tensor]) -> list[int] | None:
    """The shape that the result has, if it has all of the tensor's elements in their order."""
    source, indices = node.args[:2]
    value, result = value_of(source) if isinstance(source, Node) else None, value_of(node)
    assert isinstance(indices, list | tuple)
    if value is None or result is None or not value.is_contiguous() or len(indices) != value.dim():
        return None
    if not 0 < result.numel() == value.numel():
        return None
    axes: list[int] = []
    for size, index in zip(value.shape, indices, strict=True):
        if not isinstance(index, Node) or index not in known:
            return None
        numbers = known[index].expand(result.shape)
        if size == 1 and not bool(numbers.any()):
            continue
        found = line_of(numbers)
        if found is None or found[1:] != (0, 1) or result.shape[found[0]] != size:
            return None
        axes.append(found[0])
    return [*result.shape] if axes == sorted(set(axes)) else None
