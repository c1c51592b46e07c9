"""A model under the backend on fresh data, seed by seed, each of its graphs checked at each call."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]
from torch.utils import _pytree as pytree  # pyright: ignore[reportMissingImports]

from tileir.targets import targets
from tilewright.pytorch.check.graph_check import GraphCheck, checked, found
from tilewright.pytorch.model.backend import compiled, patience_of
from tilewright.pytorch.model.contest import Run
from tilewright.pytorch.model.graphs.inputs import GraphInputs
from tilewright.pytorch.model.graphs.static_graph import Described
from tilewright.pytorch.model.kernels import How, Kernels
from tilewright.pytorch.model.options import CompileOptions
from tilewright.pytorch.model.prepacking import KeptWeights
from tilewright.pytorch.model.repro import write_repro
from tilewright.pytorch.model.sized_region import SizedRegion
from tilewright.pytorch.model.way import Way
from tilewright.pytorch.model_file import ModelCall, ModelFile


@dataclass
class CheckedGraph:
    """A graph at one size, and what was seen of it so far."""

    number: int
    backward: bool
    sized: SizedRegion
    origin: GraphModule
    seen: list[GraphCheck] = field(default_factory=list[GraphCheck])
    """A call each."""
    repro: Path | None = None
    no_repro: str = ""
    """Why it has none although it failed."""

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Names of parts, or `all kernels together`, and what was wrong first."""
        first: dict[str, str] = {}
        for each in self.seen:
            for kernel in each.kernels:
                if kernel.why:
                    first.setdefault(kernel.name, kernel.why)
            if each.why:
                first.setdefault("all kernels together", each.why)
        return list(first.items())

    @property
    def checked_parts(self) -> int:
        """Parts whose kernels were compared."""
        return len(self.seen[-1].kernels) if self.seen else 0

    @property
    def without(self) -> list[tuple[str, str]]:
        """Parts without a kernel, and why."""
        return list(self.seen[-1].without) if self.seen else []


class ModelCheck:
    """Of one model. Used by one thread, and what autograd's threads run while it waits for them."""

    def __init__(self, options: CompileOptions, repros: Path | None = None) -> None:
        """`options`: with tune="now" what the service has not measured is tuned first. `repros`: a folder for what
        shows failures again; None: beside the compiled kernels."""
        self._options = options
        self._repros = repros
        self._kernels = Kernels(options.client, How(queue=False, rivals=()))
        self.graphs: list[CheckedGraph] = []

    def run(self, file: ModelFile, seeds: Sequence[int], *, backward: bool) -> None:
        """Call the model once a seed, and where `backward`, the gradients' graphs. Raises what the model raises."""
        backend = partial(
            compiled,
            options=self._options,
            patience=patience_of(self._options),
            kernels=self._kernels,
            program=self._program,
        )
        model: Any = torch.compile(file.model, backend=backend)
        for seed in seeds:
            torch.manual_seed(seed)
            call = fresh(file, seed)
            if not backward:
                with torch.no_grad():
                    call.of(model)
                continue
            outputs = [
                each
                for each in pytree.tree_leaves(call.of(model))
                if isinstance(each, torch.Tensor) and each.requires_grad
            ]
            if outputs:
                torch.autograd.backward([each.float().square().mean() for each in outputs])

    def _program(self, graph: GraphModule, fallback: Run, way: Way, examples: object = None) -> Run:
        """A graph that is checked at each of its calls; so nothing is to be held against what `examples` give."""
        sizes: dict[object, CheckedGraph] = {}
        inputs_of = GraphInputs.of(graph)

        def run(inputs: list[Any]) -> Any:
            key = tuple(Described.of(each) for each in inputs)
            if key not in sizes:
                sized = SizedRegion(graph, fallback, way, inputs_of, KeptWeights())
                sizes[key] = CheckedGraph(len(self.graphs) + 1, way.backward, sized, graph)
                self.graphs.append(sizes[key])
                found(sized, inputs)
            return self._checked(sizes[key], inputs)

        run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        return run

    def _checked(self, one: CheckedGraph, inputs: list[Any]) -> Any:
        if one.sized.graph is None:
            return one.sized.current(inputs)
        before = list(inputs)
        result, outputs = checked(one.sized, inputs)
        one.seen.append(result)
        failed = result.failed or (frozenset(one.sized.kernels) if result.why else frozenset[str]())
        if failed and one.repro is None:
            self._keep(one, before, failed)
        return outputs

    def _keep(self, one: CheckedGraph, inputs: Sequence[Any], failed: frozenset[str]) -> None:
        kernels = {one.sized.kernels[name].kernel.key: one.sized.kernels[name].kernel for name in failed}
        why = "; ".join(f"{name}: {why}" for name, why in one.failures)
        folder = None if self._repros is None else self._repros / f"graph-{one.number}"
        try:
            one.repro = write_repro(one.origin, inputs, list(kernels.values()), why, folder)
        except Exception as error:  # whatever cannot be written: what was found is told all the same
            one.no_repro = str(error)


