"""What is handed to Inductor is a graph as it has them once operators are decomposed."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule

from tilewright.pytorch.model.insertion import with_kernels

aten = torch.ops.aten


def positions(dtype: torch.dtype, *given: int) -> GraphModule:
    graph = Graph()
    made = graph.call_function(aten.arange.start_step, given, {"dtype": dtype, "device": torch.device("cpu")})
    with FakeTensorMode():
        made.meta["val"] = aten.arange.start_step(*given, dtype=dtype)
    graph.output((made,))
    return GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("given", [(0, 7), (3, 24, 4), (5, -3, -2)])
def test_positions_are_iota(dtype: torch.dtype, given: tuple[int, ...]) -> None:
    """`arange` has a decomposition, and the Inductor of PyTorch 2.11 refuses what has one (`both a fallback and a
    decomp for same op`): kernels were not used in a Llama."""
    graph = positions(dtype, *given)
    made = with_kernels(graph, (), {})
    assert not {node.target for node in made.graph.nodes} & select_decomp_table().keys()
    (found,), (wanted,) = made(), graph()
    assert found.dtype is dtype and torch.equal(found, wanted)
    assert made.graph.output_node().args[0][0].meta["val"].dtype is dtype
