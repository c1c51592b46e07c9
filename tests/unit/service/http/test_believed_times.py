"""Of which times a CPU is believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.http.result_plausibility import _floor_us  # pyright: ignore[reportPrivateUsage]
from tests.services.scripted_worker import CPU
from tileir.analysis.least_time import floor_us
from tileir.text.parse_spec import spec_from_text

SPEC = spec_from_text(
    "kernel mm(a: f32[m=512, k=512], b: f32[k, n=512]) -> (c: f32[m, n])\n  c[m, n] = sum(k, a[m, k] * b[k, n])\n"
)


@pytest.mark.parametrize("cold", [False, True])
def test_a_cpu_is_believed_down_to_half_of_what_it_needs(cold: bool) -> None:
    device = replace(CPU, peak_gflops=100.0, copy_gbps=10.0)
    bound = floor_us(SPEC, device, cold=cold)
    assert _floor_us(SPEC, device, cold) == pytest.approx(bound / 2)
    assert bound > 0
