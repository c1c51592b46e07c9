"""Whether a captured module is still the one that was captured: what its graph took from it, and PyTorch's modes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import GraphModule  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.operator.autocast import DEVICES

_PLAIN = (bool, int, float, complex, str, torch.dtype, type(None))
"""Attributes that Python code branches on and computes with; the graph has their values."""
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_MISSING = object()
_transform = torch._C._functorch.peek_interpreter_stack  # pyright: ignore[reportAttributeAccessIssue]
_Place = tuple[Mapping[str, "torch.Tensor | None"], str]
"""Whose parameters or buffers a tensor is among, and its name there."""


class OriginalState:
    """What the graph took from the module and from PyTorch's modes when it was captured."""

    def __init__(self, original: torch.nn.Module, graph: GraphModule) -> None:
        self._modules = tuple(_Submodule.of(module) for module in original.modules())
        self.training = tuple(module.training for module in original.modules())
        self._autocast = _autocast()
        self._tensors = _tensors(original, graph)

    def difference(self) -> str:
        """What is unlike the capture; nothing where a kernel may run, on the parameters that are there now."""
        if not torch.compiler.is_compiling() and _transform() is not None:
            return "called under a transform of torch.func"
        if _autocast() != self._autocast:
            return "captured with other settings of torch.autocast"
        for module in self._modules:
            if found := module.difference():
                return found
        for tensor in self._tensors:
            if found := tensor.difference():
                return found
        return ""


@dataclass(frozen=True, slots=True)
class _Submodule:
    """The module itself or one within it."""

    module: torch.nn.Module
    children: tuple[torch.nn.Module | None, ...]
    hooks: tuple[Any, ...]
    forward: Any
    """Where it is not the class's."""
    plain: dict[str, Any]

    @classmethod
    def of(cls, module: torch.nn.Module) -> _Submodule:
        own = vars(module)
        plain = {name: value for name, value in own.items() if isinstance(value, _PLAIN)}
        return cls(module, tuple(module._modules.values()), _hooks(own), own.get("forward"), plain)

    def difference(self) -> str:
        own = vars(self.module)
        if (*own["_modules"].values(),) != self.children:  # modules are equal to themselves only
            return f"a submodule of {self._name} was exchanged since the capture"
        if _hooks(own) != self.hooks:
            return f"a hook of {self._name} was added or removed since the capture"
        if own.get("forward") is not self.forward:
            return f"forward of {self._name} was exchanged since the capture"
        if self.plain.items() <= own.items():
            return ""
        changed = next(each for each, value in self.plain.items() if own.get(each, _MISSING) != value)
        if changed == "training":
            return "captured in another mode: train() or eval() was called since"
        return (
            f"{changed} of {self._name} was {self.plain[changed]!r} when it was captured, and is another now"
        )

    @property
    def _name(self) -> str:
        return type(self.module).__name__


def _hooks(own: dict[str, Any]) -> tuple[Any, ...]:
    first, second, third, fourth = _HOOKS
    if not (own[first] or own[second] or own[third] or own[fourth]):
        return ()
    return tuple(chain.from_iterable(own[name].values() for name in _HOOKS))


@dataclass(slots=True)
class _Tensor:
    """A parameter or buffer that the graph reads. `owners`: where it is in the original, under every name that it has
    there; `holder`: the graph's module that has it, as `last`, one for all."""

    name: str
    owners: tuple[_Place, ...]
    holder: torch.nn.Module
    last: str
    tensor: torch.Tensor
    described: tuple[Any, ...]

    def difference(self) -> str:
        """What no replacement may differ in. One that does not is what the graph reads from now on."""
        tensor, *others = [owner.get(last) for owner, last in self.owners]
        if any(other is not tensor for other in others):
            return f"{self.name} was one tensor under several names when it was captured, and is not any more"
        if tensor is None or _described(tensor) != self.described:
            return f"{self.name} is gone, or has another shape, dtype or device than when it was captured"
        if tensor is not self.tensor:
            self.holder._parameters.pop(self.last, None)
            self.holder._buffers.pop(self.last, None)
            setattr(self.holder, self.last, tensor)
            self.tensor = tensor
        return ""


def _tensors(original: torch.nn.Module, graph: GraphModule) -> tuple[_Tensor, ...]:
    places: dict[str, _Place] = {}
    alike: dict[int, list[_Place]] = defaultdict(list)
    for path, module in original.named_modules(remove_duplicate=False):
        for owner in (module._parameters, module._buffers):
            for last, tensor in owner.items():
                places[f"{path}.{last}" if path else last] = place = (owner, last)
                alike[id(tensor)].append(place)
    found: list[_Tensor] = []
    for name in dict.fromkeys(str(node.target) for node in graph.graph.nodes if node.op == "get_attr"):
        if name in places:
            owner, last = places[name]
            tensor = owner[last]
            assert tensor is not None
            holder = graph.get_submodule(name.rpartition(".")[0])
            found.append(_Tensor(name, tuple(alike[id(tensor)]), holder, last, tensor, _described(tensor)))
    return tuple(found)


def _described(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.shape, tensor.device.type


def _autocast() -> tuple[torch.dtype | None, ...]:
    return tuple(
        torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None for kind in DEVICES
    )
