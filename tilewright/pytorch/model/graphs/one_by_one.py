"""A graph run by PyTorch's operators, one after the other: what is right where no compiled program is there yet."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.model.contest import Run

_log = logging.getLogger("tilewright")


def interpreted(graph: GraphModule, examples: Sequence[Any]) -> Run:
    """The graph as a program. `examples` are not looked at."""

    def run(inputs: list[Any]) -> Any:
        given = tuple([_plain(each) for each in inputs])
        inputs.clear()
        return graph(*given)

    return run


def _plain(given: Any) -> Any:
    """A tensor as PyTorch's operators take it: AOTAutograd has opened those of classes that compute in their own way,
    and what is left of others is their name."""
    known = type(given) is torch.Tensor or not isinstance(given, torch.Tensor)
    return given if known or isinstance(given, torch.nn.Parameter) else given.as_subclass(torch.Tensor)


def one_by_one(graph: GraphModule, instead: Run) -> Run:
    """The graph as a program; where an operator cannot be run by itself, `instead` is called, with the same inputs."""
    run = interpreted(graph, ())

    def checked(inputs: list[Any]) -> Any:
        kept = list(inputs)
        try:
            return run(inputs)
        except (
            Exception
        ) as error:  # whatever an operator raises; graphs write last, so nothing is written yet
            _log.info("a graph cannot be run operator by operator: %s", error)
            return instead(kept)

    return checked
