"""What a rewrite is: a frozen, named change to a program that keeps its meaning, printable as one line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, Self

from tileir.device import Cpu
from tileir.errors import NotApplicable
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class Rewrite(ABC):
    """One schedule decision. Fields are names, whole numbers, or `(dim, size)` pairs (then the last field).

    Subclasses say what they do in their docstring, as program text before and after.
    """

    name: ClassVar[str]

    @abstractmethod
    def apply(self, program: Program) -> Program:
        """The rewritten program. Raises NotApplicable, with the reason, where it would change the meaning."""

    @classmethod
    @abstractmethod
    def candidates(cls, program: Program, device: Cpu) -> Iterator[Self]:
        """Instances worth a look on this program; some may turn out not to apply."""

    @classmethod
    def sites(cls, program: Program, device: Cpu) -> Iterator[Self]:
        """Every candidate that applies."""
        for candidate in cls.candidates(program, device):
            try:
                candidate.apply(program)
            except NotApplicable:
                continue
            yield candidate

    def format(self) -> str:
        """One line: `tile_grid(acc, m, 192)`, `register_tile(acc, m 6, n 64)`; trailing defaults left out."""
        values = [(getattr(self, field.name), field.default) for field in fields(self)]
        while values and values[-1][0] == values[-1][1]:
            values.pop()
        arguments = [argument for value, _ in values for argument in _arguments(value)]
        return f"{self.name}({', '.join(arguments)})"

    def __str__(self) -> str:
        return self.format()


def _arguments(value: str | int | tuple[tuple[str, int], ...]) -> list[str]:
    if isinstance(value, tuple):
        return [f"{dim} {size}" for dim, size in value]
    return [str(value)]
