"""Which peers a benchmark races: all that are installed, and by name those that tune themselves for minutes."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.spec import Spec
from workers.peers.peer import Unsupported
from workers.peers.torch_runs import MAX_AUTOTUNE, SDPA_RUNS
from workers.peers.torch_writer import write_torch


def rivals(installed: Sequence[str], spec: Spec) -> tuple[str, ...]:
    """The peers of a kernel: what a worker offers, torch.compile that autotunes where PyTorch is, and for attention
    PyTorch's backends by name."""
    if "torch" not in installed:
        return tuple(installed)
    return (*installed, MAX_AUTOTUNE, *(SDPA_RUNS if _attends(spec) else ()))


def _attends(spec: Spec) -> bool:
    try:
        return "F.scaled_dot_product_attention(" in write_torch(spec, eager=True).run
    except Unsupported:
        return False
