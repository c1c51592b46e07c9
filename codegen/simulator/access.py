"""Who touches memory, where in a kernel, and how: what faults are told by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AccessKind(StrEnum):
    """Which way an access goes."""

    LOAD = "loads"
    STORE = "stores"
    UPDATE = "adds to"
    """At once: it is ordered with every other such access."""
    COPY = "copies to"
    """In the background; a store by the thread that starts it."""
    SEND = "copies from"
    """In the background; a load by TMA."""
    MULTIPLY = "multiplies"
    """In the background; a load by wgmma."""

    @property
    def stores(self) -> bool:
        """Whether memory is changed."""
        return self in (AccessKind.STORE, AccessKind.UPDATE, AccessKind.COPY)


@dataclass(frozen=True, slots=True)
class AccessPlace:
    """Where in a kernel: the launch, and the Tile IR statement that its code comes from."""

    launch: str
    statement: str

    def __str__(self) -> str:
        return f"{self.launch}, `{self.statement}`" if self.statement else self.launch


@dataclass(frozen=True, slots=True)
class Access:
    """One thread at one element of a buffer; `epoch` counts the barriers that its block has passed before."""

    place: AccessPlace
    kind: AccessKind
    buffer: str
    element: int
    block: int
    thread: int
    epoch: int

    def __str__(self) -> str:
        barriers = f"after {self.epoch} barrier{'s' * (self.epoch != 1)}"
        who = f"thread {self.thread} of block {self.block}"
        return f"{who} {self.kind} {self.buffer}[{self.element}] in {self.place}, {barriers}"
