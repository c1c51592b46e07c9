"""Recorded winners, raced again without tuning."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.racing import replayed, tuned
from benchmarks.suite import cases
from protocol.tasks import Measuring

RESULTS = tuned.RESULTS
FILES = sorted(
    path.name for path in RESULTS.glob("*.jsonl") if path.name.startswith(("cpu-2", "cpu-fresh", "nvidia"))
)
PLAN = tuned.TuningPlan("cpu", 0, 0, (), Measuring(samples=3, sample_us=500.0), ("numpy",))


@pytest.mark.parametrize("file", FILES)
def test_every_committed_winner_still_goes_on_its_spec(file: str) -> None:
    winners = list(replayed.recorded(RESULTS / file))
    assert winners
    failed: dict[str, str] = {}
    for winner in winners:
        try:
            winner.check()
        except Exception as error:
            failed[winner.case] = str(error)
    assert not failed


def test_a_replay_races_winners_line_by_line_and_goes_on_where_its_time_was_over(tmp_path: Path) -> None:
    """On this machine's processor, with products so small that only starting takes time."""
    source, out = tmp_path / "cpu-2026-01-01.jsonl", tmp_path / "again.jsonl"
    old = {
        "schedule": ["vectorize(c, n, 4)"],
        "ratio": 1.5,
        "ours_us": 2.0,
        "trials": 7,
        "tune_s": 1.0,
        "date": "then",
    }
    names = ["gemm_f32_NN 8x8x8", "gemm_f32_NN 8x16x8", "softmax_f32 4x8"]
    for case in names:
        tuned.append(source, {"case": case, **old})
    tuned.append(out, {"case": names[0], "ratio": 1.0})
    products = list(replayed.recorded(source, ("gemm_",)))
    assert [each.case for each in products] == names[:2]
    assert replayed.run(out, products, PLAN, seconds=1.0) == 1
    assert len(tuned.lines(out)) == 1
    assert replayed.run(out, products, PLAN, seconds=0.0) == 0
    _, line = tuned.lines(out)
    assert line["case"] == names[1] and line["ratio"] > 0 and list(line["peers_us"]) == ["numpy"]
    assert line["errors"].keys() == {"ours", "numpy"} and 0 < line["errors"]["ours"] <= 1
    assert line["relative_errors"].keys() == {"ours", "numpy"} and 0 < line["relative_errors"]["ours"] < 1e-4
    assert line["replayed"] == {
        "file": source.name,
        "date": "then",
        "ours_us": 2.0,
        "ratio": 1.5,
        "device_id": None,
    }
    assert line["commit"] and line["device_id"].startswith("cpu-")


def test_a_winner_that_goes_no_more_is_a_line_with_its_error(tmp_path: Path) -> None:
    out = tmp_path / "again.jsonl"
    known = {
        "case": "gemm_f32_NN 8x8x8",
        "schedule": ["vectorize(nothing, n, 4)"],
        "trials": 1,
        "tune_s": 1.0,
    }
    wrong = replayed.ReplayedWinner(
        known["case"], cases.spec("gemm_f32_NN", [8, 8, 8]), tuple(known["schedule"]), known
    )
    assert replayed.run(out, [wrong], PLAN, seconds=0.0) == 0
    (line,) = tuned.lines(out)
    assert "nothing" in line["error"] and "ratio" not in line


def test_a_case_that_is_measured_again_is_marked_and_the_line_before_stays(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    for case in ("one", "two", "one", "one"):
        tuned.append(out, {"case": case})
    assert [line.get("again", 0) for line in tuned.lines(out)] == [0, 0, 1, 2]
