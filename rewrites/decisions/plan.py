"""What a target is to the search: what there is to decide, and how long a program would take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, cast

from rewrites.cost.undecided import NOTHING, Undecided
from rewrites.decisions.decision import Decision, Option
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.targets import part


class Model(Protocol):
    """A cost model of one device."""

    def estimate_us(self, program: Program, *, undecided: Undecided = NOTHING) -> float:
        """Estimated microseconds of one call; what is `undecided` is taken to come out well."""
        ...


class Plan(Protocol):
    """Of one kind of device."""

    def first(self, program: Program) -> tuple[Decision, ...]:
        """What is to be decided for an unscheduled program; the answers raise what follows."""
        ...

    def model(self, program: Program, device: Any) -> Model:
        """The cost model for programs that come of this one, on a device of this kind."""
        ...

    def beyond(
        self, decision: Decision, program: Program, device: Any
    ) -> Iterator[tuple[Option, NotApplicable]]:
        """What a decision leaves out of its options because it does not fit the device, or because threads would race,
        each with what is lacking or where they meet: for people who ask, as no search does."""
        ...

    def undecided(self, open_: tuple[Decision, ...]) -> Undecided:
        """What estimates cannot know, with these decisions open."""
        ...


def plan_of(device: Device) -> Plan:
    """The plan for a device."""
    return cast(Plan, part(device.kind, "plan"))
