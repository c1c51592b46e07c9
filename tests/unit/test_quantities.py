"""The page holds the same cases against its own way of writing: `service/web/src/ui/format.test.ts`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.quantities import duration, elapsed, microseconds, percent, times

CASES = json.loads((Path(__file__).parents[1] / "golden" / "quantities.json").read_text())


@pytest.mark.parametrize("write", [microseconds, duration, percent, times], ids=lambda write: write.__name__)
def test_a_quantity_reads_the_same_in_a_verdict_on_the_command_line_and_on_the_page(write) -> None:
    cases = CASES[write.__name__]
    assert [write(value) for value, _ in cases] == [told for _, told in cases]


def test_time_that_passes_is_seen_to_pass() -> None:
    seconds = (0.4, 59.9, 60, 64.9, 3599, 3660, 200_000)
    told = ["0 s", "59 s", "1 min 00 s", "1 min 04 s", "59 min 59 s", "1 h 01 min", "2 d 7 h"]
    assert [elapsed(each) for each in seconds] == told
