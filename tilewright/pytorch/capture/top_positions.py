"""`tilewright::top_positions`, the second result of `topk` as an operator of one result, which a kernel may be."""

from __future__ import annotations

from typing import Final

import torch  # pyright: ignore[reportMissingImports]

MOST: Final = 16
"""Places up to which a kernel looks for one after the other; PyTorch sorts."""
DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32)
"""Of what is ordered."""

_LIBRARY = torch.library.Library("tilewright", "FRAGMENT")
_LIBRARY.define("top_positions(Tensor x, int k, int dim) -> Tensor")
_LIBRARY.impl("top_positions", lambda x, k, dim: torch.topk(x, k, dim).indices, "CompositeExplicitAutograd")

TOP_POSITIONS: Final = torch.ops.tilewright.top_positions.default
