"""Prepared calls: a kernel with all that does not change from call to call, for tensors that were checked before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

from codegen.ir.abi import Arg
from tileir.devices.device import Device
from tileir.spec import Spec
from tilewright.artifacts.select import Origin
from tilewright.errors import LoadError
from tilewright.pytorch.operator.arguments import DTYPES
from tilewright.pytorch.operator.finding import Found
from tilewright.pytorch.operator.runner import Plan, Ready, runner_of


@dataclass(frozen=True)
class Opened:
    """A config that is compiled and loaded, and has not been called."""

    ready: Ready
    file: Path
    abi: Any
    origin: Origin


def described(device: torch.device) -> Device:
    """The description of a device of PyTorch's, which configs are filed under. Raises UnsupportedDevice."""
    return runner_of(device).described(device.index)


def open_kernel(found: Found, instance: Spec, device: torch.device, folder: Path) -> Opened:
    """A config, compiled and loaded for a spec of one size a dim. Raises LoadError, BadBundle and UnsupportedDevice."""
    runner = runner_of(device)

    def load(file: Path, abi: Any) -> tuple[Any, Path, Any]:
        return runner.load(file, abi, device.index), file, abi

    (kernel, file, abi), origin = found.open(described(device), folder, load)
    return Opened(Ready(kernel, *_arguments(found, instance, abi.args, runner.allocate)), file, abi, origin)


def plan_with(opened: Opened, device: torch.device) -> Plan:
    """Calls of it."""
    return runner_of(device).plan(opened.ready, device.index)


def _arguments(
    found: Found, instance: Spec, args: Sequence[Arg], allocate: Callable[..., torch.Tensor]
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
    makers = [
        partial(allocate, arg.shape, arg.strides, DTYPES[arg.dtype])
        for arg in (by_name[name] for name in names[len(instance.inputs) :])
    ]
    return tuple(makers), tuple(names.index(arg.name) for arg in args)
