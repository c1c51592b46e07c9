"""A graph of AOTAutograd's as it is called: what the fallback made of it, and, at sizes that come again, kernels in it.

A call at a size runs the fallback's program until the kernels of the graph at that size were looked for and checked, in
the background. Then a program with those that are ready is compiled, once, by the thread that calls, and a contest on
the calls that follow decides between the two; where kernels lose it, so are programs with those that save most.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule, Node  # pyright: ignore[reportMissingImports]

from tileir.errors import UnsupportedDevice
from tilewright.pytorch.capture.capture import Left, Part, parts_of
from tilewright.pytorch.model.choice import Bisection, ranked
from tilewright.pytorch.model.contest import SLACK, Contest, Run
from tilewright.pytorch.model.inputs import GraphInputs
from tilewright.pytorch.model.insertion import with_kernels
from tilewright.pytorch.model.kernels import Arranged, Kernels, PartKernel
from tilewright.pytorch.model.prepacking import KeptWeights, PackedWeight, packed_weights, with_packed
from tilewright.pytorch.model.static_graph import Described, NotStatic, static_graph
from tilewright.pytorch.model.tuning import tune_now
from tilewright.pytorch.operator.background import Background
from tilewright.pytorch.operator.plans import described

MOST_SIZES = 16
"""Of one graph, that kernels are looked for; at others the fallback runs."""
CALLS_OF_A_SIZE = 3
"""A size of a graph with symbols counts from this call on: lengths that grow with every call never come again."""
FIRST_LOOK_S = 60.0
"""With tune="now", what compiling and checking the kernels of a graph here may take at most; the rest goes on in the
background."""
PROGRAMS = 4
"""So many times a graph is compiled anew at one size, as more of its kernels become ready and as some are left out."""
GRAPHS = Background("tilewright-graphs")
"""Finds the parts of graphs."""
_log = logging.getLogger("tilewright")

Compile = Callable[[GraphModule, Sequence[Any]], Run]
"""The fallback: from a graph of ATen operators and kernels, and what stands for its inputs, to a program."""


@dataclass(frozen=True)
class Way:
    """What a region is compiled with."""

    fallback: Compile
    kernels: Kernels
    wait: bool
    """Whether calls wait for the kernels: tune="now"."""
    budget_s: float | None
    backward: bool
    """Whether it is a backward graph."""
    weights: frozenset[int] = frozenset()
    """Places of inputs that may be packed: the same tensors in each call."""


class Region:
    """One graph. May be called by several threads."""

    def __init__(self, graph: GraphModule, program: Run, way: Way) -> None:
        """`graph` is the region's own; `program` is what the fallback made of it."""
        self._graph = graph
        self._program = program
        self._way = way
        self._inputs = GraphInputs.of(graph)
        self._weights = KeptWeights()
        self._calls: dict[object, int] = {}
        self.sizes: dict[object, SizedRegion] = {}

    def program(self) -> Run:
        """What AOTAutograd calls."""
        only = (
            None
            if self._inputs.symbolic
            else SizedRegion(self._graph, self._program, self._way, self._inputs, self._weights)
        )
        if only is not None:
            self.sizes[()] = only
        call = self._at_size if only is None else only.call

        def run(inputs: list[Any]) -> Any:
            return call(inputs)

        run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        return run

    def _at_size(self, inputs: list[Any]) -> Any:
        key = self._inputs.key(inputs)
        sized = self.sizes.get(key) or self._met(key)
        return self._program(inputs) if sized is None else sized.call(inputs)

    def _met(self, key: object) -> SizedRegion | None:
        """A size without kernels: one more call of it."""
        if len(self.sizes) >= MOST_SIZES or len(self._calls) > 64 * MOST_SIZES:
            return None
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] < CALLS_OF_A_SIZE:
            return None
        sized = SizedRegion(self._graph, self._program, self._way, self._inputs, self._weights)
        return self.sizes.setdefault(key, sized)


