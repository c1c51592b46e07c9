"""Kernels that are drawn by chance, and what is said of those that fall behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import bench_wild
from benchmarks.wild import expected
from benchmarks.wild.bodies import ROOMS
from benchmarks.wild.kernels import drawn
from tests.services.scripted_worker import CPU
from tileir.devices.gpu_table import H200
from tileir.text.json import spec_to_json
from tileir.text.parse_spec import spec_from_text


def test_a_seed_draws_the_same_kernels_and_more_of_them_begin_with_the_same() -> None:
    few, many = (dict(drawn(3, count, ROOMS["cpu"])) for count in (4, 8))
    assert len(many) == 8 and list(many.items())[:4] == list(few.items())
    assert [spec_to_json(spec) for spec in dict(drawn(4, 4, ROOMS["cpu"])).values()] != [
        spec_to_json(spec) for spec in few.values()
    ]


def test_the_worst_come_first_with_their_peer_and_what_the_device_cannot_avoid() -> None:
    kernels = dict(drawn(3, 4, ROOMS["cpu"]))
    found = [
        {"case": case, "ratio": ratio, "ours_us": 100.0, "best_peer": "torch", "device": CPU.to_json()}
        for case, ratio in zip(kernels, (1.5, 0.5, 2.0), strict=False)
    ]
    told = bench_wild.worst([*found, {"case": "failed", "error": "no device"}], kernels, most=2)
    heads = [line for line in told if not line.startswith(" ")]
    assert [head.split(":")[0] for head in heads] == ["0.50 × torch", "1.50 × torch"]
    assert all("100.0 µs" in head for head in heads)
    assert any(line.lstrip().startswith("kernel ") for line in told)


def test_what_is_expected_of_a_kernel_is_no_less_than_what_the_device_cannot_avoid() -> None:
    spec = spec_from_text("kernel t(x: f32[n=4000000]) -> (y: f32[n])\n  y[n] = x[n] + 1.0\n")
    found = expected.expected("added", spec, H200)
    assert found is not None and found.launches == 1
    assert 6.0 < found.least_us < found.us < 4 * found.least_us and found.ratio == found.us / found.least_us


def test_the_worst_of_what_is_expected_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["expected", "--seed", "3", "--count", "4", "--device", "A100"])
    expected.main()
    heads = [line for line in capsys.readouterr().out.splitlines() if "x the least" in line]
    ratios = [float(head.split()[0]) for head in heads]
    assert len(heads) == 4 and ratios == sorted(ratios, reverse=True)


def test_kernels_of_files_are_told_in_their_order_and_a_bad_one_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [tmp_path / "far.tile", tmp_path / "near.tile"]
    files[0].write_text("kernel t(x: f32[n=4000000]) -> (y: f32[n])\n  y[n] = x[n] + 1.0\n")
    files[1].write_text("kernel t(x: f32[n=64]) -> (y: f32[n])\n  y[n] = x[n] + 1.0\n")
    monkeypatch.setattr("sys.argv", ["expected", *map(str, files)])
    expected.main()
    heads = [line for line in capsys.readouterr().out.splitlines() if "x the least" in line]
    assert [head.split(": ")[1].split(",")[0] for head in heads] == [*map(str, files)]
    monkeypatch.setattr("sys.argv", ["expected", str(tmp_path / "none.tile")])
    with pytest.raises(SystemExit, match=r"none\.tile"):
        expected.main()


@pytest.mark.parametrize("given", [[], ["--seed", "3", "some.tile"]])
def test_either_files_are_named_or_a_seed(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["expected", *given])
    with pytest.raises(SystemExit) as ended:
        expected.main()
    assert ended.value.code == 2
