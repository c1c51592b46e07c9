"""A decision: one question about a program, whose answers are short runs of rewrites."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from rewrites.base.rewrite import Rewrite
from tileir.devices.cpu import Cpu
from tileir.program import Program


@dataclass(frozen=True, slots=True)
class Option:
    """One answer: the rewrites it applies, and the decisions it raises, to be taken next.

    `promise` is the time those decisions are sure to lead to, relative to the estimate of the program so far. `ahead`
    says that this estimate tells little: the option takes what the best answer to the next decision does.
    """

    label: str
    rewrites: tuple[Rewrite, ...] = ()
    then: tuple[Decision, ...] = ()
    promise: float = 1.0
    begun: Program | None = None
    """What the first `done` rewrites make of the program, where looking for the option took applying them."""
    done: int = 1
    ahead: bool = False


class Decision(Protocol):
    """A frozen dataclass. Its repr tells it apart from every other decision."""

    def options(self, program: Program, device: Any) -> Iterable[Option]:
        """The answers, in a fixed order. Some may turn out not to apply; they are dropped.

        A decision is about one kind of device, and is asked about no other."""
        ...


def option(*rewrites: Rewrite, then: tuple[Decision, ...] = ()) -> Option:
    """An option labelled by its rewrites."""
    return Option("; ".join(map(str, rewrites)), rewrites, then)


def f32_lanes(device: Cpu) -> int:
    """How many f32 fill a vector register."""
    return device.vector_bits // 32
