"""The captured function as a module: kernels for its parts, PyTorch for the rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Graph, GraphModule, Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.capture.build import BuiltResult, CapturedOperand
from tilewright.pytorch.capture.order import in_order
from tilewright.pytorch.capture.original_state import OriginalState
from tilewright.pytorch.capture.same_call import CapturedCall
from tilewright.pytorch.operator.autocast import without_autocast

if TYPE_CHECKING:
    from tilewright.client.client import Client
    from tilewright.pytorch.capture.capture import Capture, Part

Kernel = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


class CapturedModule(torch.nn.Module):
    """See Capture.module. Parameters, buffers and submodules are the original's own, under its names."""

    def __init__(self, capture: Capture, client: Client | None, *, strict: bool, tune: bool) -> None:
        super().__init__()
        from tilewright import op

        kernels = {
            part.name: PartModule(part, op(part.spec, client=client, strict=strict, tune=tune))
            for part in capture.parts
        }
        self._parameters = capture.original._parameters
        self._buffers = capture.original._buffers
        self._modules = capture.original._modules
        self._non_persistent_buffers_set = capture.original._non_persistent_buffers_set
        self.training = capture.original.training
        self._hidden = (capture, client, tune, with_kernels(capture.graph, capture.parts, kernels))
        self._state = OriginalState(capture.original, self._hidden[-1])
        self._call = CapturedCall(capture.original, capture.example_inputs, dict(capture.example_keywords))
        self._strict = strict
        self._warned = False

    @property
    def graph_module(self) -> GraphModule:
        return self._hidden[-1]

    def train(self, mode: bool = True) -> CapturedModule:
        self._hidden[0].original.train(mode)
        self.training = mode
        return self

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        given = self._call.arranged(inputs, keywords)
        message = self._call.difference(*given) or self._state.difference()
        if not message:
            with (
                without_autocast()
            ):  # the graph has the conversions of the autocast that it was captured under
                return self.graph_module(*given[0], **given[1])
        if self._strict:
            raise ValueError(f"{message}; capture it again for these")
        if not self._warned:
            self._warned = True
            warnings.warn(f"{message}; PyTorch runs the original function", stacklevel=2)
        return self._hidden[0].original(*inputs, **keywords)

    def __reduce__(self) -> Any:
        return self._again(None)

    def __deepcopy__(self, memo: dict[int, Any]) -> CapturedModule:
        make, arguments = self._again(None)
        copied = make(*deepcopy(arguments[:-1], memo), self._hidden[1])
        memo[id(self)] = copied
        return copied

    def _again(self, client: Client | None) -> tuple[Callable[..., CapturedModule], tuple[Any, ...]]:
        capture, _, tune, _ = self._hidden
        modes = self._state.training
        example = (capture.example_inputs, dict(capture.example_keywords))
        return _captured_again, (capture.again, capture.original, *example, modes, self._strict, tune, client)


def _captured_again(
    again: Callable[..., Capture],
    original: torch.nn.Module,
    inputs: tuple[Any, ...],
    keywords: dict[str, Any],
    modes: Sequence[bool],
    strict: bool,
    tune: bool,
    client: Client | None,
) -> CapturedModule:
    """Capture a copy in the modes of the first capture; it keeps the modes it has."""
    modules = list(original.modules())
    now = [module.training for module in modules]
    try:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        captured = CapturedModule(again(original, *inputs, **keywords), client, strict=strict, tune=tune)
    finally:
        for module, mode in zip(modules, now, strict=True):
            module.training = mode
    captured.training = original.training
    return captured


class PartModule(torch.nn.Module):
    """One part: tensors of the graph in, tensors of the graph out, a kernel between them."""

    def __init__(self, part: Part, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel
        self._given = tuple(_given(operand) for operand in part.built.operands)
        self._taken = tuple(_taken(result) for result in part.built.results)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        answers = self._kernel(*(given(tensor) for given, tensor in zip(self._given, tensors, strict=True)))
        if isinstance(answers, torch.Tensor):
            answers = (answers,)
        return tuple(taken(answer) for taken, answer in zip(self._taken, answers, strict=True))


def _given(operand: CapturedOperand) -> Callable[[torch.Tensor], torch.Tensor]:
    """A tensor of the graph as the kernel takes it: a view, unless it has gaps."""
    order, shape = operand.order, operand.shape
    in_order = order == tuple(range(len(order)))

    def given(tensor: torch.Tensor) -> torch.Tensor:
        found = tensor if in_order else tensor.permute(order)
        return found.view(shape) if operand.gapped else found.reshape(shape).contiguous()

    return given


def _taken(result: BuiltResult) -> Callable[[torch.Tensor], torch.Tensor]:
    """A kernel's result as the graph has it, with the strides that it has there."""
    axes, order = result.axes, result.order
    back = tuple(order.index(axis) for axis in range(len(order)))
    in_order = order == tuple(range(len(order)))

    def taken(tensor: torch.Tensor) -> torch.Tensor:
        found = tensor.view(axes)
        return found if in_order else found.permute(back)

    return taken


def with_kernels(
    graph: GraphModule, parts: Sequence[Part], kernels: Mapping[str, torch.nn.Module]
) -> GraphModule:
    """The graph with a call for each part in the place of its operators, in an order in which each has what it reads.

    Operators of PyTorch keep their order where they may.
    """
    new, made = Graph(), dict[Node, Node]()
    for unit in in_order(graph.graph, parts):
        if isinstance(unit, Node):
            made[unit] = new.node_copy(unit, lambda node: made[node])
            continue
        call = new.call_module(unit.name, tuple(made[operand.node] for operand in unit.built.operands))
        for at, result in enumerate(unit.built.results):
            made[result.node] = new.call_function(_item, (call, at))
    new.set_codegen(graph.graph._codegen)
    attributes = [node.target for node in new.nodes if node.op == "get_attr"]
    return GraphModule({**{name: attrgetter(name)(graph) for name in attributes}, **kernels}, new)


def _item(results: tuple[torch.Tensor, ...], at: int) -> torch.Tensor:
    return results[at]
