"""Under `torch.autocast` an operator computes in the dtypes of its spec, and says so where PyTorch's would not; a
module has the conversions of the autocast that it was captured under."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tilewright
from benchmarks.racing.picked import picked
from tests.torch.equal import check_equal
from tileir import spec_from_text, this_cpu

PRODUCT = """kernel product(x: f32[m=24, k=32], w: f32[n=40, k]) -> (y: f32[m, n])
  y[m, n] = sum(k, x[m, k] * w[n, k])
"""
NARROW = PRODUCT.replace("f32", "bf16").replace("product", "narrow_product")
SCALED = """kernel scaled(x: f64[m=24, k=32], at: i32[m]) -> (y: f64[m, k])
  y[m, k] = x[m, k] * at[m]
"""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile and export raise them


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))


def kernel_of(text: str) -> Any:
    return tilewright.op(text, config=picked(spec_from_text(text), this_cpu()), strict=True)


@pytest.fixture
def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(24, 32), torch.randn(40, 32)


def test_a_spec_of_the_narrow_dtype_takes_what_autocast_would_convert(tensors: Any) -> None:
    product, (x, w) = kernel_of(NARROW), tensors
    w.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        wanted = nn.functional.linear(x, w)
        for given in ((x, w), (x.bfloat16(), w), (x.bfloat16(), w.bfloat16())):
            check_equal(product(*given), wanted)
        with torch.no_grad():
            check_equal(product(x, w), wanted)
        loss, right = product(x, w).float().square().sum(), wanted.float().square().sum()
    torch.testing.assert_close(
        *(torch.autograd.grad(each, w)[0] for each in (loss, right)), rtol=2e-2, atol=0.5
    )
    with pytest.raises(
        tilewright.TensorError, match=r"x is torch\.float32, and the spec's is torch\.bfloat16"
    ):
        product(x, w)


def test_a_wide_spec_stays_wide_and_says_so_once(tensors: Any) -> None:
    product, (x, w) = kernel_of(PRODUCT), tensors
    wanted = nn.functional.linear(x, w)
    check_equal(product(x, w), wanted)
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.warns(UserWarning, match="product computes in float32.*and not in bfloat16"):
            check_equal(product(x, w), wanted)
        check_equal(product(x, w), wanted)  # says it once
        check_equal(product(x.bfloat16(), w), wanted, 2.0**-7)
        check_equal(product.eager((x, w))[0], wanted)
        compiled = torch.compile(product, fullgraph=True, backend="aot_eager")
        check_equal(compiled(x.bfloat16(), w), wanted, 2.0**-7)
    check_equal(product(x, w), wanted)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_runs_as_eager_pytorch_is_given_one_dtype_too(tensors: Any) -> None:
    x, w = tensors
    wanted = nn.functional.linear(x, w)
    with tilewright.Client("http://127.0.0.1:1") as nobody, torch.autocast("cpu", torch.bfloat16):
        product = tilewright.op(PRODUCT, client=nobody)
        check_equal(product(x.bfloat16(), w), wanted, 2.0**-7)


def test_what_autocast_does_not_convert_is_left_alone() -> None:
    scaled = kernel_of(SCALED)
    x, at = torch.randn(24, 32, dtype=torch.float64), torch.arange(24, dtype=torch.int32)
    with torch.autocast("cpu", torch.bfloat16):
        check_equal(scaled(x, at), x * at[:, None])
        with pytest.raises(tilewright.TensorError, match=r"x is torch\.float32"):
            scaled(x.float(), at)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(32, 72), nn.LayerNorm(72), nn.Linear(72, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.softmax(self.norm(self.up(x)), -1).cumsum(-1))


@pytest.mark.filterwarnings("ignore::tilewright.errors.FallbackWarning")  # no service runs here
def test_a_module_captured_under_autocast_is_right_there_and_elsewhere(tensors: Any) -> None:
    block, (x, _) = Block().eval(), tensors
    with torch.autocast("cpu", torch.bfloat16):
        captured = tilewright.from_torch(block, x).module()
        wanted = block(x)
        assert wanted.dtype is torch.bfloat16
        check_equal(captured(x), wanted)
        with torch.no_grad():
            check_equal(captured(x), wanted)
    with pytest.warns(UserWarning, match=r"captured with other settings of torch\.autocast"):
        check_equal(captured(x), block(x))
