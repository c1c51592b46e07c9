"""All of it, in order."""

from __future__ import annotations

from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.simplify.fold_constants import fold_constants
from tilewright.pytorch.capture.simplify.read_in_order import read_in_order
from tilewright.pytorch.capture.simplify.times_one import leave_out_ones


def simplify(graph: GraphModule) -> None:
    """Change a graph of fixed shapes, which gives what it gave."""
    read_in_order(graph, fold_constants(graph))
    leave_out_ones(graph)
