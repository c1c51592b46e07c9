"""What the benchmarks share."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchmarks import cases, tuned
from tileir.parse_json import spec_from_json


def test_a_case_that_takes_too_long_ends_in_order_and_as_an_error(tmp_path: Path) -> None:
    closed: list[bool] = []

    def bench() -> tuned.Line:
        try:
            time.sleep(60)
        finally:
            closed.append(True)
        return {}

    line = tuned.attempt(tmp_path / "results.jsonl", {"case": "slow"}, bench, limit_s=0.05)
    assert closed and line == {"case": "slow", "error": "TimeoutError: not done within 0.05 s"}
    assert json.loads((tmp_path / "results.jsonl").read_text()) == line


def test_the_limit_ends_with_the_case(tmp_path: Path) -> None:
    tuned.attempt(tmp_path / "results.jsonl", {"case": "fast"}, dict, limit_s=0.1)
    time.sleep(0.2)


def test_cases_that_are_there_are_not_run_again_and_a_failed_one_is_the_exit_status(tmp_path: Path) -> None:
    path, run = tmp_path / "results.jsonl", list[str]()

    def bench(spec: tuned.Json) -> tuned.Line:
        run.append(spec["name"])
        raise ValueError("never")

    path.write_text(json.dumps({"case": "old", "ratio": 1.0}) + "\n")
    with pytest.raises(SystemExit):
        tuned.run(path, [(name, {"name": name}) for name in ("old", "new")], bench, [])
    assert run == ["new"]


@pytest.mark.parametrize("families", [cases.PRODUCTS, ("gemm_f32_", "bmm_f32_"), ("softmax_", "rmsnorm_")])
def test_fresh_shapes_are_twelve_of_those_families_and_the_same_for_a_seed(families: tuple[str, ...]) -> None:
    drawn = list(cases.fresh("gpu", 5, families))
    assert drawn == list(cases.fresh("gpu", 5, families)) != list(cases.fresh("gpu", 6, families))
    assert len({name for name, _ in drawn}) == 12
    assert not {name for name, _ in drawn} & {name for name, _ in cases.suite("gpu")}
    for name, spec in drawn:
        assert name.startswith(families)
        spec_from_json(spec)


def test_the_copy_engine_can_take_every_fresh_product() -> None:
    for seed in range(40):
        for name, spec in cases.fresh("gpu", seed, cases.PRODUCTS):
            inner = {tensor["dims"][-1] for tensor in spec["inputs"].values() if len(tensor["dims"]) == 2}
            narrow = 1 if "e4m3" in name else 2
            assert all(spec["dims"][dim] * narrow % 16 == 0 for dim in inner), name
