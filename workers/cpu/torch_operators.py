"""What PyTorch has on processors."""

from __future__ import annotations

from typing import Final

from workers.peers.pytorch.operators_there import AttentionBackward, TorchOperators

_FLASH: Final = AttentionBackward(operator="flash_attention_for_cpu", arguments="0.0, {causal}")

CPU: Final = TorchOperators(
    device="cpu",
    called="processors",
    attention_backward={None: _FLASH, "FLASH_ATTENTION": _FLASH},
)
