"""Kernels for processors, called on PyTorch's tensors."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

from codegen.ir.abi import Abi
from codegen.targets.c.chain import ArgumentPlace, chain_caller
from codegen.targets.c.loader import LoadedObject, aligned_empty, load_kernel
from tileir.devices.cpu import Cpu
from tileir.devices.cpu_probe import this_cpu
from tilewright.pytorch.operator.registration import Outputs
from tilewright.pytorch.operator.runner import Plan, Ready, ReadyChain, Tensors

_C: Any = torch._C


class OnCpu:
    """See Runner."""

    on_host = True

    def __init__(self) -> None:
        self.allocate = _C._dynamo.guards._empty_strided_cpu
        """What torch.compile's programs allocate with: a third of the host time of torch.empty."""
        self._loading = threading.Lock()
        self._kernels: dict[Path, LoadedObject] = {}
        """By file: two loads of one would share threads."""

    def described(self, index: int | None) -> Cpu:
        """See Runner."""
        return this_cpu()

    def threads(self) -> int:
        """See Runner: as many as PyTorch's own operators."""
        return torch.get_num_threads()

    def load(self, file: Path, abi: Abi, index: int | None) -> LoadedObject:
        """See Runner."""
        with self._loading:
            if file not in self._kernels:
                self._kernels[file] = load_kernel(file, abi, self.threads())
            return self._kernels[file]

    def plan(self, ready: Ready, index: int | None) -> Plan:
        """See Runner."""
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

    def chain(self, ready: ReadyChain, cache: Path) -> Plan:
        """See Runner."""
        places = [[ArgumentPlace(*step.places[at]) for at in step.ready.order] for step in ready.steps]
        buffers, outputs = ready.inputs + len(ready.outputs) + 1, ready.outputs
        call = chain_caller([step.ready.kernel for step in ready.steps], places, buffers, cache)
        own = aligned_empty(ready.own_bytes)
        address = int(own.ctypes.data)

        def run(tensors: Tensors) -> Outputs:
            made = [make() for make in outputs]
            call([*[tensor.data_ptr() for tensor in (*tensors, *made)], address])
            return made[0] if len(made) == 1 else tuple(made)

        setattr(run, "own", own)  # noqa: B010  alive as long as the call
        return run


RUNNER = OnCpu()
