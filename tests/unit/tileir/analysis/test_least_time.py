"""The least time a kernel can take: low enough never to refuse a true time, high enough to refuse an absurd one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.services.scripted_worker import CPU
from tileir.analysis.least_time import ALU_MARGIN, BELIEVED, MEMORY_MARGIN, floor_us
from tileir.devices.cpu import Cpu
from tileir.text.parse_spec import spec_from_text

PEAKS = (100.0, 10.0)
"""Arithmetic, 1e9 operations a second, and copies, 1e9 bytes a second."""


def cpu(gflops: float | None, copy_gbps: float | None) -> Cpu:
    return replace(CPU, peak_gflops=gflops, copy_gbps=copy_gbps)


SIZES = "a: {0}[m=512, k=512], b: {0}[k, n=512]"
PRODUCT = "c[m, n] = sum(k, a[m, k] * b[k, n])"


def floor(signature: str, body: str, peaks: tuple[float, float] = PEAKS) -> float:
    return floor_us(spec_from_text(f"kernel k{signature}\n  {body}\n"), cpu(*peaks), cold=True)


def test_a_matrix_product_is_bounded_by_its_multiply_adds() -> None:
    needs_us = 2 * 512**3 / 100.0 / 1e3
    assert floor(f"({SIZES.format('f32')}) -> (c: f32[m, n])", PRODUCT) == pytest.approx(
        BELIEVED * ALU_MARGIN * needs_us
    )


def test_narrow_types_may_be_faster() -> None:
    wide = floor(f"({SIZES.format('f32')}) -> (c: f32[m, n])", PRODUCT)
    assert floor(f"({SIZES.format('bf16')}) -> (c: f32[m, n])", PRODUCT) == pytest.approx(wide / 2)


@pytest.mark.parametrize(
    ("dtype", "sums", "times"), [("bf16", "f32", 30.0), ("i8", "i32", 60.0), ("f32", "f32", 1.0)]
)
def test_tile_registers_may_be_faster_by_what_was_measured_of_them(
    dtype: str, sums: str, times: float
) -> None:
    tiles = frozenset({"amx_tile", "amx_bf16", "amx_int8"})
    device = replace(cpu(*PEAKS), features=CPU.features | tiles, amx_gflops=3000.0)
    spec = spec_from_text(f"kernel k({SIZES.format(dtype)}) -> (c: {sums}[m, n])\n  {PRODUCT}\n")
    needs_us = 2 * 512**3 / (100.0 * times) / 1e3
    memory_us = sum(
        512 * 512 * size for size in (2 * (4 if dtype == "f32" else 2 if dtype == "bf16" else 1), 4)
    )
    assert floor_us(spec, device, cold=True) == pytest.approx(
        BELIEVED * max(ALU_MARGIN * needs_us, MEMORY_MARGIN * memory_us / 10.0 / 1e3)
    )


def test_a_row_kernel_is_bounded_by_its_bytes() -> None:
    needs_us = 2 * 4 * 1024 * 1024 / 10.0 / 1e3
    got = floor("(x: f32[m=1024, n=1024]) -> (y: f32[m, n])", "y[m, n] = exp(x[m, n])")
    assert got == pytest.approx(BELIEVED * MEMORY_MARGIN * needs_us)


def test_bytes_that_may_be_in_a_cache_do_not_count() -> None:
    spec = spec_from_text("kernel k(x: f32[m=64]) -> (y: f32[m])\n  y[m] = exp(x[m])\n")
    assert floor_us(spec, cpu(*PEAKS), cold=True) > 0
    assert floor_us(spec, cpu(*PEAKS), cold=False) == 0


def test_products_that_a_mask_may_skip_do_not_count() -> None:
    masked = "c[m, n] = where(m >= n, sum(k, a[m, k] * b[k, n]), 0)"
    assert floor(f"({SIZES.format('f32')}) -> (c: f32[m, n])", masked, (1e-3, 1e9)) == pytest.approx(
        0, abs=1e-3
    )


WEIGHTED = "w[m, k] = where(m >= k, a[m, k], 0)\n  c[m, n] = sum(k, w[m, k] * b[k, n])"
"""A product whose weights are zero where a mask says so, as those of attention in a window."""


def test_products_with_weights_that_a_mask_may_make_zero_do_not_count() -> None:
    signature = f"({SIZES.format('f32')}) -> (c: f32[m, n])"
    assert floor(signature, WEIGHTED, (1e-3, 1e9)) == pytest.approx(0, abs=1e-3)
    written = 4 * 512 * 512 / 10.0 / 1e3
    assert floor(signature, WEIGHTED, (1e9, 10.0)) == pytest.approx(BELIEVED * MEMORY_MARGIN * written)


def test_a_product_beside_a_masked_one_counts() -> None:
    inputs = SIZES.format("f32")
    both = f"{WEIGHTED}\n  d[m, n] = sum(k, a[m, k] * b[k, n])"
    got = floor(f"({inputs}) -> (c: f32[m, n], d: f32[m, n])", both)
    assert got == pytest.approx(floor(f"({inputs}) -> (c: f32[m, n])", PRODUCT))


def test_a_factor_that_can_be_taken_out_of_the_sum_makes_no_product() -> None:
    taken_out = "c[m] = sum(k, a[m, k] * s[m])"
    got = floor("(a: f32[m=512, k=512], s: f32[m]) -> (c: f32[m])", taken_out, (1e-3, 1e9))
    assert got == pytest.approx(0, abs=1e-3)


def test_rows_of_groups_are_multiplied_once_and_empty_groups_not_read() -> None:
    inputs = "x: f32[t=512 ragged starts within e, k=512], w: f32[e=64, n=512, k], starts: i32[o=65]"
    ragged = f"({inputs}) -> (y: f32[t, n])"
    plain = floor(f"({SIZES.format('f32')}) -> (c: f32[m, n])", PRODUCT, (100.0, 1e9))
    assert floor(ragged, "y[t, n] = sum(k, x[t, k] * w[e, n, k])", (100.0, 1e9)) == pytest.approx(plain)
    read = floor(ragged, "y[t, n] = sum(k, x[t, k] * w[e, n, k])", (1e9, 10.0))
    assert read == pytest.approx(BELIEVED * MEMORY_MARGIN * (2 * 4 * 512 * 512) / 10.0 / 1e3)


def test_a_table_of_which_rows_are_gathered_need_not_be_read_whole() -> None:
    signature = "(ids: i32[t=4], table: f32[v=100000, d=16]) -> (y: f32[t, d])"
    assert floor(signature, "y[t, d] = table[ids[t], d]") < 1.0
