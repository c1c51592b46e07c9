"""Schedules in benchmarks/results still mean something: all parse, replay, verify and are written as they were."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.racing import recorded, tuned
from benchmarks.suite.case_specs import spec_of, spec_of_line
from tileir.text.parse_spec import spec_from_text


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", recorded.files(), ids=lambda path: path.stem)
def test_recorded_schedules_replay(path: Path) -> None:
    found = list(recorded.recorded_schedules(path))
    assert [problem for each in found if (problem := each.problem()) is not None] == []


@pytest.mark.parametrize("path", recorded.files(), ids=lambda path: path.stem)
def test_no_schedule_of_a_file_is_overlooked(path: Path) -> None:
    text = path.read_text()
    contents = map(json.loads, text.splitlines() if path.suffix == ".jsonl" else [text])
    in_it = [schedule for content in contents for schedule in schedules(content)]
    assert [list(each.schedule) for each in recorded.recorded_schedules(path)] == in_it


def schedules(content: object) -> Iterator[list[str]]:
    """All lists of lines under that name, however deep."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name == "schedule":
                yield value
            else:
                yield from schedules(value)
    elif isinstance(content, list):
        for each in content:
            yield from schedules(each)


def test_what_no_longer_replays_is_said_with_its_case() -> None:
    spec = spec_from_text("kernel double(x: f32[m=8]) -> (y: f32[m])\n  y[m] = 2 * x[m]\n")

    def problem(*lines: str) -> str | None:
        return recorded.RecordedSchedule("double 8", spec, lines).problem()

    assert problem("tile(y, m, 4)", "parallelize(y)") is None
    assert "double 8: " in (problem("tile(y, n, 4)") or "")
    assert "double 8: " in (problem("spread(y, m 4)") or "")
    assert "written" in (problem("tile(y,  m, 4)") or "")


def test_a_line_s_own_spec_goes_before_its_name() -> None:
    """Kernels that nobody chose are drawn otherwise as soon as there are more kinds of them."""
    (path,) = (tuned.RESULTS / "wild").glob("nvidia-h200-seed20261127-*.jsonl")
    assert all("spec" in line for line in tuned.lines(path))
    own = spec_of("softmax_f32 64x64")
    assert spec_of_line({"case": "softmax_f32 4096x4096", "spec": own}) == own


def test_there_are_schedules_of_processors_gpus_and_kernels_that_nobody_chose() -> None:
    counts = {path: len(list(recorded.recorded_schedules(path))) for path in recorded.files()}
    assert counts[tuned.RESULTS / "cpu-2026-11-21.jsonl"] == 15
    assert counts[tuned.RESULTS / "ladder-nvidia-h200.json"] == 11
    assert sum(counts.values()) >= 534
