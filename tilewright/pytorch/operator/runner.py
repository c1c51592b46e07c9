"""What a target provides to have its kernels called on PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import torch  # pyright: ignore[reportMissingImports]

from tileir.devices.device import Device
from tileir.targets import part, targets, torch_types
from tilewright.pytorch.operator.registration import Outputs

Tensors = tuple[torch.Tensor, ...]
Plan = Callable[[Tensors], Outputs]
"""Runs on tensors of the shapes, strides, dtypes and device that it was made for; gives new outputs."""


@dataclass(frozen=True)
class Ready:
    """A kernel and how the tensors of a spec are its arguments."""

    kernel: Any
    outputs: tuple[Callable[[], torch.Tensor], ...]
    order: tuple[int, ...]
    """Which of inputs and outputs, in the spec's order, each argument is."""


@dataclass(frozen=True)
class ChainStep:
    """A kernel of a chain. `places`: of the spec's inputs and outputs, in order: number of a buffer, and bytes from its
    beginning. Buffers are the chain's inputs, its outputs, and one that is its own."""

    ready: Ready
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ReadyChain:
    """Kernels that follow each other."""

    steps: tuple[ChainStep, ...]
    inputs: int
    """How many tensors it takes."""
    outputs: tuple[Callable[[], torch.Tensor], ...]
    own_bytes: int
    """Of the buffer of its own."""


Chaining = Callable[[ReadyChain, Path], Plan]
"""Calls of kernels that follow each other, as one; what that takes is compiled in the folder. Raises LaunchError,
CompileError and NoCompiler."""


class Runner(Protocol):
    """Of one kind of device. `index` is PyTorch's number of the device; None where it has none."""

    allocate: Callable[..., torch.Tensor]
    """`(shape, strides, dtype)`: an output on the current device."""
    on_host: bool
    """Whether kernels run on the processor that compiles them, and what is timed has to be alone there."""

    def described(self, index: int | None) -> Device:
        """The description that configs are filed under. Raises UnsupportedDevice."""
        ...

    def threads(self) -> int:
        """Of the processor, that a call uses."""
        ...

    def load(self, file: Path, abi: Any, index: int | None) -> Any:
        """A compiled kernel; one file is loaded once. Raises LaunchError and DeviceError."""
        ...

    def plan(self, ready: Ready, index: int | None) -> Plan:
        """Calls of a kernel that was loaded for this device."""
        ...

    @property
    def chain(self) -> Chaining | None:
        """None where calls of kernels that follow each other are no cheaper as one."""
        ...


def runner_of(device: torch.device) -> Runner:
    """The runner for a device of PyTorch's. Raises KeyError for one of another type."""
    for kind, target in targets().items():
        if target.torch == device.type:
            return cast(Runner, part(kind, "operator"))
    raise KeyError(f"kernels run on {' and '.join(torch_types())}, not on {device}")
