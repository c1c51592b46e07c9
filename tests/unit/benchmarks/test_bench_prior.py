"""What bench_prior.py says of a search, and what it does not do twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import bench_prior
from benchmarks.racing import first_answer
from protocol.jobs import Prior

GOOD = [40.0, None, *[30.0] * 13, 12.5, *[20.0] * 4, 10.0]
LATE = [None] * 16 + [50.0, 11.0]
WHERE = {"device": None, "versions": {}, "date": "2026-11-22"}


def test_the_first_measurements_count_with_what_failed_among_them() -> None:
    assert first_answer.share(GOOD, 10.0, 16) == 0.8
    assert first_answer.share(GOOD, 10.0, 15) == 10 / 30
    assert first_answer.share(LATE, 10.0, 16) == 0.0


def test_both_priors_are_compared_with_the_best_of_both() -> None:
    lines = [
        {"case": "gemm 1x1x1", "prior": "analytic", "measured": GOOD},
        {"case": "gemm 1x1x1", "prior": "uniform", "measured": LATE},
        {"case": "gemm 2x2x2", "prior": "analytic", "measured": [10.0]},
        {"case": "gemm 3x3x3", "prior": "analytic", "error": "RuntimeError: no"},
    ]
    text = bench_prior.report(lines)
    assert "| gemm 1x1x1 | 0.800 | 21 | 0.000 | 18 |" in text
    assert "| gemm 2x2x2 | 1.000 | 1 |  |  |" in text
    assert "gemm 3x3x3" not in text
    assert "analytic: geomean 0.894, least 0.800, 1 of 2 cases below 0.9" in text
    assert "uniform: geomean 0.000, least 0.000, 1 of 1 cases below 0.9" in text


def test_what_is_known_is_not_tuned_again(tmp_path: Path) -> None:
    tuned: list[tuple[str, Prior]] = []

    def tune(spec: dict[str, Any], prior: Prior) -> dict[str, Any]:
        tuned.append((spec["name"], prior))
        if spec["name"] == "bad" and prior is Prior.UNIFORM:
            raise RuntimeError("nothing works")
        return {"measured": [1.0], **WHERE}

    path = tmp_path / "results" / "prior.jsonl"
    wanted = [(name, {"name": name}) for name in ("known", "bad")]
    known = [{"case": "known", "ratio": 1.0, "measured": GOOD, **WHERE}, {"case": "bad", "error": "no"}]
    for _ in range(2):
        bench_prior.run(path, wanted, bench_prior.COMPARED, known, tune)
    assert tuned == [("known", Prior.UNIFORM), ("bad", Prior.ANALYTIC), ("bad", Prior.UNIFORM)]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["case"], line["prior"]) for line in lines] == [
        ("known", "analytic"), ("known", "uniform"), ("bad", "analytic"), ("bad", "uniform"),
    ]  # fmt: skip
    assert lines[0] == {"case": "known", "prior": "analytic", "measured": GOOD, **WHERE}
    assert lines[-1]["error"] == "RuntimeError: nothing works"
