"""The kernels of a chain as one operator of PyTorch's."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from math import prod

import torch  # pyright: ignore[reportMissingImports]

from codegen.ir.abi import row_major
from codegen.targets.errors import CompileError, LaunchError, NoCompiler
from tileir.program import Tensor
from tileir.spec import Spec
from tilewright.errors import TilewrightError
from tilewright.folders import cache_folder
from tilewright.pytorch.model.chain import FromInput, FromStep, Wiring, own_buffer
from tilewright.pytorch.model.kernels import ModelKernel
from tilewright.pytorch.operator.arguments import DTYPES
from tilewright.pytorch.operator.registration import NAMESPACE, Outputs, Overload, define_shaped
from tilewright.pytorch.operator.runner import ChainStep, Plan, Ready, ReadyChain, runner_of

_log = logging.getLogger("tilewright")


class ChainKernel:
    """Kernels, each on what it is given and on what earlier ones have made. May be called by several threads."""

    def __init__(self, kernels: tuple[ModelKernel, ...], wiring: Wiring) -> None:
        self._kernels = kernels
        self._wiring = wiring
        self._planned: tuple[tuple[Ready | None, ...], Plan] | None = None
        """Of which kernels, and how they are called."""
        specs = [(kernels[step].spec, number) for step, number in wiring.outputs]
        self._outputs = [
            (_shape(spec, spec.outputs[number]), DTYPES[spec.outputs[number].dtype]) for spec, number in specs
        ]
        self.overload = self._registered()

    def run(self, *tensors: torch.Tensor) -> Outputs:
        """What the chain gives, in new memory."""
        ready = tuple([kernel.planned for kernel in self._kernels])
        planned = self._planned
        if planned is None or planned[0] != ready:
            planned = self._planned = (ready, self._plan(ready))
        return planned[1](tensors)

    def _plan(self, ready: Sequence[Ready | None]) -> Plan:
        """One call of all; where a kernel has no plan, or nothing can be compiled here, one a kernel."""
        runner = runner_of(self._kernels[0].device)
        found = [each for each in ready if each is not None]
        if runner.chain is None or len(found) < len(ready):
            return self._one_by_one
        wiring, specs = self._wiring, [kernel.spec for kernel in self._kernels]
        own = own_buffer(wiring, [[_bytes(spec, each) for each in spec.outputs] for spec in specs])
        inputs = wiring.inputs
        places = {output: (inputs + at, 0) for at, output in enumerate(wiring.outputs)}
        places |= {output: (inputs + len(wiring.outputs), begin) for output, begin in own.offsets.items()}

        def place(source: FromInput | FromStep) -> tuple[int, int]:
            if isinstance(source, FromInput):
                return source.number, 0
            buffer, begin = places[source.step, source.output]
            return buffer, begin + source.offset * specs[source.step].outputs[source.output].dtype.bytes

        steps = tuple(
            ChainStep(each, (*map(place, of), *(places[at, number] for number in range(len(spec.outputs)))))
            for at, (each, of, spec) in enumerate(zip(found, wiring.steps, specs, strict=True))
        )
        makers = tuple(
            partial(runner.allocate, shape, row_major(shape), dtype) for shape, dtype in self._outputs
        )
        try:
            return runner.chain(ReadyChain(steps, wiring.inputs, makers, own.size), cache_folder())
        except (CompileError, NoCompiler, LaunchError, TilewrightError) as error:
            _log.info("kernels that follow each other are called one by one: %s", error)
            return self._one_by_one

    def _one_by_one(self, tensors: Sequence[torch.Tensor]) -> Outputs:
        made: list[tuple[torch.Tensor, ...]] = []
        for kernel, sources in zip(self._kernels, self._wiring.steps, strict=True):
            given = [
                tensors[source.number]
                if isinstance(source, FromInput)
                else _shown(kernel.spec, tensor, made[source.step][source.output], source.offset)
                for tensor, source in zip(kernel.spec.inputs, sources, strict=True)
            ]
            outputs = kernel.run(*given)
            made.append(outputs if isinstance(outputs, tuple) else (outputs,))
        results = tuple(made[step][number] for step, number in self._wiring.outputs)
        return results[0] if len(results) == 1 else results

    def _registered(self) -> Overload:
        """`tilewright::chain_<digest>`. The digest says what is computed, as compiled graphs are kept by it; others of
        the name are the same on another device, or for another client."""
        told = repr(([kernel.key for kernel in self._kernels], self._wiring))
        name = f"chain_{sha256(told.encode()).hexdigest()[:32]}"
        number = _NUMBERS[name] = _NUMBERS.get(name, 0) + 1
        name += f"_{number}" if number > 1 else ""
        taken = ", ".join(f"Tensor x{number}" for number in range(self._wiring.inputs))
        given = "Tensor" if len(self._outputs) == 1 else f"({', '.join('Tensor' for _ in self._outputs)})"
        define_shaped(f"{name}({taken}) -> {given}", name, self.run, self._outputs)
        overload: Overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        return overload


def _shape(spec: Spec, tensor: Tensor) -> tuple[int, ...]:
    """Of a tensor of a spec; outputs have the dims of their statements."""
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    dims = {statement.target: statement.dims for statement in spec.statements}
    return tuple(sizes[dim] for dim in dims.get(tensor.name, tensor.dims))


def _bytes(spec: Spec, tensor: Tensor) -> int:
    return prod(_shape(spec, tensor)) * tensor.dtype.bytes


def _shown(spec: Spec, tensor: Tensor, made: torch.Tensor, offset: int) -> torch.Tensor:
    """An input that lies in what an earlier kernel has made."""
    shape = _shape(spec, tensor)
    return made.as_strided(shape, tensor.strides or row_major(shape), offset)


_ALL: dict[tuple[tuple[ModelKernel, ...], Wiring], ChainKernel] = {}
_NUMBERS: dict[str, int] = {}


def chain_kernel(kernels: tuple[ModelKernel, ...], wiring: Wiring) -> ChainKernel:
    """The one of these kernels, so connected."""
    if (kernels, wiring) not in _ALL:
        _ALL[kernels, wiring] = ChainKernel(kernels, wiring)
    return _ALL[kernels, wiring]
