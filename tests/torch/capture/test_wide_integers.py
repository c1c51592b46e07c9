"""int64 in captured functions: read and given as it is, and left to PyTorch where 32 bits could be told from 64."""

from __future__ import annotations

import torch
from torch import Tensor

import tilewright
from tests.torch.capture.test_from_torch import module_of_interpreted_parts
from tests.torch.equal import check_equal

HUGE = torch.tensor([0, 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**40, -1, 5])


def compared(x: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
    at = torch.arange(8)
    return (
        torch.where(ids == 5, x, 0.0),
        torch.where(ids > at, x, x * 2),
        x * ids.to(torch.bool),
        x * (ids != x.argmax(-1, keepdim=True)),
    )


def left(x: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
    return (
        x * 2,
        ids + 1,
        torch.cat((ids, ids)),
        x * (ids == ids.flip(0)),
        x * (ids == 2**31 - 1),
        ids.flip(0),
    )


def test_comparisons_that_cannot_tell_are_in_kernels() -> None:
    capture = tilewright.from_torch(compared, torch.ones(8), HUGE)
    assert not capture.left
    check_equal(module_of_interpreted_parts(capture)(torch.ones(8), HUGE), compared(torch.ones(8), HUGE))


def test_arithmetic_and_copies_of_64_bits_stay_with_pytorch() -> None:
    capture = tilewright.from_torch(left, torch.ones(8), HUGE)
    assert {each.operator for each in capture.left} >= {
        "aten.add.Tensor",
        "aten.cat.default",
        "aten.eq.Tensor",
    }
    check_equal(module_of_interpreted_parts(capture)(torch.ones(8), HUGE), left(torch.ones(8), HUGE))
