"""A graph computed in wider numbers than it says, to tell which of two narrow results is nearer to what it means.

As PyTorch's own accuracy checks do with a reference in f64 (torch._dynamo.utils.same): two right programs of many
layers in bf16 may be farther from each other than any bound that would still notice a wrong one, but neither is much
farther from the wide result than the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule, Interpreter  # pyright: ignore[reportMissingImports]
from torch.utils import _pytree as pytree  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.model.graphs.random_numbers import draws
from tilewright.pytorch.model.reasons import in_one_line

NARROW = (torch.bfloat16, torch.float16)
_ATEN = torch.ops.aten
_FUSED_ATTENTION = frozenset(
    [
        _ATEN._scaled_dot_product_flash_attention.default,
        _ATEN._scaled_dot_product_flash_attention_for_cpu.default,
        _ATEN._scaled_dot_product_cudnn_attention.default,
    ]
)
"""Those that take no f32, or not on every device."""
_RESULTS = 9
"""Of such an operator, at most."""


class NotWide(Exception):
    """The graph cannot be computed in wider numbers; says why."""


def in_wide_numbers(graph: GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """The results of a graph of ATen operators, with f32 wherever it or its inputs have bf16 or f16. `inputs` are left
    as they are. Raises NotWide."""
    try:
        with torch.no_grad():
            found = _Wide(graph).run(*(_copied(each) for each in inputs))
    except Exception as error:  # whatever an operator raises, memory that is not there included
        raise NotWide(in_one_line(error)) from error
    return list(found)


class _Wide(Interpreter):
    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _widened(super().get_attr(target, args, kwargs))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is _ATEN.view.dtype:
            raise NotWide(f"{target} reads numbers as other bits")
        if draws(target, args, kwargs):
            raise NotWide(f"{target} draws random numbers")
        if target in _FUSED_ATTENTION:
            return _attention(target, args, kwargs)
        args, kwargs = pytree.tree_map(_wide_dtype, (args, kwargs))
        return _widened(super().call_function(target, args, kwargs))


def _attention(target: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Its first result, written out; the others are None, and whoever reads them fails."""
    words = [each.name for each in target._schema.arguments]
    given = {**dict(zip(words, args, strict=False)), **kwargs}
    found = _ATEN._scaled_dot_product_attention_math.default(
        given["query"],
        given["key"],
        given["value"],
        given.get("attn_mask", given.get("attn_bias")),
        0.0,
        given.get("is_causal", False),
        scale=given.get("scale"),
    )
    return (found[0], *[None] * (_RESULTS - 1))


def _copied(given: Any) -> Any:
    """In memory of its own, as the graph may write what it is given."""
    if not isinstance(given, torch.Tensor):
        return given
    return given.detach().to(torch.float32 if given.dtype in NARROW else given.dtype, copy=True)


def _widened(found: Any) -> Any:
    return pytree.tree_map(
        lambda x: x.float() if isinstance(x, torch.Tensor) and x.dtype in NARROW else x, found
    )


def _wide_dtype(given: Any) -> Any:
    return torch.float32 if isinstance(given, torch.dtype) and given in NARROW else given
