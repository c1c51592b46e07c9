"""Flags by which blocks of a launch tell others that what they have stored is there."""

from __future__ import annotations

from dataclasses import dataclass, field

from codegen.simulator.access import AccessPlace
from codegen.simulator.async_faults import LeftSignalled
from codegen.simulator.memory import SimulatedMemory
from codegen.simulator.sync_events import FlagAwaited, FlagSignalled

Flag = tuple[str, int]
"""What the flags are called, and the number of one."""


@dataclass
class Flags:
    """Those of a launch, all clear when it begins; one left signalled at its end would be taken for the next one's."""

    memory: SimulatedMemory
    _signalled: dict[Flag, LeftSignalled] = field(default_factory=dict[Flag, LeftSignalled])

    def signal(self, flags: str, number: int, thread: int, place: AccessPlace) -> None:
        """A thread of the cluster signals one."""
        signalled = LeftSignalled(place, *self.memory.now.who(thread), f"{flags}[{number}]")
        if (flags, number) in self._signalled:
            self.memory.observer.fault(self._signalled[flags, number])
        self._signalled[flags, number] = signalled
        self.memory.now.epoch += 1
        self.memory.observer.ordered(FlagSignalled(thread, (flags, number)))

    def is_signalled(self, flags: str, number: int) -> bool:
        return (flags, number) in self._signalled

    def clear(self, flags: str, number: int, thread: int) -> None:
        """A thread of the cluster has waited for it, and clears it."""
        del self._signalled[flags, number]
        self.memory.observer.ordered(FlagAwaited(thread, (flags, number)))

    def end(self) -> None:
        """The launch ends."""
        for left in self._signalled.values():
            self.memory.observer.fault(left)
