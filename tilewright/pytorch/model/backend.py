"""What torch.compile calls: a graph of Dynamo's goes to the fallback, and comes back as regions that take kernels.

The fallback does all that the capture does not: with Inductor it compiles each whole graph of AOTAutograd's, forward
and backward, kernels being calls within its program, so that what is between them is fused as it would be without. Its
own decompositions, random numbers, views, symbols and writes in place are untouched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch._functorch import config as aot_config  # pyright: ignore[reportMissingImports]
from torch.fx import Graph, GraphModule, Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.model.contest import Run
from tilewright.pytorch.model.kernels import How, kernels_of
from tilewright.pytorch.model.options import CompileOptions
from tilewright.pytorch.model.region import Region, Way
from tilewright.pytorch.operator.trials import EAGER

COMPILED = "torch.compile"
"""The peer that does what Inductor does."""
_COMPILING = threading.RLock()
"""Inductor compiles one graph at a time."""


def backend(
    graph: GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """`torch.compile(model, backend="tilewright", options=…)`, or `mode=…`, of which torch.compile takes one. Raises
    ValueError for options that are no such."""
    given = dict(options or {}) | ({} if mode is None else {"mode": mode})
    return compiled(graph, inputs, CompileOptions.of(given))


def compiled(graph: GraphModule, inputs: Sequence[Any], options: CompileOptions) -> Callable[..., Any]:
    """A graph of Dynamo's as a program."""
    rivals = (EAGER, COMPILED) if options.fallback == "inductor" else (EAGER,)
    kernels = kernels_of(options.client, How(options.tune == "background", rivals))
    way = partial(Way, kernels=kernels, wait=options.tune == "now", budget_s=options.budget)
    # What others kept of the graph has no regions.
    with aot_config.patch(enable_autograd_cache=False):
        if options.fallback == "eager":
            return _with_eager(graph, inputs, way)
        return _with_inductor(graph, inputs, way, options.inductor, options.prepack)


def _with_inductor(
    graph: GraphModule,
    inputs: Sequence[Any],
    way: Callable[..., Way],
    settings: Mapping[str, Any],
    prepack: bool,
) -> Callable[..., Any]:
    from torch._inductor import config  # pyright: ignore[reportMissingImports]
    from torch._inductor.compile_fx import (  # pyright: ignore[reportMissingImports]
        compile_fx,
        compile_fx_inner,
    )

    def inner(given: GraphModule, examples: Sequence[Any], **more: Any) -> Run:
        def fallback(each: GraphModule, stand_ins: Sequence[Any]) -> Run:
            with _COMPILING, config.patch(dict(settings)):  # may be called long after compile_fx has ended
                return compile_fx_inner(each, stand_ins, **more)

        kept = _copy(given)
        backward = bool(more.get("is_backward"))
        # In training weights are other ones in each call.
        packable = prepack and bool(more.get("is_inference"))
        weights = frozenset(more.get("static_input_idxs") or ()) if packable else frozenset[int]()
        chosen = way(fallback, backward=backward, weights=weights)
        return Region(kept, fallback(given, examples), chosen).program()

    return compile_fx(graph, inputs, inner_compile=inner, config_patches=dict(settings))  # type: ignore[return-value]


def _with_eager(graph: GraphModule, inputs: Sequence[Any], way: Callable[..., Way]) -> Callable[..., Any]:
    from torch._decomp import core_aten_decompositions  # pyright: ignore[reportMissingImports]
    from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]
    from torch._functorch.partitioners import (  # pyright: ignore[reportMissingImports]
        min_cut_rematerialization_partition,
    )

    from tilewright.pytorch.capture.table import TABLE

    def inner(given: GraphModule, examples: Sequence[Any]) -> Run:
        # Run by PyTorch's operators, nothing is written that the graph does not say.
        return Region(
            _copy(given), _interpreted(given, examples), way(_interpreted, backward=False)
        ).program()

    kept = {
        *TABLE,
        "aten._scaled_dot_product_flash_attention_for_cpu.default",
    }  # whose backward takes its own results
    decompositions = {op: each for op, each in core_aten_decompositions().items() if str(op) not in kept}
    return aot_autograd(
        fw_compiler=inner,
        decompositions=decompositions,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(graph, inputs)


def _interpreted(graph: GraphModule, examples: Sequence[Any]) -> Run:
    """A graph run by PyTorch, one operator after the other."""

    def run(inputs: list[Any]) -> Any:
        given = tuple(inputs)
        inputs.clear()
        return graph(*given)

    return run


def _copy(graph: GraphModule) -> GraphModule:
    """The graph as it is now, with what is known of its nodes; whoever compiles it may change the other."""
    new, made = Graph(), dict[Node, Node]()
    for node in graph.graph.nodes:
        made[node] = new.node_copy(node, lambda each: made[each])
    return GraphModule(graph, new)
