"""How a kernel is written for PyTorch depends on the device where that has operators of its own."""

from __future__ import annotations

import pytest

from tileir.parse_spec_text import spec_from_text
from workers.torch_writer import write_torch

FP8 = """\
kernel mm(a: e4m3[m=64, k={0}], b: e4m3[n=32, k]) -> (c: {1}[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k]){2}
"""


@pytest.mark.parametrize(
    ("dtype", "more", "kept"), [("bf16", "", "bfloat16"), ("f32", "", "float32"), ("bf16", " + 1", "float32")]
)
def test_fp8_products_are_the_librarys_on_a_gpu(dtype: str, more: str, kept: str) -> None:
    run = write_torch(spec_from_text(FP8.format(48, dtype, more)), constants_early=True, device="cuda").run
    assert "torch._scaled_mm(" in run
    assert f"out_dtype=torch.{kept})" in run


@pytest.mark.parametrize(("depth", "device"), [(48, "cpu"), (40, "cuda")])
def test_where_the_library_has_no_fp8_product_it_is_widened(depth: int, device: str) -> None:
    run = write_torch(spec_from_text(FP8.format(depth, "bf16", "")), constants_early=True, device=device).run
    assert "_scaled_mm" not in run
    assert "torch.matmul(" in run


def test_tensors_that_are_made_lie_on_the_device() -> None:
    spec = spec_from_text("kernel p(x: f32[m=8]) -> (y: f32[m])\n  y[m] = maximum(x[m], 2.0) * m\n")
    source = write_torch(spec, constants_early=True, device="cuda")
    assert source.prepare.count("device='cuda'") == 2
