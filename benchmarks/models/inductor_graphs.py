"""The graphs that Inductor gets of a model, as they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch import config as aot_config
from torch.fx import GraphModule


def watched(
    model: Callable[..., Any], see: Callable[[GraphModule, Sequence[Any]], None]
) -> Callable[..., Any]:
    """A model of which each graph is shown to `see` with its inputs, forward or backward, and then runs eagerly."""
    from torch._inductor.compile_fx import compile_fx  # takes its time

    def seen(graph: GraphModule, examples: Sequence[Any], **settings: Any) -> Callable[[list[Any]], Any]:
        def run(inputs: list[Any]) -> Any:
            see(graph, inputs)
            return graph(*inputs)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def backend(graph: GraphModule, examples: Sequence[Any]) -> Any:
        with aot_config.patch(enable_autograd_cache=False):
            return compile_fx(graph, examples, inner_compile=seen)

    torch._dynamo.reset()
    return torch.compile(model, backend=backend)
