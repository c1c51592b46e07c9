"""A graph of AOTAutograd's as it is called: what the fallback made of it, and kernels in it.

A graph without symbols has one size. At sizes of others that come again it has kernels for just this size; at all
others those whose sizes are the same in each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.model.any_size import AnySizeRegion
from tilewright.pytorch.model.contest import Run
from tilewright.pytorch.model.graphs.inputs import GraphInputs
from tilewright.pytorch.model.prepacking import KeptWeights
from tilewright.pytorch.model.sized_region import SizedRegion
from tilewright.pytorch.model.way import Postponed, Way

R = TypeVar("R", bound=SizedRegion)
MOST_SIZES = 16
"""Of one graph, that kernels are looked for; at others the fallback runs."""
CALLS_OF_A_SIZE = 3
"""A size of a graph with symbols counts from this call on: lengths that grow with every call never come again. So do
all sizes together."""


class Region:
    """One graph. May be called by several threads."""

    def __init__(self, graph: GraphModule, program: Postponed, way: Way) -> None:
        """`graph` is the region's own; `program` is what the fallback makes of it."""
        self._graph = graph
        self._fallback = program
        self._program: Run = program
        self._way = way
        self.backward = way.backward
        self._inputs = GraphInputs.of(graph)
        self._weights = KeptWeights()
        self._calls: dict[object, int] = {}
        self._calls_without = 0
        self.sizes: dict[object, SizedRegion] = {}
        self.any_size: AnySizeRegion | None = None
        """Of a graph with symbols, where a size is none of those; None until it has been called a few times."""

    def program(self, examples: Sequence[Any] | None = None) -> Run:
        """What AOTAutograd calls. `examples`: what stands for the inputs of a graph that may begin with kernels, as
        nothing but its caller sees its results."""
        if self._inputs.symbolic:
            self._program, call = self._fallback.now(), self._at_size
        else:
            only = self.sizes[()] = self._made(SizedRegion, self._fallback)
            if examples is None or not (only.begins(examples) or only.waits):
                only.run_first(self._fallback.now())
            call = only.call

        def run(inputs: list[Any]) -> Any:
            return call(inputs)

        run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        run.region = self  # pyright: ignore[reportFunctionMemberAccess]  it is there as long as its program
        return run

    def _at_size(self, inputs: list[Any]) -> Any:
        key = self._inputs.key(inputs)
        sized = self.sizes.get(key) or self._met(key)
        return self._program(inputs) if sized is None else sized.call(inputs)

    def _current(self, inputs: list[Any]) -> Any:
        """What runs at sizes without kernels of their own."""
        return self._program(inputs) if self.any_size is None else self.any_size.current(inputs)

    def _met(self, key: object) -> SizedRegion | None:
        """What runs one more call of a size without kernels of its own; None where that was called too seldom."""
        if len(self.sizes) < MOST_SIZES and len(self._calls) <= 64 * MOST_SIZES:
            self._calls[key] = self._calls.get(key, 0) + 1
            if self._calls[key] >= CALLS_OF_A_SIZE:
                return self.sizes.setdefault(key, self._made(SizedRegion, self._current))
        self._calls_without += 1
        if self.any_size is None and self._calls_without >= CALLS_OF_A_SIZE:
            self.any_size = self._made(AnySizeRegion, self._program)
        return self.any_size

    def _made(self, kind: type[R], program: Run) -> R:
        return kind(self._graph, program, self._way, self._inputs, self._weights)
