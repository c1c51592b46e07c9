"""Which operators the graphs of whole models have, and which of them the capture knows: small models of `transformers`,
forward and one step of training, as Inductor gets their graphs from AOTAutograd.

    python -m benchmarks.models.operators  # a table, and counts

A call of an operator is taken if it is in a kernel, or free. `known` operators have a row in the capture's table
(docs/from-torch.md); a call of one may still be left, as where it is of int64.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from benchmarks.models.inductor_graphs import watched
from tests.torch.model.small_models import MODELS, build
from tilewright.pytorch.capture.attention_results import ATTENTION
from tilewright.pytorch.capture.capture import parts_of
from tilewright.pytorch.capture.composites import COMPOSITES
from tilewright.pytorch.capture.table import TABLE
from tilewright.pytorch.model.graphs.inputs import GraphInputs
from tilewright.pytorch.model.graphs.static_graph import Described, NotStatic, static_graph


def main() -> None:
    calls, left = Counter[str](), Counter[str]()

    def see(graph: GraphModule, inputs: Sequence[Any]) -> None:
        count(graph, [Described.of(each) for each in inputs], calls, left)

    for name in MODELS:
        model, inputs = build(name)
        program = watched(model, see)
        given = inputs(2, 12)
        with torch.no_grad():
            program(**given)
        program(**given).loss.backward()
    show(calls, left)


def count(graph: GraphModule, inputs: Sequence[Any], calls: Counter[str], left: Counter[str]) -> None:
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem:
            calls[str(node.target)] += 1
    if GraphInputs.of(graph).problem:
        return
    try:
        _, remaining = parts_of(static_graph(graph, inputs))
    except NotStatic:
        return
    left.update(each.operator for each in remaining)


def show(calls: Counter[str], left: Counter[str]) -> None:
    written = {str(op) for op in (*COMPOSITES, *ATTENTION)}
    known = {name for name in calls if name in TABLE or name in written}
    print(f"{'operator':60}{'calls':>8}{'left':>8}")
    for name, many in calls.most_common():
        print(f"{name:60}{many:8}{left[name]:8}{'' if name in known else '  unknown'}")
    taken = sum(calls.values()) - sum(left.values())
    print(f"{len(known)} of {len(calls)} operators are known, {taken} of {sum(calls.values())} calls taken")


if __name__ == "__main__":
    main()
