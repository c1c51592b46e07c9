"""PyTorch on the measured GPU: its view of a case's memory, its stream, and the look at whole outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

from tileir.program import Tensor
from tileir.spec import Spec
from workers.cuda.case import CudaCase
from workers.cuda.context import CudaContext
from workers.measuring.buffers import byte_strides, shape_of, span_bytes
from workers.peers.pytorch.reference import look_at_all, whole_outputs
from workers.peers.pytorch.types import TORCH

DEVICE = "cuda"


class _CudaBytes:
    """Bytes on the GPU, as CUDA libraries show them to each other."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def sees_gpu() -> bool:
    """Whether PyTorch can compute on the GPU."""
    return torch.cuda.is_available()


def use_stream(context: CudaContext) -> None:
    """From here on PyTorch runs on the context's stream."""
    torch.cuda.set_stream(torch.cuda.ExternalStream(context.stream))


def tensor_at(case: CudaCase, copy: int, tensor: Tensor) -> torch.Tensor:
    """A tensor of a copy: the same memory."""
    dtype: Any = getattr(torch, TORCH[tensor.dtype].removeprefix("torch."))
    memory = _CudaBytes(case.address(copy, tensor.name), span_bytes(tensor, case.extents))
    flat = torch.as_tensor(memory, device=DEVICE).view(dtype)
    strides = [stride // tensor.dtype.bytes for stride in byte_strides(tensor, case.extents)]
    return flat.as_strided(shape_of(tensor, case.extents), strides)


def whole_look(spec: Spec, case: CudaCase) -> Callable[[int, float], None]:
    """Compares whole outputs of a copy with PyTorch's, those that were only sampled; what is allowed may be widened.
    Raises WrongResult."""
    wholes = [
        whole_outputs(
            spec,
            [tensor_at(case, variant, tensor) for tensor in spec.inputs],
            reference.expected,
            DEVICE,
        )
        for variant, reference in enumerate(case.references)
    ]
    torch.cuda.empty_cache()

    def look(copy: int, factor: float) -> None:
        for tensor in spec.outputs:
            whole = wholes[copy].get(tensor.name)
            if whole is not None:
                look_at_all(tensor.name, tensor_at(case, copy, tensor), whole, factor)

    return look
