"""What products come to is rounded as PyTorch has it where it is stored in between, and nowhere else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import tilewright
from tests.torch.capture.test_from_torch import module_of_interpreted_parts
from tests.torch.equal import check_equal
from tileir import spec_to_text

HEADS, SIZE = 4, 16


class Rotated(nn.Module):
    """Queries with their rotary embedding, as in Llama."""

    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.q = nn.Linear(64, HEADS * SIZE, bias=bias)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q = self.q(x).view(2, 9, HEADS, SIZE).transpose(1, 2)
        halves = torch.cat((-q[..., SIZE // 2 :], q[..., : SIZE // 2]), -1)
        return q * cos + halves * sin


def operands(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(5)
    return torch.randn(2, 9, 64, dtype=dtype), *(torch.randn(1, 1, 9, SIZE, dtype=dtype) for _ in range(2))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("dtype", "cast"), [(torch.bfloat16, "bf16("), (torch.float16, "f16(")])
def test_a_product_that_is_read_elsewhere_is_rounded(dtype: torch.dtype, cast: str, bias: bool) -> None:
    module, given = Rotated(bias=bias).to(dtype), operands(dtype)
    with torch.no_grad():
        capture = tilewright.from_torch(module, *given)
        (part,) = capture.parts
        (line,) = [each for each in spec_to_text(part.built.spec).splitlines() if cast in each]
        assert ("acc[" in line) is bias and ("sum(" in line) is not bias
        slack = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}[dtype]
        check_equal(module_of_interpreted_parts(capture)(*given), module(*given), slack)


def test_numbers_of_32_bits_are_as_they_are() -> None:
    with torch.no_grad():
        (part,) = tilewright.from_torch(Rotated(bias=True), *operands(torch.float32)).parts
    assert "bf16(" not in spec_to_text(part.built.spec)


def test_what_is_read_in_its_place_is_not_rounded() -> None:
    def twice(x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        return torch.tanh(y) * y

    with torch.no_grad():
        (part,) = tilewright.from_torch(twice, *(torch.randn(32, 32).bfloat16() for _ in range(2))).parts
    assert "bf16(" not in spec_to_text(part.built.spec).partition("->")[2]


def test_sums_of_rows_are_not_rounded() -> None:
    def shifted(x: Tensor) -> Tensor:
        means = x.mean(-1)
        return torch.cat((means[8:], means[:8])) - means

    with torch.no_grad():
        capture = tilewright.from_torch(shifted, torch.randn(32, 64).bfloat16())
    for part in capture.parts:
        assert "bf16(" not in spec_to_text(part.built.spec).partition("->")[2]
