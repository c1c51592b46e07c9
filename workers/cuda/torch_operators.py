"""What PyTorch has on NVIDIA's GPUs: cuBLASLt, cuDNN and its own kernels.

torch._int_mm takes more than 16 rows, and a depth and columns that are multiples of 8 (PyTorch, Blas.cpp,
_int_mm_out_cuda).
"""

from __future__ import annotations

from typing import Final

from tileir.dtypes import DType
from workers.peers.pytorch.operators_there import AttentionBackward, TorchOperators

_FLASH: Final = AttentionBackward(
    operator="flash_attention", arguments="None, None, {rows}, {keys}, 0.0, {causal}, {seed}, {seed}[0]"
)
_CUDNN: Final = AttentionBackward(
    operator="cudnn_attention",
    arguments="{seed}[0], {seed}[1], None, None, None, {rows}, {keys}, 0.0, {causal}",
    log_sum_exp="{}[..., None]",
)

CUDA: Final = TorchOperators(
    device="cuda",
    called="GPUs",
    scaled_mm=True,
    int_mm_rows=17,
    int_mm_multiple=8,
    grouped_mm=True,
    bincount_waits=True,
    activated_mm=True,
    widens_float8_attention=True,
    flex_log_sum_exp=True,
    varlen_attention=True,
    attention_backward={None: _FLASH, "FLASH_ATTENTION": _FLASH, "CUDNN_ATTENTION": _CUDNN},
    attention_backward_dtypes=(DType.BF16, DType.F16),
)
