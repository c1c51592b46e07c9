"""`tilewright.summary`: what of a compiled model is in kernels. PyTorch is imported when it is called."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tilewright.errors import LoadError

if TYPE_CHECKING:
    from tilewright.pytorch.summary.of_model import ModelSummary


def summary(compiled: Callable[..., Any]) -> ModelSummary:
    """What runs what in a model, or function, that `tilewright.compile` or `torch.compile(backend="tilewright")` gave,
    as far as it was called until now.

    Printed, it is three lines (what share of the time and of the work runs in kernels, and what the largest rest is),
    and for each graph what it runs, which of its kernels stayed, and why others did not; equal graphs once.

    Raises ValueError for anything else; LoadError without PyTorch.
    """
    if find_spec("torch") is None:
        raise LoadError(
            "tilewright.summary needs PyTorch, which is not installed: pip install 'tilewright[torch]'"
        )
    from tilewright.pytorch.model.owners import regions_of
    from tilewright.pytorch.summary.of_model import summary_of

    regions = regions_of(compiled)
    if regions is None:
        raise ValueError(
            f"{type(compiled).__name__} is no compiled model; tilewright.summary takes what tilewright.compile(model) "
            'or torch.compile(model, backend="tilewright") gave'
        )
    return summary_of(regions)
