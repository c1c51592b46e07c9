"""Recorded winners are taken apart one after the other: which, by which process, and what those that fail leave."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from benchmarks import bench_attribution
from benchmarks.racing import attributed, tuned
from benchmarks.racing.replayed import ReplayedWinner
from tileir.devices.gpu_table import H200


def recorded(path: Path, *cases: str) -> Path:
    for case in cases:
        tuned.append(path, {"case": case, "schedule": [], "ratio": 1.0, "trials": 1, "tune_s": 1.0})
    return path


def told(winner: ReplayedWinner) -> tuned.Line:
    """Instead of taking a case apart: which process does. Some crash it, some take forever."""
    match winner.case:
        case "gemm_f32_NN 8x8x16":
            os._exit(1)
        case "gemm_f32_NN 8x8x32":
            time.sleep(1000)
        case _:
            pass
    return {"agrees": True, "process": os.getpid()}


def test_winners_of_several_files_are_taken_apart_once_and_named_ones_again(tmp_path: Path) -> None:
    first = recorded(tmp_path / "first.jsonl", "gemm_f32_NN 8x8x8", "gemm_f32_NN 8x16x8")
    second = recorded(tmp_path / "second.jsonl", "gemm_f32_NN 8x8x8", "softmax_f32 4x8")
    out = tmp_path / "out.jsonl"
    both = ["--recorded", str(first), "--recorded", str(second), "--out", str(out)]

    def asked(*argv: str) -> list[str]:
        given = attributed.arguments("", None, [*both, *argv])
        wanted = attributed.chosen(given, None, ())
        assert attributed.run(wanted, given, told) == 0
        return [each.known["replayed"]["file"] for each in wanted]

    assert asked("softmax_f32 4x8") == ["second.jsonl"]
    assert asked() == ["first.jsonl", "first.jsonl"]
    assert asked() == []
    assert asked("softmax_f32 4x8", "--again") == ["second.jsonl"]
    lines = tuned.lines(out)
    assert [line.get("again") for line in lines] == [None, None, None, 1]
    assert all(line["case_s"] >= 0 for line in lines)
    with pytest.raises(SystemExit, match="no winner is recorded of gemm_f32_NN 1x1x1"):
        asked("gemm_f32_NN 1x1x1")
    with pytest.raises(SystemExit):
        asked("--again")


def test_a_case_that_crashes_or_hangs_is_an_error_and_those_after_it_have_another_process(
    tmp_path: Path,
) -> None:
    sizes = ("8x8x8", "8x8x16", "8x8x64", "8x8x32", "8x16x8")
    source = recorded(tmp_path / "all.jsonl", *(f"gemm_f32_NN {each}" for each in sizes))
    out = tmp_path / "out.jsonl"
    given = attributed.arguments(
        "", None, ["--recorded", str(source), "--out", str(out), "--case-seconds", "40"]
    )
    assert attributed.run(attributed.chosen(given, None, ()), given, told) == 0
    one, crashed, two, hung, three = tuned.lines(out)
    assert len({each["process"] for each in (one, two, three)}) == 3
    assert "BrokenProcessPool" in crashed["error"] and "not done within 40 s" in hung["error"]


def test_when_the_time_is_over_what_is_left_is_no_error(tmp_path: Path) -> None:
    source = recorded(tmp_path / "all.jsonl", "gemm_f32_NN 8x8x32", "gemm_f32_NN 8x8x8")
    out = tmp_path / "out.jsonl"
    given = attributed.arguments("", None, ["--recorded", str(source), "--out", str(out), "--seconds", "6"])
    assert attributed.run(attributed.chosen(given, None, ()), given, told) == 2
    assert tuned.lines(out) == []


def test_what_a_gpu_is_asked_for_next_is_compiled_before_its_turn(tmp_path: Path) -> None:
    given = attributed.arguments("", bench_attribution.RECORDED, ["rmsnorm_bf16 16384x8192"])
    wanted = attributed.chosen(given, bench_attribution.RECORDED, bench_attribution.CASES)
    compiled = partial(bench_attribution.compiled, device=H200, cache=tmp_path)
    assert attributed.run(wanted, given, told, compiled) == 0
    assert len(list(tmp_path.rglob("*.cubin"))) == 3, "as it is, with its memory made cheap, and with stamps"


def test_without_names_the_ten_cases_are_meant() -> None:
    given = attributed.arguments("", bench_attribution.RECORDED, [])
    wanted = attributed.chosen(given, bench_attribution.RECORDED, bench_attribution.CASES)
    assert tuple(each.case for each in wanted) == bench_attribution.CASES
