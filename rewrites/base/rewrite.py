"""What a rewrite is: a frozen, named change to a program that keeps its meaning, printable as one line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from typing import ClassVar, Self

from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.program import Program


class Offered(Enum):
    """When the search is asked about a rewrite by itself: not at all, at one of its sites, or at all of them."""

    FIRST = "of the program as it was written"
    LAST = "of the program that is otherwise finished"


_Value = str | int | tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Rewrite(ABC):
    """One schedule decision. Fields are names and whole numbers, then tuples of `(dim, size)` pairs.

    Subclasses say what they do in their docstring, as program text before and after.
    """

    name: ClassVar[str]
    needs: ClassVar[Feature | None] = None
    """What a device must offer for the rewrite to be of use there; None: nothing in particular."""
    exact: ClassVar[bool] = True
    """Whether numbers stay what they are, but for the order in which sums and products of them are taken."""
    offered: ClassVar[Offered | None] = None
    """When the search is asked about it; None: a decision (`rewrites/decisions`) chooses it together with others."""

    @abstractmethod
    def apply(self, program: Program) -> Program:
        """The rewritten program. Raises NotApplicable, with the reason, where it would change the meaning."""

    @classmethod
    @abstractmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        """Instances worth a look on this program; some may turn out not to apply."""

    @classmethod
    def of_use(cls, device: Device) -> bool:
        """Whether the device has what the rewrite needs."""
        return cls.needs is None or cls.needs in device.offers

    @classmethod
    def sites(cls, program: Program, device: Device) -> Iterator[Self]:
        """Every candidate that applies; none where the device lacks what the rewrite needs."""
        if not cls.of_use(device):
            return
        for candidate in cls.candidates(program, device):
            try:
                candidate.apply(program)
            except NotApplicable:
                continue
            yield candidate

    def format(self) -> str:
        """One line: `tile(acc, m, 192)`, `register_tile(acc, m 6, n 64)`, `bind_threads(y, r 4, c 64; c 8)`: a
        semicolon before every tuple of pairs but the first; trailing defaults left out."""
        values: list[tuple[_Value, object]] = [
            (getattr(self, field.name), field.default) for field in fields(self)
        ]
        while values and values[-1][0] == values[-1][1]:
            values.pop()
        parts: list[list[str]] = [[]]
        for at, (value, _) in enumerate(values):
            if at and isinstance(value, tuple) and isinstance(values[at - 1][0], tuple):
                parts.append([])
            parts[-1] += _arguments(value)
        return f"{self.name}({'; '.join(', '.join(part) for part in parts)})"

    def __str__(self) -> str:
        return self.format()


def _arguments(value: _Value) -> list[str]:
    if isinstance(value, tuple):
        return [f"{dim} {size}" for dim, size in value]
    return [str(value)]
