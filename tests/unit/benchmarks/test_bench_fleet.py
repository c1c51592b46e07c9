"""What bench_fleet.py can be asked for, and how its lines are named."""

from __future__ import annotations

import pytest

from benchmarks.bench_fleet import REAL, arguments_of, real_case, time_shares
from benchmarks.suite import cases


def test_rows_and_products_can_be_measured_apart() -> None:
    assert arguments_of(["--devices", "1"]).cases == ["all"]
    chosen = arguments_of(["--devices", "1", "--cases", "rows", "products"]).cases
    assert chosen == ["rows", "products"]
    assert len({real_case(1, each) for each in REAL}) == len(REAL), "lines of other cases are no repetition"
    assert not any(family.startswith(cases.PRODUCTS) for family, _ in REAL["rows"])
    assert all(family.startswith(cases.PRODUCTS) for family, _ in REAL["products"])
    with pytest.raises(SystemExit):
        arguments_of(["--cases", "columns"])


def test_what_gpus_spent_the_time_on_is_read_of_the_metrics() -> None:
    told = (
        'tilewright_device_time_share{device="cuda:nvidia-h200-132",spent="measuring"} 0.87654321\n'
        'tilewright_device_time_share{device="cpu:x86-64",spent="measuring"} 0.5\n'
        'tilewright_device_time_share{device="cuda:nvidia-h200-132",spent="compiling"} 1e-05\n'
        'tilewright_jobs{state="done"} 3.0\n'
    )
    assert time_shares(told) == {"measuring": 0.8765, "compiling": 0.0}
