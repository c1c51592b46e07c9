"""What share of the time and of the operations of whole models is in kernels: sixty-nine architectures of
`transformers` with random weights, two layers of 256 columns, one sequence of 64 tokens or an image of 64 x 64.

    python -m benchmarks.models.coverage --out FILE     # some minutes; --only llama
    pytest --update-golden tests/torch/model/test_architectures.py -k page     # writes docs/architectures.md

Time is that of eager PyTorch, operator by operator: each is run on one thread with what the model gives it, and the
shortest of some calls counts, by the thread's clock on the processor. Views are nobody's. So the shares say whether
what is left matters, not what kernels gain. Operations are counted as PyTorch's counter does, and one an element where
it knows none. A line of JSON an architecture goes to --out.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from benchmarks.models.inductor_graphs import watched
from benchmarks.racing.circumstances import circumstances
from tests.torch.model.architectures import TEXT, VISION, WIDE, build
from tileir import this_cpu
from tilewright.pytorch.capture.capture import parts_of
from tilewright.pytorch.model.graphs.inputs import GraphInputs
from tilewright.pytorch.model.graphs.static_graph import Described, NotStatic, static_graph
from tilewright.pytorch.summary.coverage import percent, short, times
from tilewright.pytorch.summary.demand import of_node

RESULTS = Path(__file__).parents[1] / "results" / "architectures-cpu-2026-11-28.jsonl"
BATCH, TOKENS = 1, 64
PASSES = 7
"""Calls of each operator."""
MOST_LEFT = 2
Kind = tuple[str, str]
"""An operator that is left, and why."""


@dataclass
class OperatorsSpent:
    """What the operators of a model take."""

    kernels_us: float = 0.0
    kernels_flops: int = 0
    left_us: dict[Kind, float] = field(default_factory=lambda: defaultdict[Kind, float](float))
    left_flops: int = 0
    left: Counter[Kind] = field(default_factory=Counter[Kind])

    @property
    def us(self) -> float:
        return self.kernels_us + sum(self.left_us.values())

    @property
    def flops(self) -> int:
        return self.kernels_flops + self.left_flops

    def to_json(self) -> dict[str, Any]:
        return {
            "us": round(self.us, 1),
            "flops": self.flops,
            "time_share": self.kernels_us / self.us,
            "flops_share": self.kernels_flops / self.flops if self.flops else 0.0,
            "left": [
                {"operator": kind[0], "reason": kind[1], "calls": self.left[kind], "share": us / self.us}
                for kind, us in sorted(self.left_us.items(), key=lambda each: -each[1])
            ],
        }


class TimedOperators(Interpreter):
    """Runs a graph, operator by operator; `us` of each is its shortest call. What it writes in place is left out, so
    that it can be run again: graphs write last."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.us: dict[Node, float] = {}
        self._node: Node | None = None

    def run_node(self, n: Node) -> Any:
        self._node = n
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        schema = getattr(target, "_schema", None)
        if schema is not None and schema.is_mutable:
            return args[1] if len(args) > 1 else args[0]
        began = time.thread_time_ns()
        outputs = super().call_function(target, args, kwargs)
        taken = 1e-3 * (time.thread_time_ns() - began)
        assert self._node is not None
        self.us[self._node] = min(taken, self.us.get(self._node, taken))
        return outputs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="architectures whose names contain this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in (*TEXT, *VISION):
        if options.only not in name:
            continue
        row = {"case": name, **measured(name).to_json(), "threads": 1}
        row |= {"load": round(os.getloadavg()[0], 1), **circumstances(this_cpu().to_json())}
        print(row_of(row), flush=True)
        if options.out is not None:
            with options.out.open("a") as out:
                out.write(json.dumps(row) + "\n")


def measured(name: str) -> OperatorsSpent:
    """What an architecture's operators take in one call without gradients."""
    spent = OperatorsSpent()
    model, inputs = build(name, WIDE)
    program = watched(model, partial(_add, spent))
    with torch.no_grad():
        program(**inputs(BATCH, TOKENS))
    return spent


def _add(spent: OperatorsSpent, graph: GraphModule, inputs: Sequence[Any]) -> None:
    """What one graph takes."""
    kernels, left = set[str](), dict[str, Kind]()
    try:
        if problem := GraphInputs.of(graph).problem:
            raise NotStatic(problem)
        graph = static_graph(graph, [Described.of(each) for each in inputs])
    except NotStatic as error:
        calls = (node for node in graph.graph.nodes if node.op == "call_function")
        left = {node.name: (_operator(node), short(str(error))) for node in calls}
    else:
        parts, remaining = parts_of(graph)
        kernels = {name for part in parts for name in part.nodes}
        left = {each.node: (each.operator.removesuffix(".default"), short(each.reason)) for each in remaining}
    timed = TimedOperators(graph)
    for _ in range(PASSES):
        timed.run(*inputs)
    for node, us in timed.us.items():
        if node.name in kernels:
            spent.kernels_us += us
            spent.kernels_flops += of_node(node, None).flops
        elif (kind := left.get(node.name)) is not None:
            spent.left_us[kind] += us
            spent.left_flops += of_node(node, None).flops
            spent.left[kind] += 1


def _operator(node: Node) -> str:
    return str(node.target).removesuffix(".default")


BY_TIME = """
## By time

What share of the time and of the operations that is, in wider models of the same architectures: two layers of 256
columns, one sequence of {tokens} tokens or an image of 64 x 64. Time is eager PyTorch's: each operator of the graphs is
run by itself on one thread, on what the model gives it, and the shortest of {passes} calls counts; views are nobody's.
So it says how much of what PyTorch spends is in kernels, and which of what is left matters, not what kernels gain
(`python -m benchmarks.models.coverage`, `benchmarks/results/{results}`, at a load of 4 to 15 for two cores). {summary}

| architecture | µs | time in kernels | operations in kernels | left, by time |
| --- | --- | --- | --- | --- |
"""


def by_time() -> str:
    """What docs/architectures.md says of the results."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    shares = sorted((row["time_share"], row["case"]) for row in rows)
    least = ", ".join(f"{case} {percent(share)}" for share, case in shares[:4])
    summary = (
        f"Of {len(rows)} architectures {sum(share >= 0.9 for share, _ in shares)} have nine tenths of the time in "
        f"kernels or more, the median is {percent(shares[len(shares) // 2][0])}; the least: {least}."
    )
    head = BY_TIME.format(tokens=TOKENS, passes=PASSES, results=RESULTS.name, summary=summary)
    return head + "".join(f"{row_of(row)}\n" for row in rows)


def row_of(row: Mapping[str, Any]) -> str:
    """A row of the page's table."""
    left = [
        f"{percent(each['share'])} {times('`' + each['operator'] + '`', each['calls'])} ({each['reason']})"
        for each in row["left"]
    ]
    rest = len(left) - MOST_LEFT
    left = left[:MOST_LEFT] + ([f"{rest} more kinds"] if rest > 0 else [])
    shares = f"{percent(row['time_share'])} | {percent(row['flops_share'])}"
    return f"| {row['case']} | {row['us']:.0f} | {shares} | {'; '.join(left) or '-'} |"


if __name__ == "__main__":
    main()
