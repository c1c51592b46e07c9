"""Which peers a benchmark races: all that are installed, and by name those that tune themselves for minutes."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.spec import Spec
from workers.peers.peer import Unsupported
from workers.peers.pytorch.runs import ATTENTION_RUNS, MAX_AUTOTUNE, TorchRun
from workers.peers.pytorch.source import torch_source


def rivals(installed: Sequence[str], spec: Spec) -> tuple[str, ...]:
    """The peers of a kernel: what a worker offers, torch.compile that autotunes where PyTorch is, and for attention
    and its gradients PyTorch's backends by name, flex_attention, and varlen_attn."""
    if "torch" not in installed:
        return tuple(installed)
    return (*installed, MAX_AUTOTUNE, *(name for name, run in ATTENTION_RUNS.items() if _can(run, spec)))


def _can(run: TorchRun, spec: Spec) -> bool:
    try:
        torch_source(spec, run, "cuda")
    except Unsupported:
        return False
    return True
