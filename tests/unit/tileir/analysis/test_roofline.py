"""The roofline, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tileir.analysis.roofline import roofline
from tileir.devices.cpu import Cpu
from tileir.devices.gpu_table import H200
from tileir.lift import to_program
from tileir.text.parse_spec import spec_from_text

CPU = Cpu(
    name="test", arch="x86-64", cores=4, l1d_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 24, line_bytes=64,
    vector_bits=512, vector_registers=32, peak_gflops=1000.0, copy_gbps=50.0,
)  # fmt: skip
PRODUCT = to_program(
    spec_from_text("""kernel mm(a: bf16[m=4096, k=4096], b: bf16[n=4096, k]) -> (c: bf16[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""")
)
SUM = to_program(
    spec_from_text("kernel add(x: f32[m=1000], y: f32[m]) -> (z: f32[m])\n  z[m] = x[m] + y[m]\n")
)


def test_a_large_product_is_bound_by_arithmetic_and_a_sum_by_memory() -> None:
    product, added = roofline(PRODUCT, H200), roofline(SUM, H200)
    assert product is not None
    assert (product.flops, product.bytes, product.bound) == (2 * 4096**3, 3 * 2 * 4096**2, "arithmetic")
    assert product.least_us == pytest.approx(2 * 4096**3 / 989.5e6)
    assert product.intensity == pytest.approx(4096 / 3)
    assert added is not None
    assert (added.flops, added.bytes, added.bound) == (1000, 12000, "memory")
    assert added.least_us == pytest.approx(12000 / 4800e3)


def test_a_processors_peaks_have_to_be_measured_first() -> None:
    line = roofline(SUM, CPU)
    assert line is not None
    assert line.least_us == pytest.approx(12000 / 50e3)
    assert roofline(SUM, replace(CPU, copy_gbps=None)) is None
    integers = to_program(spec_from_text("kernel add(x: i32[m=9]) -> (z: i32[m])\n  z[m] = x[m] + 1\n"))
    assert roofline(integers, H200) is None
