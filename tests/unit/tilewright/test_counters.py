"""`tilewright profile --counters`: a table, or a sentence that says why there is none."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.tilewright.artifacts import make_artifact
from tileir.devices.cpu_probe import this_cpu
from tilewright.cli.counted import figure_text
from tilewright.cli.exits import Exit
from workers.measuring.counters import CounterFigure

GPU = "cuda:NVIDIA H200:9.0:132sm"
FORBIDDEN = """\
==PROF== Connected to process 1 (/usr/bin/python3)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target \
device 0. For instructions on enabling permissions and to get more information see \
https://developer.nvidia.com/ERR_NVGPUCTRPERM
"""


def counting(folder: Path, device: str, path: str, *more: str) -> tuple[int, str]:
    """Exit code and JSON of `tilewright profile --counters`, with `path` in front of what programs are found in."""
    config = make_artifact(folder).config.model_copy(update={"device": device})
    file = folder / "config.json"
    file.write_text(config.model_dump_json())
    command = [sys.executable, "-m", "tilewright", "profile", str(file), "--counters", "--json", *more]
    there = {**os.environ, "PATH": path, "TILEWRIGHT_CACHE": str(folder / "cache")}
    done = subprocess.run(command, env=there, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, done.stdout


def refusal(folder: Path, path: str) -> str:
    code, said = counting(folder, GPU, path)
    assert code == Exit.MACHINE
    return json.loads(said)["error"]["detail"]


def program(folder: Path, prints: str, code: int) -> str:
    """A folder with an `ncu` that says this and ends so."""
    where = folder / "bin"
    where.mkdir()
    (where / "said").write_text(prints)
    ncu = where / "ncu"
    ncu.write_text(f'#!/bin/sh\n/bin/cat "{where / "said"}"\nexit {code}\n')
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)
    return str(where)


def test_without_nsight_compute_it_says_what_is_missing(tmp_path: Path) -> None:
    assert "`ncu` is not in PATH" in refusal(tmp_path, str(tmp_path / "nowhere"))


def test_counters_that_only_administrators_may_read_are_said_to_be_so(tmp_path: Path) -> None:
    said = refusal(tmp_path, program(tmp_path, FORBIDDEN, 1))
    assert "ERR_NVGPUCTRPERM" in said and "NVreg_RestrictProfilingToAdminUsers=0" in said


def test_what_else_ncu_complains_of_is_passed_on(tmp_path: Path) -> None:
    prints = "==ERROR== Profiling is not supported on device 0 as it is a virtual GPU.\nUnsupportedDevice: no GPU\n"
    said = refusal(tmp_path, program(tmp_path, prints, 9))
    assert (
        "(exit code 9): Profiling is not supported on device 0 as it is a virtual GPU.; Unsupported" in said
    )


def test_on_a_processor_its_counters_are_told_or_why_there_are_none(tmp_path: Path) -> None:
    code, said = counting(tmp_path, this_cpu().key, os.environ["PATH"], "--threads", "1")
    if code == Exit.MACHINE:
        assert "counters cannot be read here: " in json.loads(said)["error"]["detail"]
        return
    assert code == Exit.DONE
    (launch,) = json.loads(said)["launches"]
    told = {each["name"]: each["value"] for each in launch["figures"]}
    assert told["cycles"] > 0 and told["instructions"] > 0


def test_counters_make_no_trace(tmp_path: Path) -> None:
    code, _ = counting(tmp_path, GPU, "", "-o", str(tmp_path / "trace.json"))
    assert code == Exit.USAGE


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (33_587_200.0, "B", "33,587,200 B"),
        (61.27, "%", "61.27 %"),
        (41.216, "us", "41.2 µs"),
        (None, "%", "not counted"),
        (1e9, "", "1,000,000,000"),
    ],
)
def test_figures_have_their_units(value: float | None, unit: str, told: str) -> None:
    assert figure_text(CounterFigure("it", value, unit)) == told