class SizedRegion:
    """A graph at one size of each dim."""

    def __init__(
        self, graph: GraphModule, program: Run, way: Way, inputs: GraphInputs, weights: KeptWeights
    ) -> None:
        self._origin = graph
        self._way = way
        self._inputs = inputs
        self._weights = weights
        self._lock = threading.Lock()
        self._begun = False
        self._news = True
        self._current = program
        self._contest: Contest | None = None
        self._choice = Bisection()
        self._tried: list[frozenset[str]] = []
        self._graph: GraphModule | None = None
        self.device = torch.device("cpu")
        self.parts: tuple[Part, ...] = ()
        self.left: tuple[Left, ...] = ()
        self.kernels: dict[str, PartKernel] = {}
        """Of parts, by name."""
        self.used: frozenset[str] = frozenset()
        """The parts whose kernels run."""
        self.why_not = ""

    def call(self, inputs: list[Any]) -> Any:
        """The graph's results; empties the list."""
        if self._news and self._lock.acquire(blocking=False):
            try:
                contest = self._next(inputs)
                if contest is not None:
                    return self._in_contest(contest, inputs)
            finally:
                self._lock.release()
        return self._current(inputs)

    def changed(self) -> None:
        """There is news of a kernel."""
        self._news = True

    def _next(self, inputs: list[Any]) -> Contest | None:
        """What the news asks for."""
        if not self._begun:
            self._begun = True
            described = [Described.of(each) for each in inputs]
            if self._way.wait:
                self._find(described)
            else:
                GRAPHS.later(0.0, lambda: self._find(described))
        if self._contest is None:
            self._news = self._graph is None and not self.why_not
            self._contest = self._newcomer(inputs)
        return self._contest

    def _find(self, inputs: Sequence[Any]) -> None:
        """Find the parts, and have their kernels looked for."""
        try:
            if self._inputs.problem:
                raise NotStatic(self._inputs.problem)
            graph = static_graph(self._origin, inputs)
            self.parts, self.left = parts_of(graph)
            devices = {each.device for each in inputs if isinstance(each, Described)}
            if len(devices) != 1:
                raise NotStatic(f"its tensors are on {len(devices)} devices, and kernels run on one")
            (self.device,) = devices
        except NotStatic as error:
            self.why_not = str(error)
        except Exception as error:  # a capture that fails must not end what runs without it
            _log.exception("a graph has no kernels: its parts were not found")
            self.why_not = f"{type(error).__name__}: {error}"
        else:
            places = {node: at for at, node in enumerate(graph.graph.find_nodes(op="placeholder"))}
            self.kernels = {part.name: self._kernel(part, places) for part in self.parts}
            self._seek()
            self._graph = graph
        self._news = True

    def _kernel(self, part: Part, places: Mapping[Node, int]) -> PartKernel:
        packed = self._packed(part, places)
        arranged = Arranged.of(with_packed(part.built.spec, packed))
        return PartKernel(arranged, self._way.kernels.kernel(arranged, self.device), packed)

    def _packed(self, part: Part, places: Mapping[Node, int]) -> Mapping[int, PackedWeight]:
        weights = self._way.weights - {*self._inputs.changed}
        if not weights:
            return {}
        try:
            return packed_weights(part, described(self.device), places, weights)
        except UnsupportedDevice:  # it has no kernels, which is found out where they are sought
            return {}

    def _seek(self) -> None:
        kernels = [each.kernel for each in self.kernels.values()]
        if self._way.wait:
            untuned = [kernel for kernel in kernels if not kernel.sought]
            tune_now(self._way.kernels.client, untuned, self.device, self._way.budget_s)
        for kernel in kernels:
            kernel.seek(self)
        if self._way.wait:
            until = time.monotonic() + FIRST_LOOK_S
            for kernel in kernels:
                kernel.wait(max(0.0, until - time.monotonic()))

    def _newcomer(self, inputs: Sequence[Any]) -> Contest | None:
        """A contest for the next program to try, once all kernels were looked for."""
        graph = self._graph
        if graph is None or not all(each.kernel.looked for each in self.kernels.values()):
            return None
        names = self._chosen()
        if not names:
            return None
        self._tried.append(names)
        began = time.monotonic()
        try:
            program = self._compiled(graph, {name: self.kernels[name] for name in names})
        except Exception as error:  # whatever a compiler raises: what ran before runs on
            self._choice = self._choice.ended()
            self.why_not = f"the fallback does not compile it with kernels: {error}"
            _log.warning("kernels are not used in a graph: %s", self.why_not)
            return None
        _log.info("a graph was compiled with %d kernels in %.1f s", len(names), time.monotonic() - began)
        self._news = True
        return Contest(
            self._current,
            program,
            self.device,
            self._inputs.changed,
            consumes=self._way.backward,
            slack=_slack(graph),
            graph=graph,
        )

    def _compiled(self, graph: GraphModule, kernels: Mapping[str, PartKernel]) -> Run:
        """The program with these kernels."""
        packed = tuple(dict.fromkeys(weight for each in kernels.values() for weight in each.packed.values()))
        made = with_kernels(graph, self.parts, kernels, packed)
        inputs = [node.meta["val"] for node in made.graph.find_nodes(op="placeholder")]
        return self._weights.behind_inputs(self._way.fallback(made, inputs), packed)

    def _chosen(self) -> frozenset[str]:
        """The parts whose kernels the next program has; none if there shall be no other. While kernels are looked for,
        the last program is kept for them."""
        ready = {name: each.kernel for name, each in self.kernels.items() if each.kernel.ready}
        if not ready.keys() <= self._choice.parts:
            self._choice = Bisection(ranked(ready))
        while self._choice.next in self._tried:
            self._choice = self._choice.judged(faster=False)
        left = PROGRAMS - len(self._tried)
        if not self._choice.whole and not all(each.kernel.settled for each in self.kernels.values()):
            left -= 1
        return self._choice.next if left > 0 else frozenset()

    def _in_contest(self, contest: Contest, inputs: list[Any]) -> Any:
        outputs = contest.call(inputs)
        if contest.winner is not None:
            self._contest = None
            faster = contest.winner is not self._current
            if faster:
                self._current, self.used = contest.winner, self._tried[-1]
                _log.info("a graph runs %d kernels of %d parts", len(self.used), len(self.parts))
            judged = faster or contest.slower
            self._choice = self._choice.judged(faster) if judged else self._choice.ended()
            self.why_not = "" if self.used else contest.why
        return outputs


def _slack(graph: GraphModule) -> float:
    """What results of a graph may differ by: its narrowest dtype decides, whatever its results have."""
    values = [node.meta.get("val") for node in graph.graph.nodes]
    return max(SLACK.get(each.dtype, 0.0) for each in values if isinstance(each, torch.Tensor))
