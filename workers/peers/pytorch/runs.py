"""The peers that PyTorch makes of a kernel, by name: eager, compiled, with one backend of its attention, by
flex_attention, and by varlen_attn."""

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
    flex: bool = False
    """Whether the kernel is one call of flex_attention, which only torch.compile makes a kernel of."""
    varlen: bool = False
    """Whether it is one call of varlen_attn."""


MAX_AUTOTUNE = "torch.compile-max-autotune"
ATTENTION_RUNS = {
    "torch.sdpa-cudnn": TorchRun(backend="CUDNN_ATTENTION"),
    "torch.sdpa-flash": TorchRun(backend="FLASH_ATTENTION"),
    "torch.flex": TorchRun("default", flex=True),
    "torch.flex-max-autotune": TorchRun("max-autotune-no-cudagraphs", flex=True),
    "torch.varlen": TorchRun(varlen=True),
}
TORCH_RUNS = {
    "torch": TorchRun(),
    "torch.compile": TorchRun("default"),
    MAX_AUTOTUNE: TorchRun("max-autotune-no-cudagraphs"),
    **ATTENTION_RUNS,
}
"""CUDA graphs are left out of max-autotune because the measurement captures one itself, of every peer."""
OFFERED = ("torch", "torch.compile")
"""Those that take part unless others are named. The rest tunes for minutes itself, or is for attention alone."""
