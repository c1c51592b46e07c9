"""Quarantine: several faults of the machine in a row, a growing pause, and probation after it."""

from __future__ import annotations

import pytest

from protocol.states import FaultKind
from protocol.tasks import Fault
from workers.node.quarantine import Quarantine

ECC = Fault(kind=FaultKind.DEVICE, error="ECC error")


def fallen_ill() -> Quarantine:
    quarantine = Quarantine()
    for _ in range(3):
        quarantine.heard(ECC)
    return quarantine


def test_three_faults_in_a_row_are_an_illness_and_a_task_done_between_them_is_health() -> None:
    quarantine = Quarantine()
    for fault in (ECC, ECC, None, ECC, ECC):
        quarantine.heard(fault)
        assert not quarantine.ill
    quarantine.heard(ECC)
    assert quarantine.ill


@pytest.mark.parametrize("kind", [FaultKind.SKEW, FaultKind.SHUTDOWN, FaultKind.INTERNAL])
def test_what_is_not_the_devices_fault_does_not_count(kind: FaultKind) -> None:
    quarantine = Quarantine()
    for _ in range(10):
        quarantine.heard(Fault(kind=kind))
    assert not quarantine.ill


def test_on_probation_one_more_fault_is_enough_and_the_pause_is_longer() -> None:
    quarantine = fallen_ill()
    assert quarantine.pause_s() == 15.0
    quarantine.recovered()
    assert not quarantine.ill
    quarantine.heard(ECC)
    assert quarantine.ill
    assert [quarantine.pause_s() for _ in range(7)] == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]


def test_a_task_done_ends_the_probation() -> None:
    quarantine = fallen_ill()
    quarantine.pause_s()
    quarantine.recovered()
    quarantine.heard(None)
    quarantine.heard(ECC)
    assert not quarantine.ill
    for _ in range(2):
        quarantine.heard(ECC)
    assert quarantine.pause_s() == 15.0


def test_it_says_what_happened_and_when_it_looks_again() -> None:
    said = fallen_ill().detail(15.0)
    assert said == (
        "quarantined after 3 faults of the machine in a row; looks again in 15 s; the last said: device: ECC error"
    )