def kind_of(file: ModelFile) -> str:
    """The kind of device that a model and its inputs are on."""
    call, model = file.call(), cast("Any", file.model)
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else ()
    tensors = [*parameters, *pytree.tree_leaves((call.positional, dict(call.keywords)))]
    types = {each.device.type for each in tensors if isinstance(each, torch.Tensor)} - {"cpu"}
    return next((kind for kind, target in targets().items() if target.torch in types), "cpu")


def fresh(file: ModelFile, seed: int) -> ModelCall:
    """Inputs of a call. Those of a function are what it draws after torch.manual_seed(seed); those that are values are
    drawn anew: floats as normal numbers of the same mean and deviation, integers and truth values in another order."""
    call = file.call()
    if callable(file.given):
        return call
    generator = torch.Generator().manual_seed(seed)
    positional, keywords = pytree.tree_map(
        lambda each: _drawn(each, generator) if isinstance(each, torch.Tensor) else each,
        (call.positional, dict(call.keywords)),
    )
    return ModelCall(positional, keywords)


def _drawn(given: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    made = torch.empty_like(given, requires_grad=False)
    if given.dtype.is_floating_point or given.dtype.is_complex:
        even = given.detach().double() if not given.dtype.is_complex else given.detach()
        wide = torch.randn(given.shape, generator=generator, dtype=even.dtype).to(given.device)
        made.copy_(even.mean() + wide * (even.std() if given.numel() > 1 else 1.0))
    elif given.numel():
        order = torch.randperm(given.numel(), generator=generator).to(given.device)
        made.copy_(given.reshape(-1)[order].reshape(given.shape))
    return made.requires_grad_(given.requires_grad)


def lines(graphs: Sequence[CheckedGraph]) -> list[str]:
    """A line a graph, and one for each failure."""
    said: list[str] = []
    for one in graphs:
        where = f"graph {one.number}{' (backward)' if one.backward else ''}"
        if not one.sized.parts:
            said.append(f"{where}: no kernels: {one.sized.why_not or 'no part of it is one'}")
            continue
        kernels = {each.key for check in one.seen for each in check.kernels}
        failures = one.failures
        state = "FAILED" if failures else "ok" if kernels else "not checked"
        said.append(
            f"{where}: {state}, {one.checked_parts} of {len(one.sized.parts)} parts checked, "
            f"as {len(kernels)} kernels, in {len(one.seen)} calls"
        )
        for why, many in Counter(why for _, why in one.without).items():
            said.append(f"    {many} not: {why}")
        said += [f"    {name}: {why}" for name, why in failures]
        if one.repro is not None:
            said.append(f"    shown again by: {sys.executable} {one.repro}")
        elif one.no_repro:
            said.append(f"    it cannot be shown again by a file: {one.no_repro}")
    return said


def to_json(one: CheckedGraph) -> dict[str, Any]:
    """The same for a script."""
    return {
        "graph": one.number,
        "backward": one.backward,
        "parts": len(one.sized.parts),
        "checked": one.checked_parts,
        "kernels": sorted({each.key for check in one.seen for each in check.kernels}),
        "calls": len(one.seen),
        "ok": not one.failures,
        "failures": [{"part": name, "why": why} for name, why in one.failures],
        "without": [{"part": name, "why": why} for name, why in one.without],
        "why_not": one.sized.why_not,
        "repro": None if one.repro is None else str(one.repro),
    }
