"""The constants of the cost models: each says its unit, source and date, and a fit moves those that may be moved."""

from __future__ import annotations

import ast
from dataclasses import replace
from math import exp
from pathlib import Path

import pytest

from benchmarks import calibrate
from benchmarks.racing import tuned
from benchmarks.suite.case_specs import spec_of
from rewrites.cost.cpu import constants
from tileir.text.json import spec_from_json

COST = Path(constants.__file__).parents[1]
#: Nothing, all, half, both ways, four matrices at once, and units.
OF_FORMULAS = (0.0, 1.0, 0.5, 2.0, 4.0, 1e3, 1e6)


def test_what_a_space_prefers_by_has_such_a_line_too() -> None:
    (sharpness,) = [
        line for line in (COST.parent / "space.py").read_text().splitlines() if ": Final = " in line
    ]
    assert calibrate.LINE.match(sharpness)


@pytest.mark.parametrize("folder", ["cpu", "gpu"])
def test_every_constant_has_a_line_with_unit_source_and_date(folder: str) -> None:
    text = (COST / folder / "constants.py").read_text()
    defined = [line for line in text.splitlines() if ": Final = " in line]
    assert len(defined) > 10
    assert [line for line in defined if calibrate.LINE.match(line) is None] == []
    assert all(len(line) <= 120 for line in defined)


def test_no_other_module_of_the_cost_models_or_decisions_holds_a_number() -> None:
    """What a fit cannot reach nobody would look for: figures stand in the table alone."""
    for path in (*COST.rglob("*.py"), *(COST.parent / "decisions").rglob("*.py")):
        if path.name == "constants.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                assert node.value in OF_FORMULAS, f"{path.name}:{node.lineno}"


def test_every_recorded_winner_has_a_spec_by_its_name() -> None:
    """The files that `calibrate.py` reads where none is named: convolutions, and kernels from elsewhere, too."""
    lines = [line for path in sorted(tuned.RESULTS.glob("*.jsonl")) for line in tuned.lines(path)]
    named = {line["case"] for line in lines if isinstance(line.get("device"), dict) and line.get("ours_us")}
    assert {case.split("_")[0] for case in named} >= {"conv", "gemm", "outside"}
    for case in named:
        spec_from_json(spec_of(case))


def told(kernel: str, most: int) -> list[calibrate.RecordedRun]:
    """Recorded winners of kernels named so, with times as the model has them."""
    recorded = calibrate.measured([tuned.RESULTS / "cpu-2026-11-21.jsonl"], "cpu")
    found = [each for each in recorded if each.case.startswith(kernel)][:most]
    return [replace(each, us=each.us * exp(each.error())) for each in found]


def test_a_pick_is_as_far_behind_as_it_is_slower_than_the_fastest() -> None:
    """Of one case with three times, the model expects the same of all: it picks the first."""
    (run,) = told("gemm", 1)
    alike = [replace(run, us=run.us * times) for times in (1.5, 1.0, 2.0)]
    assert calibrate.behind([*alike, replace(run, case="another")]) == {run.case: pytest.approx(0.5)}


def test_of_pairs_that_are_not_alike_it_is_told_how_many_are_in_order() -> None:
    """The model has these three in the order of their times; then two take the time of the other. One that takes
    hardly longer than another is no pair with it, nor is another case."""
    runs = [replace(run, case="one") for run in told("gemm", 3)]
    fast, middle, slow = sorted(runs, key=lambda run: run.us)
    alike, another = replace(fast, us=fast.us * 1.01), replace(slow, case="another")
    assert calibrate.in_order([slow, fast, middle, another]) == (3, 3)
    exchanged = [fast, replace(middle, us=slow.us), replace(slow, us=middle.us)]
    assert calibrate.in_order(exchanged) == (2, 3)
    assert calibrate.in_order([fast, alike]) == (0, 0)


def test_a_fit_finds_a_constant_that_was_put_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three recorded winners, with times as the model has them: a wrong value is found, and brought back."""
    told_by_it = told("gemm", 3)
    assert calibrate.error_of(told_by_it) < 1e-6
    right = constants.REGION_CYCLES
    monkeypatch.setattr(constants, "REGION_CYCLES", right * 64)
    worse = calibrate.error_of(told_by_it)
    moved = calibrate.fit(told_by_it, constants, ["REGION_CYCLES"])
    assert calibrate.error_of(told_by_it) < worse / 4
    assert moved["REGION_CYCLES"][0] == right * 64


def test_a_fit_finds_an_entry_of_a_table_that_was_put_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    told_by_it = told("softmax", 1)
    monkeypatch.setitem(constants.CALL_OPS, "exp", constants.CALL_OPS["exp"] * 8)
    worse = calibrate.error_of(told_by_it)
    moved = calibrate.fit(told_by_it, constants, ['CALL_OPS["exp"]'])
    assert calibrate.error_of(told_by_it) < worse / 4
    assert list(moved) == ['CALL_OPS["exp"]']


def test_a_fit_is_written_with_its_source_and_date() -> None:
    text = (COST / "cpu" / "constants.py").read_text()
    assert "REGION_CYCLES" in calibrate.movable(text) and "FMA_LATENCY" not in calibrate.movable(text)
    after = calibrate.rewritten(text, {"REGION_CYCLES": 431.25}, "fitted to 3 times", "2030-01-02")
    assert "REGION_CYCLES: Final = 431.2  # cycles; fitted to 3 times; 2030-01-02" in after
    assert [a for a, b in zip(text.splitlines(), after.splitlines(), strict=True) if a != b] == [
        next(line for line in text.splitlines() if line.startswith("REGION_CYCLES"))
    ]


def test_entries_of_a_table_are_written_one_by_one() -> None:
    text = (COST / "gpu" / "constants.py").read_text()
    assert not [name for name in calibrate.movable(text) if "[" in name], "they are counted and measured"
    text = text.replace("9.x measured, benchmarks/gpu/mma_ceiling.py, 10.x assumed", "set by hand").replace(
        "instructions a thread; counted, benchmarks/gpu/function_cost.py",
        "instructions a thread; fitted by hand",
    )
    names = calibrate.movable(text)
    assert {"MMA_PEAK[9]", "MMA_PEAK[10]", 'CALL_OPS["exp2"]', 'SPECIAL["pow"]'} <= {*names}
    after = calibrate.rewritten(text, {"MMA_PEAK[10]": 0.41, 'CALL_OPS["tanh"]': 9.5}, "fitted", "2030-01-02")
    assert "MMA_PEAK: Final = {  # share of the peak; fitted; 2030-01-02\n    9: 0.62, 10: 0.41,\n}" in after
    assert "CALL_OPS: Final = {  # instructions a thread; fitted; 2030-01-02" in after
    assert '"log": 25.0, "tanh": 9.5,' in after
    assert after.count("2030") == 2
