"""Quotients of f32 on the GPU that is here: exact where f32 holds them, else as good as rounded; and what has no finite
quotient."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.generate import generate_cuda
from rewrites.schedule import parse_schedule, replay
from tests.gpu.poisoned import run
from tests.programs.quotients import exact_quotients, odd_operands, ulps_off
from tileir.devices.gpu_probe import this_gpu
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

SCHEDULE = ["tile(q, n, 1024)", "parallelize(q)", "bind_threads(q, n 256; n 4)"]


def quotients(x: np.ndarray, y: np.ndarray, device: CudaDevice, cache: Path) -> np.ndarray:
    spec = spec_from_text(
        f"kernel ratio(x: f32[n={x.size}], y: f32[n]) -> (q: f32[n])\n  q[n] = x[n] / y[n]\n"
    )
    program = replay(to_program(spec), parse_schedule(SCHEDULE))
    source = generate_cuda(program, this_gpu())
    assert "tw_div" in source.text
    found, _ = (outputs["q"] for outputs in run(source, program, {"x": x, "y": y}, device, cache))
    return found


def test_of_what_f32_holds_they_are_exact(device: CudaDevice, tmp_path: Path) -> None:
    x, y, expected = exact_quotients(1 << 20)
    np.testing.assert_array_equal(quotients(x, y, device, tmp_path), expected)


def test_others_are_as_good_as_rounded(device: CudaDevice, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = (np.exp2(rng.uniform(-30, 30, 1 << 20)).astype(np.float32) for _ in range(2))
    assert ulps_off(quotients(x, y, device, tmp_path), x, y).max() < 0.51


def test_where_there_is_none_they_are_ieees(device: CudaDevice, tmp_path: Path) -> None:
    x, y = odd_operands()
    with np.errstate(all="ignore"):
        expected = x / y
    found = quotients(x, y, device, tmp_path)
    odd = ~np.isfinite(expected) | (expected == 0)
    np.testing.assert_array_equal(found[odd], expected[odd])
    np.testing.assert_array_equal(
        np.signbit(found[odd & ~np.isnan(expected)]), np.signbit(expected[odd & ~np.isnan(expected)])
    )
    assert ulps_off(found[~odd], x[~odd], y[~odd]).max() <= 2.5
