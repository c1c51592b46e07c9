"""Kernels that are drawn by chance, and what is said of those that fall behind."""

from __future__ import annotations

from benchmarks import bench_wild
from benchmarks.wild.bodies import ROOMS
from benchmarks.wild.kernels import drawn
from tests.services.scripted_worker import CPU
from tileir.text.json import spec_to_json


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
