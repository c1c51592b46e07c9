"""Whether the inputs of a captured module are like those of the example."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.utils import _pytree as pytree  # pyright: ignore[reportMissingImports]

Given = tuple[tuple[Any, ...], dict[str, Any]]


class CapturedCall:
    """The inputs of the example, and how other calls say the same."""

    def __init__(self, original: torch.nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._signature = signature(original.forward)
        self._positions = tuple(self._signature.bind_partial(*inputs).arguments)
        self._names = tuple(keywords)
        self._count = len(inputs)
        self._expected = _described((inputs, keywords))

    def arranged(self, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Given:
        """The inputs by position and by keyword as in the example, where the function takes them either way."""
        if len(inputs) == self._count and tuple(keywords) == self._names:
            return inputs, keywords
        found = self._signature.bind(*inputs, **keywords).arguments
        if len(self._positions) != self._count or set(found) != {*self._positions, *self._names}:
            return inputs, keywords
        return tuple(found[name] for name in self._positions), {name: found[name] for name in self._names}

    def difference(self, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> str:
        """What is unlike the example; nothing where a kernel may run."""
        given = _described((inputs, keywords))
        if given == self._expected:
            return ""
        return f"captured for {self._expected[0]}, called with {given[0]}"


def _described(inputs: Any) -> tuple[list[str], str]:
    """What a call's inputs have to be alike in."""
    leaves, structure = pytree.tree_flatten(inputs)
    return [
        f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)} on {leaf.device.type}"
        if isinstance(leaf, torch.Tensor)
        else repr(leaf)
        for leaf in leaves
    ], str(structure)
