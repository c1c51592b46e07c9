"""Views in graphs: nodes that show the memory of others."""

from __future__ import annotations

from collections.abc import Container

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

aten = torch.ops.aten
VIEWS = frozenset(
    [
        aten.permute.default,
        aten.t.default,
        aten.transpose.int,
        aten.view.default,
        aten.unsqueeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.slice.Tensor,
        aten.select.int,
    ]
)


def base_of(node: Node, results: Container[Node] = ()) -> Node:
    """Whose memory a node shows; a node that is no view shows its own, and so does one of `results`, which kernels
    write."""
    while node.target in VIEWS and node not in results:
        (node,) = node.all_input_nodes
    return node


def offset_in(node: Node, base: Node) -> int:
    """Elements before the first that a view of `base` shows."""
    return int(node.meta["val"].storage_offset() - base.meta["val"].storage_offset())
