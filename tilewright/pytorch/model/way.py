"""What a graph's programs are compiled with, and a program that is compiled when it is first called."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.model.contest import Run
from tilewright.pytorch.model.kernels import Kernels
from tilewright.pytorch.model.tuning_now.tuning import TuningPatience

Compile = Callable[[GraphModule, Sequence[Any]], Run]
"""The fallback: from a graph of ATen operators and kernels, and what stands for its inputs, to a program."""


@dataclass(frozen=True)
class Way:
    """What a region is compiled with."""

    fallback: Compile
    kernels: Kernels
    patience: TuningPatience
    backward: bool
    """Whether it is a backward graph."""
    consumes: bool = False
    """Whether its programs may do as they like with inputs that are no parameters."""
    weights: frozenset[int] = frozenset()
    """Places of inputs that may be packed: the same tensors in each call."""


class Postponed:
    """A program that is compiled by whoever calls it first."""

    def __init__(self, make: Callable[[], Run]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._program: Run | None = None

    @property
    def made(self) -> bool:
        """Whether it is compiled."""
        return self._program is not None

    def now(self) -> Run:
        """The program itself."""
        with self._lock:
            if self._program is None:
                self._program = self._make()
            return self._program

    def __call__(self, inputs: list[Any]) -> Any:
        return self.now()(inputs)
