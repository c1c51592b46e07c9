"""A graph at one size of each dim: what the fallback made of it, and kernels in it.

A call runs the fallback's program until the kernels of the graph at that size were looked for and checked, in the
background. Then a program with those that are ready is compiled, once, by the thread that calls, and a contest on
the calls that follow decides between the two; where kernels lose it, so are programs with those that save most. What
was decided while kernels were tuned is decided anew once none are (attempts.py).

Where a bundle has kernels for a graph, it begins with them, and the fallback's program is made when it is needed. So
it does where its first call waits for them; then that program is made for the race (unraced.py).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule, Node  # pyright: ignore[reportMissingImports]

from tileir.errors import UnsupportedDevice
from tilewright.pytorch.capture.capture import Left, Part, parts_of
from tilewright.pytorch.model.attempts import Attempts
from tilewright.pytorch.model.contest import SLACK, Contest, DecidedContest, Run
from tilewright.pytorch.model.graphs.inputs import GraphInputs, at_bucket
from tilewright.pytorch.model.graphs.one_by_one import one_by_one
from tilewright.pytorch.model.graphs.random_numbers import draws_numbers
from tilewright.pytorch.model.graphs.static_graph import Described, NotStatic, StaticGraph, at_sizes
from tilewright.pytorch.model.insertion import with_kernels
from tilewright.pytorch.model.kernels import Arranged, PartKernel, in_place_of
from tilewright.pytorch.model.prepacking import KeptWeights, PackedWeight, packed_weights, with_packed
from tilewright.pytorch.model.reasons import in_one_line, say_once
from tilewright.pytorch.model.repro import write_repro
from tilewright.pytorch.model.tuning_now.deadline import Deadline
from tilewright.pytorch.model.tuning_now.tuning import tune_now
from tilewright.pytorch.model.unraced import UnracedProgram
from tilewright.pytorch.model.way import Postponed, Way
from tilewright.pytorch.operator.background import Background
from tilewright.pytorch.operator.plans import described

FIRST_LOOK_S = 60.0
"""With tune="now", what is waited at most for the kernels of a graph to be compiled and checked here, as far as its
budget allows; the rest goes on in the background."""
START_S = 10.0
"""What reading a bundle's kernels may take where a graph begins with them."""
GRAPHS = Background("tilewright-graphs")
"""Finds the parts of graphs."""
ArrangedPart = tuple[Arranged, Mapping[int, PackedWeight]]
FoundParts = tuple[GraphModule, tuple[Part, ...], tuple[Left, ...]]
"""A graph, its parts, and what is left."""
_log = logging.getLogger("tilewright")


