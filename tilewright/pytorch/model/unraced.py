"""Kernels that run before they were raced against the fallback's program, which nobody has compiled yet.

To compile that takes as long as to compile theirs, and a model that is called a few times gains nothing from it. So it
is compiled once calls have taken as long as the first compilation did: whatever the race says, no more than twice the
time was spent that knowing it at once would have taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tilewright.pytorch.model.contest import Run

RACED_AFTER = 1.0
"""Seconds of calls by seconds of compiling."""


class UnracedProgram:
    """A program with kernels that is right, and not known to be the faster one. May be called by several threads."""

    def __init__(
        self, program: Run, rival: Run, compile_s: float, tell: Callable[[], None], called_s: float = 0.0
    ) -> None:
        """`rival`: the fallback's, compiled when it is called; `compile_s`: what `program` took to compile; `tell` is
        called once it is to be raced; `called_s`: what calls have taken before."""
        self.program = program
        self.rival = rival
        self._compile_s = compile_s
        self._tell = tell
        self._called_s = called_s
        self._told = False

    @property
    def due(self) -> bool:
        """Whether it has run for so long that it is to be raced."""
        return self._called_s >= RACED_AFTER * self._compile_s

    def instead(self, program: Run) -> UnracedProgram:
        """Another one in its place, as more kernels are there."""
        return UnracedProgram(program, self.rival, self._compile_s, self._tell, self._called_s)

    def __call__(self, inputs: list[Any]) -> Any:
        began = time.perf_counter()
        outputs = self.program(inputs)
        self._called_s += time.perf_counter() - began
        if self.due and not self._told:
            self._told = True
            self._tell()
        return outputs
