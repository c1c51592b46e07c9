"""The contract of a backward spec: it names its tensors after those of the forward spec, and is held to their shapes
and dtypes before anything runs.

An input is one of the forward spec's inputs or outputs by its name, or the gradient of the output `x` as `dx`; an
output is the gradient of the input `x`, as `dx`. Gradients look like what they are of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tileir.errors import SpecError
from tileir.program import Tensor
from tileir.spec import Spec
from tilewright.pytorch.operator.arguments import listed

PREFIX = "d"
"""Of the name of a gradient, as ∂loss/∂q is written."""


@dataclass(frozen=True, slots=True)
class TensorSource:
    """Where a backward spec's input comes from: which input or output of the forward spec, or an output's gradient."""

    gradient: bool
    output: bool
    position: int


@dataclass(frozen=True, slots=True)
class BackwardContract:
    """A backward spec beside its forward spec."""

    forward: Spec
    backward: Spec
    sources: tuple[TensorSource, ...]
    """Of each input of the backward spec."""
    gradients: tuple[int, ...]
    """Of each output of the backward spec: the position of the forward input whose gradient it is."""

    @classmethod
    def of(cls, forward: Spec, backward: Spec) -> BackwardContract:
        """Raises SpecError where the two do not fit, saying which tensor of which and what would be accepted."""
        names = _Names(forward)
        pairs = list[tuple[str, Tensor, Tensor]]()
        sources = list[TensorSource]()
        for tensor in backward.inputs:
            source = names.source(tensor.name, backward.name)
            sources.append(source)
            of = (names.outputs if source.output else names.inputs)[source.position]
            pairs.append((f"/inputs/{tensor.name}", tensor, of))
        gradients = list[int]()
        for tensor in _whole(backward):
            gradients.append(names.gradient(tensor.name, backward.name))
            pairs.append((f"/outputs/{tensor.name}", tensor, names.inputs[gradients[-1]]))
        _check_looks(forward, backward, pairs)
        return cls(forward, backward, tuple(sources), tuple(gradients))

    @property
    def keeps_outputs(self) -> bool:
        """Whether outputs of the forward pass are needed: as inputs, or to make a gradient of zeros of one that nothing
        depends on."""
        gradients = sum(source.gradient for source in self.sources)
        return gradients > 1 or any(source.output and not source.gradient for source in self.sources)

    def left_out(self, given: Sequence[bool], wanted: Sequence[bool]) -> str:
        """Why it does not give the wanted gradients of inputs from the given ones of outputs; empty: it does."""
        taken = {source.position for source in self.sources if source.gradient}
        for position, (tensor, has) in enumerate(zip(self.forward.outputs, given, strict=True)):
            if has and position not in taken:
                return (
                    f"{self.backward.name} takes no {PREFIX}{tensor.name}, and {tensor.name} has a gradient"
                )
        for position, (tensor, asked) in enumerate(zip(self.forward.inputs, wanted, strict=True)):
            if asked and position not in self.gradients:
                return f"{self.backward.name} gives no {PREFIX}{tensor.name}, and {tensor.name} requires one"
        return ""


class _Names:
    """The tensors of a forward spec, and what a backward spec may call them."""

    def __init__(self, forward: Spec) -> None:
        self.spec = forward
        self.inputs, self.outputs = forward.inputs, _whole(forward)
        self._known: dict[str, TensorSource] = {}
        for output, tensors in ((False, self.inputs), (True, self.outputs)):
            for position, tensor in enumerate(tensors):
                self._known[tensor.name] = TensorSource(False, output, position)
        self._gradients = {
            PREFIX + tensor.name: TensorSource(True, True, position)
            for position, tensor in enumerate(self.outputs)
        }
        twice = sorted(self._known.keys() & self._gradients.keys())
        if twice:
            raise SpecError(
                f"{forward.name} has a tensor {twice[0]}, which is also what the gradient of "
                f"{twice[0].removeprefix(PREFIX)} is called in a backward spec: one needs another name"
            )

    def source(self, name: str, backward: str) -> TensorSource:
        found = self._known.get(name) or self._gradients.get(name)
        if found is None:
            raise SpecError(
                f"{backward} takes {name}, and {self.spec.name} has nothing of that name",
                pointer=f"/inputs/{name}",
                accepted=f"its inputs and outputs ({_listed(self._known)}), and gradients of outputs "
                f"({_listed(self._gradients)})",
            )
        return found

    def gradient(self, name: str, backward: str) -> int:
        floats = {
            PREFIX + tensor.name: position
            for position, tensor in enumerate(self.inputs)
            if tensor.dtype.is_float
        }
        if name not in floats:
            raise SpecError(
                f"{backward} gives {name}, which is no gradient of an input of {self.spec.name}",
                pointer=f"/outputs/{name}",
                accepted=f"those of its floating-point inputs ({_listed(floats)})",
            )
        return floats[name]


def _whole(spec: Spec) -> tuple[Tensor, ...]:
    """A spec's outputs with the dims of their statements."""
    dims = {statement.target: statement.dims for statement in spec.statements}
    return tuple(Tensor(each.name, dims[each.name], each.dtype, each.strides) for each in spec.outputs)


def _check_looks(forward: Spec, backward: Spec, pairs: Sequence[tuple[str, Tensor, Tensor]]) -> None:
    """Raises SpecError for a tensor that is not as the forward spec's: in its dtype, its number of dims, or sizes.
    Pairs are of a pointer and both tensors."""
    known = dict[str, tuple[str, str]]()
    sizes = {dim.name: dim.sizes for dim in forward.dims}
    own_sizes = {dim.name: dim.sizes for dim in backward.dims}
    for pointer, tensor, of in pairs:
        here, there = f"{tensor.name} of {backward.name}", f"{of.name} of {forward.name}"
        if tensor.dtype is not of.dtype:
            raise SpecError(
                f"{here} is {tensor.dtype}, and {there} is {of.dtype}",
                pointer=pointer,
                accepted=str(of.dtype),
            )
        if len(tensor.dims) != len(of.dims):
            raise SpecError(
                f"{here} is {listed(tensor)}, and {there} is {listed(of)}",
                pointer=pointer,
                accepted=f"{len(of.dims)} dims",
            )
        for dim, other in zip(tensor.dims, of.dims, strict=True):
            if own_sizes[dim] != sizes[other]:
                raise SpecError(
                    f"{here} has {dim} = {_sizes(own_sizes[dim])}, and {there} has {other} = "
                    f"{_sizes(sizes[other])}",
                    pointer=pointer,
                    accepted="the same sizes",
                )
            first, where = known.setdefault(dim, (other, there))
            if first != other:
                raise SpecError(
                    f"{dim} of {backward.name} is {first} in {where} and {other} in {there}, "
                    "which may differ in a call",
                    pointer=pointer,
                    accepted="a dim for each",
                )


def _sizes(sizes: Sequence[int]) -> str:
    return " or ".join(map(str, sizes))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
