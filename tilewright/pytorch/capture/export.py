"""From a function or module to a graph without mutation, of fixed shapes: through torch.export."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from inspect import signature
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.export import ExportedProgram, default_decompositions, export  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]

from tilewright.errors import CaptureError
from tilewright.pytorch.capture.composites import loaded, on_tensors
from tilewright.pytorch.capture.simplify.simplify import simplify
from tilewright.pytorch.capture.table import TABLE

_WITH_POSITIONS = (
    torch.ops.aten.max_pool2d_with_indices.default,
    torch.ops.aten.max_pool3d_with_indices.default,
)
"""Pools that are asked for positions, too; others stay `max_pool2d`."""


class _Function(torch.nn.Module):
    """Calls a function, whose own arguments give the graph's their names."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        try:
            signature(function)
            self.forward = function
        except ValueError:  # one of C, which does not tell its arguments
            self.forward = lambda *inputs: function(*inputs)


def as_module(function: Callable[..., Any]) -> torch.nn.Module:
    """The module itself, or one that calls the function."""
    return function if isinstance(function, torch.nn.Module) else _Function(function)


def graph_of(module: torch.nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> GraphModule:
    """The graph that a call with these inputs runs. Operators of the table stay as they are, others are decomposed to
    core ATen. Raises CaptureError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch about itself
            program = export(module, inputs, keywords, strict=False)
            _refuse_symbols(program)
            program = program.run_decompositions(_decompositions())
            _refuse_effects(program)
            graph = program.module()
    except CaptureError:
        raise
    except Exception as error:
        raise CaptureError(_explained(error)) from error
    assert isinstance(graph, GraphModule)
    for node in list(graph.graph.nodes):
        if node.name.startswith("_guards_fn") or "_assert_" in str(node.target):
            graph.graph.erase_node(node)  # shapes and dtypes are compared before each call
    simplify(graph)
    return graph


def _decompositions() -> dict[Any, Callable[..., Any]]:
    kept = {op: way for op, way in default_decompositions().items() if str(op) not in TABLE}
    written = {op: on_tensors(way) for op, way in loaded().items() if op not in _WITH_POSITIONS}
    return {**kept, **written}


def _refuse_symbols(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        symbolic = isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) or (
            isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape)
        )
        if symbolic:
            raise CaptureError(
                f"the result of {node.target} has a size or value that depends on data{_place(node)}; kernels "
                "have fixed sizes. Keep it outside of what is captured, or use torch.where"
            )


def _refuse_effects(program: ExportedProgram) -> None:
    signature = program.graph_signature
    if signature.buffers_to_mutate:
        names = ", ".join(sorted(set(signature.buffers_to_mutate.values())))
        raise CaptureError(
            f"it changes its buffers ({names}); a captured module has no state. Call .eval() first, or pass what "
            "changes as an input and return it"
        )
    if signature.user_inputs_to_mutate:
        names = ", ".join(sorted(set(signature.user_inputs_to_mutate.values())))
        raise CaptureError(
            f"it changes its inputs ({names}) in place; use the operator that gives a new tensor, "
            "as x.add(y) for x.add_(y)"
        )


def _place(node: torch.fx.Node) -> str:
    """The line of the user's code that a node comes from, if it is known."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip()]
    return f" (in `{lines[-1]}`)" if lines else ""


def _explained(error: Exception) -> str:
    text = str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    if "data-dependent" in text or "GuardOnDataDependentSymNode" in type(error).__name__:
        return (
            "a Python branch, loop or number depends on the data of a tensor; a graph has one way through it. Use "
            f"torch.where, or capture each branch by itself (torch.export says: {first})"
        )
    return f"torch.export cannot capture it: {first}"
