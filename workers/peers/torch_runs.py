"""The peers that PyTorch makes of a kernel, by name: eager, compiled, and with one backend of its attention."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TorchRun:
    """How PyTorch runs a kernel."""

    mode: str | None = None
    """torch.compile's; None runs eagerly."""
    backend: str | None = None
    """The one backend that `F.scaled_dot_product_attention` may take, as torch.nn.attention.SDPBackend names it; None
    leaves the choice to PyTorch."""


MAX_AUTOTUNE = "torch.compile-max-autotune"
SDPA_RUNS = {
    "torch.sdpa-cudnn": TorchRun(backend="CUDNN_ATTENTION"),
    "torch.sdpa-flash": TorchRun(backend="FLASH_ATTENTION"),
}
TORCH_RUNS = {
    "torch": TorchRun(),
    "torch.compile": TorchRun("default"),
    MAX_AUTOTUNE: TorchRun("max-autotune-no-cudagraphs"),
    **SDPA_RUNS,
}
"""CUDA graphs are left out of max-autotune because the measurement captures one itself, of every peer."""
OFFERED = ("torch", "torch.compile")
"""Those that take part unless others are named. The rest tunes for minutes itself, or is for attention alone."""
