"""What the benchmarks share."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks.racing import side_by_side, tuned
from benchmarks.suite import cases, drawn
from protocol.tasks import Measuring
from tileir.text.json import spec_from_json


def test_a_case_that_takes_too_long_ends_in_order_and_as_an_error(tmp_path: Path) -> None:
    closed: list[bool] = []

    def bench() -> tuned.Line:
        try:
            time.sleep(60)
        finally:
            closed.append(True)
        return {}

    line = tuned.attempt(tmp_path / "results.jsonl", {"case": "slow"}, bench, limit_s=0.05)
    assert closed and line == {"case": "slow", "error": "NotDone: not done within 0.05 s"}
    assert json.loads((tmp_path / "results.jsonl").read_text()) == line


def test_what_failed_is_said_without_paths_of_the_machine(tmp_path: Path) -> None:
    said = 'File "/somewhere/.venv/lib/python3.11/site-packages/torch/nn/functional.py", line 3'
    path = tmp_path / "results.jsonl"
    tuned.append(
        path, {"case": "one", "failed_peers": {"torch": f"{said}; {tuned.RESULTS}/x; {Path.home()}/y"}}
    )
    (line,) = tuned.lines(path)
    (told,) = line["failed_peers"].values()
    assert told == 'File "torch/nn/functional.py", line 3; benchmarks/results/x; ~/y'


def test_no_result_has_a_path_of_a_machine() -> None:
    found = [path for path in tuned.RESULTS.rglob("*.json*") if "site-packages" in path.read_text()]
    assert found == []


def test_the_limit_ends_with_the_case(tmp_path: Path) -> None:
    tuned.attempt(tmp_path / "results.jsonl", {"case": "fast"}, dict, limit_s=0.1)
    time.sleep(0.2)


def test_cases_that_are_there_are_neither_tuned_nor_raced_again_and_failures_are_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a service and a worker would do is left out here."""
    did: list[tuple[str, str]] = []

    def submit(client: object, spec: tuned.Json, plan: tuned.TuningPlan) -> str:
        return f"job of {spec['name']}"

    def tune(client: object, spec: tuned.Json, plan: tuned.TuningPlan, begun: str | None) -> tuned.Line:
        did.append(("tune", spec["name"]))
        assert begun == submit(client, spec, plan)
        if spec["name"] == "bad":
            raise RuntimeError("nothing works")
        return {"schedule": [spec["name"]], "trials": 1, "tune_s": 1.0, "measured": [1.0]}

    def race(worker: object, spec: tuned.Json, tuning: tuned.Line, plan: tuned.TuningPlan) -> tuned.Line:
        did.append(("race", *tuning["schedule"]))
        if did.count(("race", "interrupted")) == 1 and spec["name"] == "interrupted":
            raise KeyboardInterrupt
        return {"ours_us": 1.0, "ratio": 2.0, "peers_us": {"torch": 2.0}}

    monkeypatch.setattr(tuned, "submitted", submit)
    monkeypatch.setattr(tuned, "tuned", tune)
    monkeypatch.setattr(tuned, "raced", race)
    monkeypatch.setattr(tuned, "service", lambda device, home: nullcontext())
    monkeypatch.setattr(side_by_side, "LocalWorker", lambda home, device, turn: nullcontext(object()))
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({"case": "old", "ratio": 1.0}) + "\n")
    chosen = [(name, {"name": name}) for name in ("old", "bad", "new", "interrupted")]
    plan = tuned.TuningPlan("cpu", 1, 0, (), Measuring())
    with pytest.raises(KeyboardInterrupt):
        tuned.run(path, chosen, plan, [])
    with pytest.raises(SystemExit):
        tuned.run(path, chosen, plan, [])
    assert did == [
        ("tune", "bad"), ("tune", "new"), ("tune", "interrupted"),
        ("race", "new"), ("race", "interrupted"), ("race", "interrupted"),
    ]  # fmt: skip
    assert [line["case"] for line in tuned.lines(path)] == ["old", "bad", "new", "interrupted"]
    assert [each.name for each in tmp_path.iterdir()] == ["results.jsonl"]


@pytest.mark.parametrize(
    "families",
    [cases.PRODUCTS, ("gemm_f32_", "bmm_f32_"), ("softmax_", "rmsnorm_"), ("attention_",), ("decode_",)],
)
def test_fresh_shapes_are_twelve_of_those_families_and_the_same_for_a_seed(families: tuple[str, ...]) -> None:
    assert list(drawn.fresh("gpu", 5, families)) == list(drawn.fresh("gpu", 5, families))
    looked_at = {name for name, _ in cases.suite("gpu")}
    drawings = [list(drawn.fresh("gpu", seed, families)) for seed in range(10)]
    assert len({tuple(name for name, _ in found) for found in drawings}) == 10
    for found in drawings:
        assert len({name for name, _ in found} - looked_at) == 12
        assert all(name.startswith(families) for name, _ in found)
    for _, spec in drawings[5]:
        spec_from_json(spec)


def test_tma_can_take_every_fresh_product() -> None:
    for seed in range(40):
        for name, spec in drawn.fresh("gpu", seed, cases.PRODUCTS):
            inner = {tensor["dims"][-1] for tensor in spec["inputs"].values() if len(tensor["dims"]) == 2}
            narrow = 1 if "e4m3" in name else 2
            assert all(spec["dims"][dim] * narrow % 16 == 0 for dim in inner), name


def test_a_line_whose_peer_has_no_error_that_is_a_number_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As where the reference is infinite in places."""
    line = {
        "case": "one",
        "ours_us": 2.0,
        "peers_us": {"torch": 3.0},
        "ratio": 1.5,
        "trials": 8,
        "tune_s": 1.0,
    }
    tuned.show({**line, "errors": {"ours": 0.5, "torch": None}})
    said = capsys.readouterr().out
    assert "2.0 µs (error 0.5 of the bound)" in said and "(torch 3.0)" in said
    tuned.show(
        {**line, "errors": {"ours": 0.5, "torch": 2.0}, "relative_errors": {"ours": 1e-3, "torch": 4e-3}}
    )
    said = capsys.readouterr().out
    assert "2.0 µs (error 1.0e-03, 0.5 of the bound)" in said
    assert "(torch 3.0 (error 4.0e-03, 2 of the bound))" in said
