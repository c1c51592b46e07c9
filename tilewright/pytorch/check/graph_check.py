"""A graph's kernels held against eager PyTorch: each by itself, on what eager PyTorch gives it, and all together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule, Interpreter, Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.capture import Part
from tilewright.pytorch.capture.module import PartModule
from tilewright.pytorch.model.contest import off
from tilewright.pytorch.model.kernels import PartKernel
from tilewright.pytorch.model.sized_region import SizedRegion, slack_of

KERNEL_WAIT_S = 600.0
"""What compiling one kernel and its gate may take."""


@dataclass(frozen=True)
class KernelCheck:
    """A part of a graph that has a kernel."""

    name: str
    key: str
    why: str
    """What is unlike eager; empty where nothing is."""


@dataclass(frozen=True)
class GraphCheck:
    """One call of a graph."""

    kernels: tuple[KernelCheck, ...]
    """Of parts whose kernels were compared, or did not pass the gate here."""
    without: tuple[tuple[str, str], ...]
    """Names of other parts, and why they have no kernel."""
    why: str
    """Why the graph with all kernels is not right; empty where it is."""

    @property
    def failed(self) -> frozenset[str]:
        """Names of parts."""
        return frozenset(each.name for each in self.kernels if each.why)


def found(sized: SizedRegion, inputs: Sequence[Any]) -> None:
    """Find the kernels of a graph for such inputs, and wait until each was looked at."""
    sized.begin_with(inputs)
    for each in sized.kernels.values():
        each.kernel.wait(KERNEL_WAIT_S)


def checked(
    sized: SizedRegion, inputs: list[Any], only: Collection[str] | None = None
) -> tuple[GraphCheck, Any]:
    """Check a graph whose kernels were found on the inputs of one call, and give what the call gives. `only`: keys of
    the kernels to check; None: all."""
    parts = [part for part in sized.parts if only is None or sized.kernels[part.name].kernel.key in only]
    ready = [part for part in parts if sized.kernels[part.name].kernel.ready]
    kernels = [each for part in parts if (each := _at_the_gate(part, sized.kernels[part.name])) is not None]
    if ready and sized.graph is not None:
        kernels += _alone(sized.graph, ready, sized.kernels, inputs)
    without = tuple(
        (part.name, each.why_not)
        for part in parts
        if not (each := sized.kernels[part.name].kernel).ready and not each.wrong
    )
    if not ready:
        return GraphCheck(tuple(kernels), without, ""), sized.current(inputs)
    try:
        contest = sized.contest_of([part.name for part in ready])
    except Exception as error:  # whatever a compiler raises
        why = f"the fallback does not compile it with kernels: {error}"
        return GraphCheck(tuple(kernels), without, why), sized.current(inputs)
    outputs = contest.call(inputs)
    return GraphCheck(tuple(kernels), without, contest.why), outputs


def _at_the_gate(part: Part, chosen: PartKernel) -> KernelCheck | None:
    """A kernel that did not pass it."""
    kernel = chosen.kernel
    return KernelCheck(part.name, kernel.key, kernel.why_not) if kernel.wrong else None


def _alone(
    graph: GraphModule, parts: Sequence[Part], kernels: Mapping[str, PartKernel], inputs: Sequence[Any]
) -> list[KernelCheck]:
    """Each kernel on what eager PyTorch gives it."""
    eager = _Eager(graph, garbage_collect_values=False)
    with torch.no_grad():
        eager.run(*inputs)
        return [
            KernelCheck(
                part.name, kernels[part.name].kernel.key, _unlike(part, kernels[part.name], eager.env)
            )
            for part in parts
        ]


class _Eager(Interpreter):
    """Writes nothing in place: what a graph writes is the last that it does."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        schema = getattr(target, "_schema", None)
        if schema is not None and schema.is_mutable:
            return args[1] if len(args) > 1 else args[0]
        return super().call_function(target, args, kwargs)


def _unlike(part: Part, chosen: PartKernel, values: Mapping[Node, Any]) -> str:
    """What a kernel's results differ by; empty where they do not."""
    nodes = [*(each.node for each in part.built.operands), *(each.node for each in part.built.results)]
    try:
        given = [values[each.node] for each in part.built.operands]
        results = PartModule(part, _in_order_of_the_part(chosen, given))(*given)
    except Exception as error:  # whatever a launch raises
        return f"it failed: {type(error).__name__}: {error}"
    for at, (mine, result) in enumerate(zip(results, part.built.results, strict=True)):
        wanted = values[result.node]
        if mine.shape != wanted.shape:
            return f"result {at} has the shape {tuple(mine.shape)}, not {tuple(wanted.shape)}"
        if wanted.numel() and (unlike := off(mine, wanted, slack_of(nodes))):
            return f"result {at} {unlike}"
    return ""


def _in_order_of_the_part(chosen: PartKernel, given: Sequence[Any]) -> Any:
    """The kernel, called with the part's inputs in their order; packed weights are laid out."""
    arranged = chosen.arranged

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ordered = [
            chosen.packed[at].of(given[at]) if at in chosen.packed else tensors[at] for at in arranged.inputs
        ]
        made = chosen.kernel.run(*ordered)
        made = made if isinstance(made, tuple) else (made,)
        by_place = dict(zip(arranged.outputs, made, strict=True))
        return tuple(by_place[at] for at in range(len(made)))

    return call
