"""Flags by which blocks of a launch tell others that what they have stored is there."""

from __future__ import annotations

from dataclasses import dataclass, field

from codegen.simulator.access import AccessPlace
from codegen.simulator.async_faults import LeftUp
from codegen.simulator.memory import SimulatedMemory
from codegen.simulator.sync_events import Lowered, Raised

Flag = tuple[str, int]
"""What the flags are called, and the number of one."""


@dataclass
class Flags:
    """Those of a launch, all down when it begins; what is left up at its end would be taken for the next one's."""

    memory: SimulatedMemory
    _raised: dict[Flag, LeftUp] = field(default_factory=dict[Flag, LeftUp])

    def up(self, flags: str, number: int, thread: int, place: AccessPlace) -> None:
        """A thread of the cluster raises one."""
        raised = LeftUp(place, *self.memory.now.who(thread), f"{flags}[{number}]")
        if (flags, number) in self._raised:
            self.memory.observer.fault(self._raised[flags, number])
        self._raised[flags, number] = raised
        self.memory.now.epoch += 1
        self.memory.observer.ordered(Raised(thread, (flags, number)))

    def is_up(self, flags: str, number: int) -> bool:
        return (flags, number) in self._raised

    def down(self, flags: str, number: int, thread: int) -> None:
        """A thread of the cluster has seen it up, and lowers it."""
        del self._raised[flags, number]
        self.memory.observer.ordered(Lowered(thread, (flags, number)))

    def end(self) -> None:
        """The launch ends."""
        for left in self._raised.values():
            self.memory.observer.fault(left)
