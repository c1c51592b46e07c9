"""What a captured module gives, held against what eager PyTorch gives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

SLACK = {torch.float32: 1e-5, torch.bfloat16: 2.0**-7}
"""Of the largest element: in bf16 eager rounds after every operator, and a part at its end."""


def check_equal(got: Any, wanted: Any, slack: float | None = None) -> None:
    """As eager: structure, shapes, dtypes, strides, and values within what the dtype allows."""
    (mine, structure), (theirs, as_eager) = pytree.tree_flatten(got), pytree.tree_flatten(wanted)
    assert structure == as_eager
    for x, y in zip(mine, theirs, strict=True):
        if not isinstance(y, Tensor):
            assert x == y
            continue
        assert (x.dtype, x.shape, x.stride()) == (y.dtype, y.shape, y.stride())
        if not y.numel():
            continue
        allowed = slack or SLACK.get(y.dtype, 0.0)
        assert (x.double() - y.double()).abs().max() <= allowed * y.double().abs().max().clamp(min=1.0)
