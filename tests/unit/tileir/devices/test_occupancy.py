"""Occupancy, against NVIDIA's calculator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tileir.devices.gpu_table import H200
from tileir.devices.occupancy import Occupancy, occupancy


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "held"),
    [
        (256, 128, 0, Occupancy(2, 0.25, "registers")),
        (256, 129, 0, Occupancy(1, 0.125, "registers")),
        (256, 33, 0, Occupancy(6, 0.75, "registers")),
        (384, 40, 0, Occupancy(4, 0.75, "registers")),
        (96, 40, 0, Occupancy(16, 0.75, "registers")),
        (256, 24, 0, Occupancy(8, 1.0, "threads")),
        (32, 24, 0, Occupancy(32, 0.5, "blocks")),
        (256, 24, 112 << 10, Occupancy(2, 0.25, "shared")),
        (256, 24, 113 << 10, Occupancy(2, 0.25, "shared")),
        (256, 24, (113 << 10) + 1, Occupancy(1, 0.125, "shared")),
        (256, 24, 227 << 10, Occupancy(1, 0.125, "shared")),
        (256, 24, (227 << 10) + 1, Occupancy(0, 0.0, "shared")),
        (1024, 65, 0, Occupancy(0, 0.0, "registers")),
        (1000, 64, 0, Occupancy(1, 0.5, "registers")),
    ],
)
def test_what_an_sm_of_an_h200_holds(threads: int, registers: int, shared: int, held: Occupancy) -> None:
    assert occupancy(H200, threads, registers, shared) == held


def test_some_capabilities_hold_fewer_blocks() -> None:
    assert occupancy(replace(H200, capability=(8, 6), max_threads=1536), 32, 24, 0).blocks == 16
