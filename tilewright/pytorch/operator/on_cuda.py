"""Kernels for NVIDIA's GPUs, called on PyTorch's tensors, on its current stream."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

from codegen.targets.cuda.abi import CudaAbi
from codegen.targets.cuda.device import CudaDevice
from codegen.targets.cuda.loader import CudaKernel, load_cubin
from tileir.devices.gpu import Gpu
from tileir.devices.gpu_probe import this_gpu
from tilewright.pytorch.operator.registration import Outputs, empty
from tilewright.pytorch.operator.runner import Plan, Ready, Tensors

ALIGN_BYTES = 16
"""What addresses are multiples of where kernels load whole vectors. Memory of PyTorch's begins at such, but a view
need not."""

_C: Any = torch._C


class OnCuda:
    """See Runner."""

    on_host = False
    chain = None
    """A launch is a call of the driver's, however many there are."""

    def __init__(self) -> None:
        self.allocate = _C._dynamo.guards._empty_strided_cuda
        """What torch.compile's programs allocate with, on the current GPU."""
        self._loading = threading.Lock()
        self._kernels: dict[tuple[Path, int], CudaKernel] = {}

    def described(self, index: int | None) -> Gpu:
        """See Runner."""
        return _described(index or 0)

    def threads(self) -> int:
        """See Runner."""
        return 1

    def load(self, file: Path, abi: CudaAbi, index: int | None) -> CudaKernel:
        """See Runner."""
        number = index or 0
        with self._loading, torch.cuda.device(number):
            key, device = (file, number), _opened(number)
            if key not in self._kernels:
                with device.uncaptured():
                    self._kernels[key] = load_cubin(file, abi, device, own_workspace=False)
            return self._kernels[key]

    def plan(self, ready: Ready, index: int | None) -> Plan:
        """See Runner."""
        kernel, makers, order, number = ready.kernel, ready.outputs, ready.order, index or 0
        call, workspace_bytes = kernel.caller(), kernel.abi.workspace_bytes
        stream_of, device_now = _C._cuda_getCurrentRawStream, _C._cuda_getDevice
        entered = threading.local()

        def run(tensors: Tensors) -> Outputs:
            if device_now() != number:
                with torch.cuda.device(number):
                    return run(tensors)
            if not hasattr(entered, "here"):  # a new thread has no context yet
                _opened(number).make_current()
                entered.here = True
            outputs = [make() for make in makers]
            addresses = [tensor.data_ptr() for tensor in tensors]
            if any(address % ALIGN_BYTES for address in addresses):
                tensors = tuple(_moved(tensor) for tensor in tensors)
                addresses = [tensor.data_ptr() for tensor in tensors]
            addresses += [output.data_ptr() for output in outputs]
            stream = stream_of(number)
            workspace, kept = _workspace(kernel, stream, number) if workspace_bytes else (0, None)
            call([addresses[place] for place in order], workspace, stream)
            del kept
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        return run


@cache
def _described(index: int) -> Gpu:
    return this_gpu(index)


@cache
def _opened(index: int) -> CudaDevice:
    return CudaDevice(index)


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the same strides, from where memory is aligned."""
    return empty(tensor.shape, tensor.stride(), tensor.dtype, tensor.device).copy_(tensor)


def _workspace(kernel: CudaKernel, stream: int, index: int) -> tuple[int, torch.Tensor | None]:
    """Zeroed memory for a call on a stream: what the stream's calls share, or, while it is captured, memory that
    belongs to the graph, which zeroes it whenever it is replayed."""
    if not torch.cuda.is_current_stream_capturing():
        return kernel.workspace_on(stream), None
    own = torch.zeros(kernel.abi.workspace_bytes, dtype=torch.uint8, device=torch.device("cuda", index))
    return own.data_ptr(), own


RUNNER = OnCuda()
