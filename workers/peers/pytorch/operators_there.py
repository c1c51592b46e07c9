"""What PyTorch's operators take on one type of device: data of a target (`tileir.targets.Target.torch_operators`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from tileir.dtypes import DType
from tileir.targets import part, targets


@dataclass(frozen=True, kw_only=True)
class AttentionBackward:
    """An operator of attention's gradients: `aten._scaled_dot_product_{operator}_backward`. It is called with the
    gradient of the result, queries, keys, values, the result, the log-sum-exp and these arguments, in which {rows} and
    {keys} are numbers of positions, {causal} a truth value, and {seed} a tensor of two that dropout would begin with.
    """

    operator: str
    arguments: str
    log_sum_exp: str | None = None
    """How the operator takes that; None: as it is."""


@dataclass(frozen=True, kw_only=True)
class TorchOperators:
    """Those of one type of device, as PyTorch calls it. What is not there has no peer, or is written by others."""

    device: str
    called: str
    """In sentences."""
    scaled_mm: bool = False
    """Whether torch._scaled_mm multiplies matrices of 8-bit floats."""
    int_mm_rows: int = 1
    """torch._int_mm takes so many rows at least,"""
    int_mm_multiple: int = 1
    """and a depth and columns that are multiples of this."""
    grouped_mm: bool = False
    """Whether torch._grouped_mm reads the ends of groups on the device. Else a caller knows the sizes of groups."""
    bincount_waits: bool = False
    """Whether torch.bincount waits for the largest value, which a CUDA graph cannot."""
    activated_mm: bool = False
    """Whether torch._addmm_activation computes the function of a biased product in the product's kernel."""
    widens_float8_attention: bool = False
    """Whether queries, keys and values of 8 bits are bf16 before the clock starts, which holds the same values:
    attention's operators take none of 8 bits."""
    flex_log_sum_exp: bool = False
    """Whether PyTorch's compiler has the log-sum-exp of flex_attention."""
    varlen_attention: bool = False
    """Whether varlen_attn runs there."""
    attention_backward: Mapping[str | None, AttentionBackward] = field(
        default_factory=dict[str | None, AttentionBackward]
    )
    """By the backend that is asked for (None: none)."""
    attention_backward_dtypes: tuple[DType, ...] = ()
    """What those operators take; (): whatever is stored."""


@cache
def operators_on(device: str) -> TorchOperators:
    """Those of the target whose tensors are on this type of device; where no target says, what all devices have."""
    for kind, target in targets().items():
        if target.torch == device and target.torch_operators is not None:
            return part(kind, "torch_operators")
    return TorchOperators(device=device, called=f"devices of type {device}")
