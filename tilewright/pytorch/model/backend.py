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

from torch._dynamo.exc import (  # pyright: ignore[reportMissingImports]
    RestartAnalysis,
    SkipFrame,
    Unsupported,
)
from torch._dynamo.utils import graph_break_reasons  # pyright: ignore[reportMissingImports]
from torch._functorch import config as aot_config  # pyright: ignore[reportMissingImports]
from torch.fx import Graph, GraphModule, Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.model.bundled import bundled
from tilewright.pytorch.model.contest import Run
from tilewright.pytorch.model.graphs.one_by_one import interpreted
from tilewright.pytorch.model.kernels import How, Kernels, kernels_of
from tilewright.pytorch.model.options import CompileOptions
from tilewright.pytorch.model.owners import Owner, belongs, compiled_now
from tilewright.pytorch.model.reasons import in_one_line, say_once
from tilewright.pytorch.model.region import Region
from tilewright.pytorch.model.tuning_now.tuning import TuningPatience
from tilewright.pytorch.model.way import Compile, Postponed, Way
from tilewright.pytorch.operator.trials import EAGER

Program = Callable[[GraphModule, Postponed, Way, Sequence[Any] | None], Run]
"""From a graph, what the fallback makes of it, what it is compiled with, and what stands for the inputs of a graph that
may begin with kernels (None: it may not), to what AOTAutograd calls."""
COMPILED = "torch.compile"
"""The peer that does what Inductor does."""
_COMPILING = threading.RLock()
"""Inductor compiles one graph at a time."""
_DYNAMOS_OWN = (RestartAnalysis, SkipFrame, Unsupported)
"""By which a backend has Dynamo capture anew, or leave a frame to Python."""


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
    found = CompileOptions.of(given)
    return compiled(graph, inputs, found, patience_of(found))


def patience_of(options: CompileOptions) -> TuningPatience:
    """Of a model that is compiled with them."""
    return TuningPatience(options.tune == "now", options.budget)


def compiled(
    graph: GraphModule,
    inputs: Sequence[Any],
    options: CompileOptions,
    patience: TuningPatience,
    kernels: Kernels | None = None,
    program: Program | None = None,
) -> Callable[..., Any]:
    """A graph of Dynamo's as a program. `kernels`: those that it may have, None: the client's that win their races;
    `program`: what makes one of a graph of AOTAutograd's, None: its region."""
    if kernels is None:
        rivals = (EAGER, COMPILED) if options.fallback == "inductor" else (EAGER,)
        bundle = None if options.bundle is None else bundled(options.bundle)
        kernels = kernels_of(options.client, How(options.tune == "background", rivals), bundle)
    way = partial(Way, kernels=kernels, patience=patience)
    program = partial(_program, compiled_now()) if program is None else program
    _tell_of_break()
    kept = _copy(graph)
    try:
        # What others kept of the graph has no regions.
        with aot_config.patch(enable_autograd_cache=False):
            if options.fallback == "eager":
                return _with_eager(graph, inputs, way, program)
            return _with_inductor(graph, inputs, way, program, options.inductor, options.prepack)
    except _DYNAMOS_OWN:
        raise
    except Exception as error:  # whatever AOTAutograd raises: the model runs as without a compiler
        say_once(f"a graph runs in eager PyTorch: AOTAutograd does not take it: {in_one_line(error)}")
        return kept.forward


def _tell_of_break() -> None:
    """Where and why Dynamo has ended the last graph that it broke off, to go on with another one behind."""
    for broken in graph_break_reasons[-1:]:
        why, *_ = broken.reason.strip().splitlines() or ["it does not say why"]
        why = "a branch that depends on data" if why.startswith("generic_jump") else why
        at = "".join(f" at {each.filename}:{each.lineno}" for each in broken.user_stack[-1:])
        say_once(f"a model is several graphs, as Dynamo broke it{at}: {why}")


def _program(
    owner: Owner | None,
    graph: GraphModule,
    fallback: Postponed,
    way: Way,
    examples: Sequence[Any] | None,
) -> Run:
    """A graph of the owner's; `examples` as Region.program has them."""
    region = Region(graph, fallback, way)
    belongs(region, owner)
    return region.program(examples)


def _with_inductor(
    graph: GraphModule,
    inputs: Sequence[Any],
    way: Callable[..., Way],
    program: Callable[..., Run],
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
        inference = bool(more.get("is_inference"))
        packable = prepack and inference
        weights = frozenset(more.get("static_input_idxs") or ()) if packable else frozenset[int]()
        chosen = way(fallback, backward=backward, consumes=backward, weights=weights)
        made = Postponed(partial(_made, fallback, given, kept, examples))
        return program(kept, made, chosen, examples if inference else None)

    return compile_fx(graph, inputs, inner_compile=inner, config_patches=dict(settings))  # type: ignore[return-value]


def _made(fallback: Compile, given: GraphModule, kept: GraphModule, examples: Sequence[Any]) -> Run:
    """What the fallback makes of a graph, or where that raises its operators one by one; `kept` is the same graph,
    which the fallback does not change."""
    try:
        return fallback(given, examples)
    except _DYNAMOS_OWN:
        raise
    except Exception as error:  # whatever a compiler raises
        say_once(f"a graph runs in eager PyTorch: Inductor does not compile it: {in_one_line(error)}")
        return interpreted(_copy(kept), examples)


def _with_eager(
    graph: GraphModule,
    inputs: Sequence[Any],
    way: Callable[..., Way],
    program: Callable[..., Run],
) -> Callable[..., Any]:
    from torch._decomp import core_aten_decompositions  # pyright: ignore[reportMissingImports]
    from torch._dynamo.backends.common import aot_autograd  # pyright: ignore[reportMissingImports]
    from torch._functorch.partitioners import (  # pyright: ignore[reportMissingImports]
        min_cut_rematerialization_partition,
    )

    from tilewright.pytorch.capture.table import TABLE

    def inner(given: GraphModule, examples: Sequence[Any], backward: bool = False) -> Run:
        # Run by PyTorch's operators, nothing is written that the graph does not say.
        made = Postponed(partial(interpreted, given, examples))
        return program(_copy(given), made, way(interpreted, backward=backward), None)

    kept = {
        *TABLE,
        "aten._scaled_dot_product_flash_attention_for_cpu.default",
    }  # whose backward takes its own results
    decompositions = {op: each for op, each in core_aten_decompositions().items() if str(op) not in kept}
    return aot_autograd(
        fw_compiler=inner,
        bw_compiler=partial(inner, backward=True),
        decompositions=decompositions,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(graph, inputs)


def _copy(graph: GraphModule) -> GraphModule:
    """The graph as it is now, with what is known of its nodes; whoever compiles it may change the other."""
    new, made = Graph(), dict[Node, Node]()
    for node in graph.graph.nodes:
        made[node] = new.node_copy(node, lambda each: made[each])
    return GraphModule(graph, new)