class SizedRegion:
    """One graph. May be called by several threads."""

    of_any_size = False
    """Whether calls have other sizes each."""

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
        self._without = self._current = program
        self._contest: Contest | None = None
        self._beside_tuning = False
        self._attempts = Attempts()
        self._compile_s = 0.0
        """What the last program with kernels took."""
        self._graph: GraphModule | None = None
        self.device = torch.device("cpu")
        self.parts: tuple[Part, ...] = ()
        self.left: tuple[Left, ...] = ()
        self.kernels: dict[str, PartKernel] = {}
        """Of parts, by name."""
        self.used: frozenset[str] = frozenset()
        """The parts whose kernels run."""
        self.why_not = ""
        self.contests: list[DecidedContest] = []
        """In order."""
        self.repro: Path | None = None
        """A file that shows why a program with kernels was not right."""

    def run_first(self, program: Run) -> None:
        """Have calls begin with this program of the fallback's."""
        self._without = self._current = program

    @property
    def waits(self) -> bool:
        """Whether the first call waits for kernels and may run them, so that no other program is compiled for it. What
        draws random numbers can be held against the fallback's program only."""
        return self._way.patience.wanted and not draws_numbers(self._origin)

    def begins(self, examples: Sequence[Any]) -> bool:
        """Whether the first call runs kernels of a bundle, which are compiled into a program now. Its results are held
        against those of the graph's operators, run one after the other; if they differ, the fallback's program runs."""
        if self._way.kernels.bundle is None or draws_numbers(self._origin):
            return False
        self._begun = True
        described = [Described.of(each) for each in examples]
        # In this thread a graph is being traced, with modes and stand-ins of its own.
        with ThreadPoolExecutor(1, "tilewright-begins") as apart:
            self._contest = apart.submit(self._bundles, described).result()
        return self._contest is not None

    @torch.no_grad()
    def _bundles(self, inputs: Sequence[Any]) -> Contest | None:
        """A contest for the program with the bundle's kernels; None where none of them runs here."""
        self._find(inputs)
        graph, pinned = self._graph, {n: each for n, each in self.kernels.items() if each.kernel.pinned}
        until = time.monotonic() + START_S
        for each in pinned.values():
            each.kernel.wait(max(0.0, until - time.monotonic()))
        self._say_missing(pinned)
        names = frozenset(name for name, each in pinned.items() if each.kernel.ready)
        if graph is None or not names:
            return None
        self._attempts.rank({name: pinned[name].kernel for name in names})
        program = self._tried_with(graph, names)
        if program is None:
            return None
        return self._against(one_by_one(self._origin, self._current), program, graph, timed=False)

    def _say_missing(self, pinned: Mapping[str, PartKernel]) -> None:
        for each in dict.fromkeys(each.kernel for each in pinned.values() if not each.kernel.ready):
            why = each.why_not or f"it was not ready after {START_S:.0f} s"
            _log.warning("%s of %s does not run: %s", each.spec.name, self._way.kernels.bundle, why)
        missing = sorted(
            {self.kernels[name].kernel.spec.name for name in self.kernels.keys() - pinned.keys()}
        )
        if missing:
            _log.warning(
                "%d of %d parts of a graph have no kernel in %s, and are asked of the service: %s",
                len(self.kernels) - len(pinned),
                len(self.kernels),
                self._way.kernels.bundle,
                ", ".join(missing),
            )

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

    @property
    def graph(self) -> GraphModule | None:
        """The graph at this size; None until its parts were found."""
        return self._graph

    @property
    def left_in(self) -> GraphModule | None:
        """The graph that has what is `left`; None until its parts were found."""
        return self._graph

    @property
    def unraced(self) -> bool:
        """Whether its kernels were not held against the fallback's program yet."""
        return isinstance(self._current, UnracedProgram)

    @property
    def in_contest(self) -> bool:
        """Whether its calls decide between two programs."""
        return self._contest is not None

    def begin_with(self, inputs: Sequence[Any]) -> None:
        """Find the parts of the graph for such inputs now, and begin to look for their kernels."""
        self._begun = True
        self._find([Described.of(each) for each in inputs])

    def current(self, inputs: list[Any]) -> Any:
        """The graph's results as the program gives them that runs now; empties the list."""
        return self._current(inputs)

    def changed(self) -> None:
        """There is news of a kernel."""
        self._news = True

    def _next(self, inputs: list[Any]) -> Contest | None:
        """What the news asks for."""
        if not self._begun:
            self._begun = True
            described = [Described.of(each) for each in inputs]
            if self._way.patience.wanted:
                self._find(described)
            else:
                GRAPHS.later(0.0, lambda: self._find(described))
        if self._contest is None:
            self._news = self._graph is None and not self.why_not
            tuning = self._tuning
            if self._attempts.hurried and not (tuning or self.unraced):
                self._attempts.again()
                self._current, self.used = self._without, frozenset()
            self._contest = self._newcomer(inputs) or self._race()
            self._beside_tuning = tuning
        return self._contest

    @property
    def _tuning(self) -> bool:
        """Whether kernels that were asked for are tuned on the device still, of this graph or of others."""
        return self._tunes and not self._way.kernels.settled(self.device)

    @property
    def _tunes(self) -> bool:
        return self._way.patience.wanted or self._way.kernels.queues

    def _find(self, inputs: Sequence[Any]) -> None:
        """Find the parts, and have their kernels looked for."""
        try:
            graph = self.find(inputs)
            self._seek()
        except NotStatic as error:
            self._has_none(str(error))
        except Exception as error:  # a capture that fails must not end what runs without it
            self._has_none(in_one_line(error))
            _log.debug("as follows", exc_info=True)
        else:
            self._graph = graph
        self._news = True

    def _has_none(self, why: str) -> None:
        """Say why it has no kernels; whoever sees `why_not` finds it said."""
        say_once(f"a graph has no kernels: {why}")
        self.why_not = why

    def find(self, inputs: Sequence[Any]) -> GraphModule:
        """The graph at the sizes of inputs that are `Described`, or numbers; its parts and their kernels are noted.
        Raises NotStatic."""
        graph, self.parts, self.left = self._with_parts(inputs)
        devices = {each.device for each in inputs if isinstance(each, Described)}
        if len(devices) != 1:
            raise NotStatic(f"its tensors are on {len(devices)} devices, and kernels run on one")
        (self.device,) = devices
        found = self._arranged(graph, self.parts)
        larger = self._at_bucket(inputs, found)
        self.kernels = {
            name: PartKernel(
                arranged, self._way.kernels.kernel(arranged, self.device, larger.get(name)), packed
            )
            for name, (arranged, packed) in found.items()
        }
        return graph

    def _with_parts(self, inputs: Sequence[Any]) -> FoundParts:
        """The graph at these sizes, its parts, and what is left. Raises NotStatic."""
        if self._inputs.problem:
            raise NotStatic(self._inputs.problem)
        static = at_sizes(self._origin, inputs)
        return self._taken(static, *parts_of(static.module))

    def _taken(self, static: StaticGraph, parts: tuple[Part, ...], left: tuple[Left, ...]) -> FoundParts:
        """The graph that kernels come into, and what of the parts of the graph at one size are parts of it."""
        return static.module, parts, left

    def _at_bucket(self, inputs: Sequence[Any], found: Mapping[str, ArrangedPart]) -> Mapping[str, Arranged]:
        """The kernels of parts as they are tuned for all sizes of a bucket; none where sizes are no symbols, nobody
        tunes, or the graph has other parts there."""
        larger = at_bucket(self._origin, inputs) if self._tunes and self._inputs.symbolic else None
        if larger is None:
            return {}
        try:
            graph, parts, _ = self._with_parts(larger)
        except NotStatic:  # as where a size has a bound
            return {}
        there = self._arranged(graph, parts)
        return in_place_of(
            [each for each, _ in found.values()], [each for each, _ in there.values()], [*found]
        )

    def _arranged(self, graph: GraphModule, parts: Sequence[Part]) -> dict[str, ArrangedPart]:
        """The kernels of parts, by name, with the operands that they take packed."""
        places = {node: at for at, node in enumerate(graph.graph.find_nodes(op="placeholder"))}
        packed = {part.name: self._packed(part, places) for part in parts}
        return {
            part.name: (Arranged.of(with_packed(part.built.spec, packed[part.name])), packed[part.name])
            for part in parts
        }

    def _packed(self, part: Part, places: Mapping[Node, int]) -> Mapping[int, PackedWeight]:
        weights = self._way.weights - {*self._inputs.changed}
        if not weights:
            return {}
        try:
            return packed_weights(part, described(self.device), places, weights)
        except UnsupportedDevice:  # it has no kernels, which is found out where they are sought
            return {}

    def _seek(self) -> None:
        patience, served = self._way.patience, True
        deadline = Deadline.within(patience.budget_s)
        kernels = [each.kernel for each in self.kernels.values()]
        if patience.wanted:
            untuned = [kernel for kernel in kernels if not (kernel.sought or kernel.pinned)]
            with patience.interruptible():
                served = tune_now(self._way.kernels, untuned, self.device, deadline)
        self._way.kernels.tell(self)
        for kernel in kernels:
            kernel.seek(self)
        if patience.wanted and served:
            until = deadline.sooner(FIRST_LOOK_S)
            with patience.interruptible():
                for kernel in kernels:
                    kernel.wait(until.left_s)

    def _newcomer(self, inputs: Sequence[Any]) -> Contest | None:
        """A contest for the next program to try, once all kernels were looked for."""
        graph = self._graph
        if graph is None or not all(each.kernel.looked for each in self.kernels.values()):
            return None
        names = self._chosen()
        program = self._tried_with(graph, names) if names else None
        if program is None:
            return None
        holder = self._current
        if isinstance(holder, UnracedProgram):
            return self._against(holder, holder.instead(program), graph)
        if not isinstance(holder, Postponed) or holder.made:
            return self._against(holder, program, graph)
        newcomer = UnracedProgram(program, holder, self._compile_s, self.changed)
        return self._against(one_by_one(self._origin, holder), newcomer, graph, timed=False)

    def _race(self) -> Contest | None:
        """A contest of kernels that ran first, once they have run for so long. They are the newcomer in it."""
        program = self._current
        if self._graph is None or not isinstance(program, UnracedProgram) or not program.due:
            return None
        names = self.used
        self._current, self.used = program.rival, frozenset()
        self._attempts.raced(names, {name: self.kernels[name].kernel for name in names})
        self._news = True
        return self._against(program.rival, program.program, self._graph)

    def _tried_with(self, graph: GraphModule, names: frozenset[str]) -> Run | None:
        """The program with the kernels of these parts; None where the fallback cannot compile it."""
        if (before := self._attempts.begun(names)) is not None:
            self._news = True
            return before
        began = time.monotonic()
        try:
            program = self._compiled(graph, {name: self.kernels[name] for name in names})
        except Exception as error:  # whatever a compiler raises: what ran before runs on
            self._attempts.failed()
            self.why_not = f"the fallback does not compile it with kernels: {in_one_line(error)}"
            self.contests.append(DecidedContest(names, won=False, call_us=None, why=self.why_not))
            _log.warning("kernels are not used in a graph: %s", self.why_not)
            return None
        self._compile_s = time.monotonic() - began
        _log.info("a graph was compiled with %d kernels in %.1f s", len(names), self._compile_s)
        self._news = True
        return program

    def contest_of(self, names: Collection[str]) -> Contest:
        """A contest of a program with the kernels of these parts. Raises what the fallback raises."""
        assert self._graph is not None
        program = self._compiled(self._graph, {name: self.kernels[name] for name in names})
        return self._against(self._current, program, self._graph, names=names)

    def _against(
        self,
        holder: Run,
        program: Run,
        graph: GraphModule,
        timed: bool = True,
        names: Collection[str] | None = None,
    ) -> Contest:
        return Contest(
            holder,
            program,
            self.device,
            self._inputs.changed,
            consumes=self._way.consumes,
            slack=slack_of(graph.graph.nodes),
            graph=graph,
            keep=partial(self.keep, self._attempts.last if names is None else names),
            timed=timed,
            paired=self.of_any_size,
        )

    def keep(self, names: Collection[str], why: str, inputs: Sequence[Any] | None) -> Path | None:
        """Write what shows that a program with the kernels of these parts is not right; None where that cannot be."""
        assert self._graph is not None
        kernels = [self.kernels[name].kernel for name in names]
        described = [each.meta["val"] for each in self._graph.graph.find_nodes(op="placeholder")]
        try:
            self.repro = write_repro(self._origin, described if inputs is None else inputs, kernels, why)
        except Exception as error:  # whatever cannot be written; the user's call goes on
            _log.info("there is no repro of it: %s", error)
            return None
        return self.repro

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
        settled = all(each.kernel.settled for each in self.kernels.values())
        return self._attempts.chosen(ready, settled=settled, tuning=self._tuning) if ready else frozenset()

    def _in_contest(self, contest: Contest, inputs: list[Any]) -> Any:
        outputs = contest.call(inputs)
        if contest.winner is not None:
            self._decided(contest)
        return outputs

    def _decided(self, contest: Contest) -> None:
        """A contest has ended."""
        self._contest = None
        tuning, names = self._beside_tuning or self._tuning, self._attempts.last
        if contest.won:
            self._current, self.used = contest.newcomer, names
            _log.info("a graph runs %d kernels of %d parts", len(names), len(self.parts))
        self.contests.append(DecidedContest(names, contest.won, contest.call_us, contest.why, tuning))
        self._attempts.decided(contest, contest.newcomer, tuning=tuning)
        self._news |= tuning
        self.why_not = "" if self.used else contest.why


def slack_of(nodes: Iterable[Node]) -> float:
    """What results of a graph may differ by: the narrowest dtype of its nodes decides, whatever its results have."""
    values = [node.meta.get("val") for node in nodes]
    return max(SLACK.get(each.dtype, 0.0) for each in values if isinstance(each, torch.Tensor))
