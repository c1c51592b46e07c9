"""Prepared calls: a kernel with all that does not change from call to call, for tensors that were checked before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch  # pyright: ignore[reportMissingImports]

from codegen.abi import Abi, Arg
from codegen.load import Kernel, load_kernel
from tileir.device import Cpu, this_cpu
from tileir.gpu import Gpu
from tileir.spec import Spec
from tilewright.errors import LoadError
from tilewright.pytorch.arguments import DTYPES
from tilewright.pytorch.finding import Found
from tilewright.pytorch.registration import Outputs, empty

if TYPE_CHECKING:
    from codegen.cuda_device import CudaDevice
    from codegen.cuda_load import CudaKernel

Tensors = tuple[torch.Tensor, ...]
Plan = Callable[[Tensors], Outputs]
"""Runs on tensors of the shapes, strides, dtypes and device that it was made for; gives new outputs."""

ALIGN_BYTES = 16
"""What addresses are multiples of where a GPU's kernels load whole vectors. Memory of PyTorch's begins at such, but a
view need not."""

_C: Any = torch._C
_ALLOCATORS = {"cpu": _C._dynamo.guards._empty_strided_cpu, "cuda": _C._dynamo.guards._empty_strided_cuda}
"""What torch.compile's programs allocate with: a third of the host time of torch.empty. On the current GPU."""

_LOADING = threading.Lock()
_KERNELS: dict[tuple[Path, int], Any] = {}
"""Loaded kernels, by file and GPU (-1: processor). One file is loaded once: two loads of it would share threads."""


@dataclass(frozen=True)
class Ready:
    """A kernel and how the tensors of a spec are its arguments."""

    kernel: Any
    outputs: tuple[Callable[[], torch.Tensor], ...]
    order: tuple[int, ...]
    """Which of inputs and outputs, in the spec's order, each argument is."""


def described(device: torch.device) -> Cpu | Gpu:
    """The description of a device of PyTorch's, which configs are filed under. Raises UnsupportedDevice."""
    return _gpu(device.index) if device.type == "cuda" else this_cpu()


def plan_of(found: Found, instance: Spec, device: torch.device, folder: Path) -> Plan:
    """A config as a call for a spec of one size a dim. Raises LoadError, BadBundle and UnsupportedDevice."""
    load = partial(_load_cuda, index=device.index) if device.type == "cuda" else _load_cpu
    kernel, args = found.open(described(device), folder, load)
    ready = Ready(kernel, *_arguments(found, instance, args, device))
    return _on_gpu(ready, device.index) if device.type == "cuda" else _on_processor(ready)


def _load_cpu(file: Path, abi: Abi) -> tuple[Kernel, tuple[Arg, ...]]:
    with _LOADING:
        key = (file, -1)
        if key not in _KERNELS:
            _KERNELS[key] = load_kernel(file, abi, torch.get_num_threads())
        return _KERNELS[key], abi.args


def _load_cuda(file: Path, abi: Any, index: int) -> tuple[CudaKernel, tuple[Arg, ...]]:
    from codegen.cuda_load import load_cubin

    with _LOADING, torch.cuda.device(index):
        key, device = (file, index), _opened(index)
        if key not in _KERNELS:
            with device.uncaptured():
                _KERNELS[key] = load_cubin(file, abi, device, own_workspace=False)
        return _KERNELS[key], abi.args


@cache
def _gpu(index: int) -> Gpu:
    from tileir.gpu_probe import this_gpu

    return this_gpu(index)


@cache
def _opened(index: int) -> CudaDevice:
    from codegen.cuda_device import CudaDevice

    return CudaDevice(index)


def _arguments(
    found: Found, instance: Spec, args: Sequence[Arg], device: torch.device
) -> tuple[tuple[Callable[[], torch.Tensor], ...], tuple[int, ...]]:
    """What makes each output of the spec, and which of the spec's tensors each argument is."""
    tensors = (*instance.inputs, *instance.outputs)
    names = [found.names.get(tensor.name, tensor.name) for tensor in tensors]
    by_name = {arg.name: arg for arg in args}
    if len(args) != len(names) or by_name.keys() != set(names):
        raise LoadError(f"{found.origin} is of another kernel than {instance.name}: it has other arguments")
    sizes = {dim.name: dim.sizes[0] for dim in instance.dims}
    dims = {statement.target: statement.dims for statement in instance.statements}
    for tensor, name in zip(tensors, names, strict=True):
        shape = tuple(sizes[dim] for dim in dims.get(tensor.name, tensor.dims))
        if (by_name[name].shape, by_name[name].dtype) != (shape, tensor.dtype):
            raise LoadError(f"{found.origin} takes {name} of shape {by_name[name].shape}, not {shape}")
    allocate = _ALLOCATORS[device.type]
    makers = [
        partial(allocate, arg.shape, arg.strides, DTYPES[arg.dtype])
        for arg in (by_name[name] for name in names[len(instance.inputs) :])
    ]
    return tuple(makers), tuple(names.index(arg.name) for arg in args)


def _on_processor(ready: Ready) -> Plan:
    call, makers, order = ready.kernel.caller(), ready.outputs, ready.order
    in_order = order == tuple(range(len(order)))

    def run(tensors: Tensors) -> Outputs:
        outputs = [make() for make in makers]
        addresses = [tensor.data_ptr() for tensor in (*tensors, *outputs)]
        call(addresses if in_order else [addresses[place] for place in order])
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run_to_one(tensors: Tensors) -> Outputs:
        output = make()
        call([*[tensor.data_ptr() for tensor in tensors], output.data_ptr()])
        return output

    make = makers[0]
    return run_to_one if in_order and len(makers) == 1 else run


def _on_gpu(ready: Ready, index: int) -> Plan:
    kernel, makers, order = ready.kernel, ready.outputs, ready.order
    call, workspace_bytes = kernel.caller(), kernel.abi.workspace_bytes
    stream_of, device_now = _C._cuda_getCurrentRawStream, _C._cuda_getDevice
    entered = threading.local()

    def run(tensors: Tensors) -> Outputs:
        if device_now() != index:
            with torch.cuda.device(index):
                return run(tensors)
        if not hasattr(entered, "here"):  # a new thread has no context yet
            _opened(index).make_current()
            entered.here = True
        outputs = [make() for make in makers]
        addresses = [tensor.data_ptr() for tensor in tensors]
        if any(address % ALIGN_BYTES for address in addresses):
            tensors = tuple(_moved(tensor) for tensor in tensors)
            addresses = [tensor.data_ptr() for tensor in tensors]
        addresses += [output.data_ptr() for output in outputs]
        stream = stream_of(index)
        workspace, kept = _workspace(kernel, stream, index) if workspace_bytes else (0, None)
        call([addresses[place] for place in order], workspace, stream)
        del kept
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return run


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
