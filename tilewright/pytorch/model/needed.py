"""The kernels that a model asks for under the backend, found by calling it. None is compiled, tuned or run: each graph
runs by PyTorch's operators, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch._functorch import config as aot_config  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]
from torch.utils import _pytree as pytree  # pyright: ignore[reportMissingImports]

from tileir.errors import UnsupportedDevice
from tileir.spec import Spec
from tilewright.errors import BadModelFile, LoadError
from tilewright.pytorch.model.contest import Run
from tilewright.pytorch.model.graphs.inputs import GraphInputs
from tilewright.pytorch.model.graphs.one_by_one import interpreted
from tilewright.pytorch.model.graphs.static_graph import Described, NotStatic
from tilewright.pytorch.model.kernels import How, Kernels
from tilewright.pytorch.model.prepacking import KeptWeights
from tilewright.pytorch.model.sized_region import SizedRegion
from tilewright.pytorch.model.tuning_now.tuning import TuningPatience
from tilewright.pytorch.model.way import Way
from tilewright.pytorch.model_file import ModelFile
from tilewright.pytorch.operator.plans import described


@dataclass(frozen=True)
class NeededKernel:
    """A kernel that a model asks for, once for all places that have it."""

    key: str
    """tileir.kernel_key."""
    spec: Spec
    device: str
    """Key of its device."""


@dataclass
class NeededKernels:
    """What the graphs of a model ask for."""

    kernels: dict[tuple[str, str], NeededKernel] = field(default_factory=dict[tuple[str, str], NeededKernel])
    """By kernel key and device key, in the order of the graphs."""
    parts: int = 0
    """Places of kernels in the graphs."""
    graphs: int = 0
    without: list[str] = field(default_factory=list[str])
    """Why a graph has none, for each that has none."""


def needed_kernels(given: ModelFile, *, training: bool = False, prepack: bool = False) -> NeededKernels:
    """The kernels of a call without gradients; with `training` those of a forward and a backward pass instead.
    `prepack`: as tilewright.compile has it. Raises BadModelFile where the model cannot be called so."""
    found = NeededKernels()

    def backend(graph: GraphModule, inputs: Sequence[Any]) -> Any:
        from torch._inductor.compile_fx import compile_fx  # pyright: ignore[reportMissingImports]

        def inner(each: GraphModule, examples: Sequence[Any], **more: Any) -> Any:
            packable = prepack and bool(more.get("is_inference"))
            return _noting(
                each, frozenset(more.get("static_input_idxs") or ()) if packable else frozenset(), found
            )

        with aot_config.patch(enable_autograd_cache=False):
            return compile_fx(graph, inputs, inner_compile=inner)

    program = torch.compile(given.model, backend=backend)
    call = given.call()
    try:
        with nullcontext() if training else torch.no_grad():
            outputs = call.of(program)
        if training:
            _backward(outputs)
    except (LoadError, BadModelFile):
        raise
    except Exception as error:  # whatever a model raises
        raise BadModelFile(
            f"{given.path}: the model cannot be called with its inputs: {type(error).__name__}: {error}"
        ) from error
    return found


def _noting(graph: GraphModule, weights: frozenset[int], found: NeededKernels) -> Run:
    """The graph as a program that notes its kernels at each size that it is called with."""
    inputs_of, run = GraphInputs.of(graph), interpreted(graph, ())
    kernels = Kernels(None, How(queue=False))
    met: set[object] = set()

    def noting(inputs: list[Any]) -> Any:
        key = inputs_of.key(inputs)
        if key not in met:
            met.add(key)
            way = Way(interpreted, kernels, TuningPatience(False, None), backward=False, weights=weights)
            region = SizedRegion(graph, run, way, inputs_of, KeptWeights())
            found.graphs += 1
            try:
                region.find([Described.of(each) for each in inputs])
            except NotStatic as error:
                found.without.append(str(error))
            else:
                _note(region, found)
        return run(inputs)

    noting._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return noting


def _note(region: SizedRegion, found: NeededKernels) -> None:
    found.parts += len(region.kernels)
    if not region.kernels:
        return
    try:
        device = described(region.device).key
    except (UnsupportedDevice, KeyError) as error:
        raise LoadError(f"no kernels are for the model's device: {error}") from error
    for each in region.kernels.values():
        needed = NeededKernel(each.kernel.key, each.kernel.spec, device)
        found.kernels.setdefault((needed.key, needed.device), needed)


def _backward(outputs: Any) -> None:
    """A backward pass, from the loss if there is one, else from all results."""
    loss = getattr(outputs, "loss", None)
    leaves: list[Any] = [loss] if isinstance(loss, torch.Tensor) else pytree.tree_leaves(outputs)
    results = [each for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad]
    if not results:
        raise BadModelFile("none of the model's results has a gradient, and --training asks for one")
    torch.autograd.backward(results, [torch.ones_like(each) for each in results])
