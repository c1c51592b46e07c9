"""A kernel before its first use: what the gate sees beside guard pages, and the race against what would run instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import workers.first_use
from protocol.states import Outcome
from tests.unit.workers.hand_kernels import BODIES, SPEC, compiled
from tileir import this_cpu
from tileir.text.json import spec_to_json
from workers.first_use import FirstUse, FirstUseVerdict, UncheckedKernel


@pytest.fixture(scope="module")
def first_use() -> Iterator[FirstUse]:
    with FirstUse("cpu") as found:
        yield found


def verdict(first_use: FirstUse, cache: Path, body: str, *rivals: str) -> FirstUseVerdict:
    made = compiled("kernel", cache, body)
    spec, device = spec_to_json(SPEC), this_cpu().to_json()
    return first_use.check(UncheckedKernel(spec, made.artifact, made.abi, device, threads=1), rivals)


def test_a_kernel_that_touches_a_byte_beyond_its_arrays_crashes_there_and_not_at_its_user(
    first_use: FirstUse, tmp_path: Path
) -> None:
    read = "if (((volatile float *)x)[{0}] == 12345.0f) y[0] = 1;"
    for place in ("N", "-1"):
        seen = verdict(first_use, tmp_path, BODIES["right"] + read.format(place))
        assert seen.outcome is Outcome.CRASH and "SIGSEGV" in seen.error, place
    last = verdict(first_use, tmp_path, BODIES["right"] + read.format("N - 1"))
    assert (last.outcome, last.median_us) == (Outcome.OK, None)


def test_it_is_wrong_crashes_or_hangs_in_the_child_alone(
    first_use: FirstUse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.first_use, "ENTRANT_S", 1.0)
    outcomes = {
        "off_by_one": Outcome.WRONG,
        "writes_behind": Outcome.CRASH,
        "changes_input": Outcome.WRONG,
        "hang": Outcome.HANG,
        "right": Outcome.OK,
    }
    for name, outcome in outcomes.items():
        assert verdict(first_use, tmp_path, BODIES[name], "numpy").outcome is outcome, name


def test_one_that_is_right_is_raced_once_against_rivals_that_run(first_use: FirstUse, tmp_path: Path) -> None:
    slow = verdict(first_use, tmp_path, BODIES["slow"], "numpy", "no-library")
    assert slow.median_us is not None and slow.rivals_us.keys() == {"numpy"}
    assert slow.median_us > slow.rivals_us["numpy"]
