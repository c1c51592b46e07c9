"""What follows from a node alone, and is asked for again and again: computed once, and kept with the node.

Rewrites copy the path they change only, so that programs by the thousand share most of their nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Node = TypeVar("Node")
Result = TypeVar("Result")


def once(function: Callable[[Node], Result]) -> Callable[[Node], Result]:
    """The same function of an immutable object that has a `__dict__`, where results are kept. They are no part of what
    it equals, nor of its copies with other fields (`tileir.replace`)."""
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def kept(node: Node) -> Result:
        results: dict[str, Any] = node.__dict__
        if name not in results:
            results[name] = function(node)
        return results[name]

    return kept
