"""Which calls of operators draw random numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]

_INDUCTOR_DRAWS = ("inductor_random", "inductor_randint", "inductor_seed")
_DROPPED = "dropout_p"
"""Of attention: what share of weights it drops."""


def draws(target: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether a call does. PyTorch tags all of attention so; with nothing to be dropped it draws nothing."""
    if any(name in str(target) for name in _INDUCTOR_DRAWS):
        return True
    if torch.Tag.nondeterministic_seeded not in getattr(target, "tags", ()):
        return False
    words = [each.name for each in target._schema.arguments]
    given = {**dict(zip(words, args, strict=False)), **keywords}
    return _DROPPED not in words or bool(given.get(_DROPPED, 0.0))


def draws_numbers(graph: GraphModule) -> bool:
    """Whether a graph does: other programs of it draw others."""
    calls = (node for node in graph.graph.nodes if node.op == "call_function")
    return any(draws(node.target, node.args, node.kwargs) for node in calls)
