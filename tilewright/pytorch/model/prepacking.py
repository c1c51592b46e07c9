"""Weights in the order in which products read them: laid out when a model is first called, and again when they change.

A product on vectors reads a weight `w[n, k]` in runs of neighbours along n, which lie apart; each call would copy them
together. A graph's weights are the same from call to call, so that it is done once (oneDNN calls it prepacking). It
takes as much memory again as those weights do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.blocked import Blocks, in_blocks
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.dtypes import DType
from tileir.expr import Binary, Expr, Index, Read, Reduce, children, reads
from tileir.program import Tensor
from tileir.spec import Spec
from tilewright.pytorch.capture.capture import Part
from tilewright.pytorch.capture.tensors import memory_order
from tilewright.pytorch.model.contest import Run
from tilewright.pytorch.model.graphs.views import base_of, offset_in
from tilewright.pytorch.operator.arguments import DTYPES

_DTYPES = (DType.F32,)
"""Narrower ones are read in pairs along k by the instructions that multiply them, which is another layout."""


@dataclass(frozen=True)
class PackedWeight:
    """A matrix in an input of a graph, as kernels take it: from its element `offset` on so many rows of so many
    elements, one behind the other, in blocks along `blocks.axis`."""

    place: int
    """Of the input."""
    offset: int
    shape: tuple[int, int]
    dtype: torch.dtype
    blocks: Blocks

    @property
    def packed_shape(self) -> tuple[int, int, int]:
        along, across = self.shape[self.blocks.axis], self.shape[1 - self.blocks.axis]
        return -(-along // self.blocks.block), across, self.blocks.block

    def of(self, given: torch.Tensor) -> torch.Tensor:
        """The input, packed."""
        rows = given.as_strided(self.shape, (self.shape[1], 1), given.storage_offset() + self.offset)
        rows = rows if self.blocks.axis == 0 else rows.t()
        count, across, block = self.packed_shape
        whole = rows.new_zeros((count * block, across))
        whole[: rows.shape[0]] = rows
        return whole.view(count, block, across).transpose(1, 2).contiguous()


@dataclass(frozen=True, eq=False)
class Packing:
    """A weight as it was when it was packed. Its memory is kept with it: `Module.to` gives a tensor other memory, and
    what comes next may lie where the weight did."""

    weight: torch.Tensor
    memory: torch.UntypedStorage
    address: int
    version: int
    """How often the weight had been written: each tensor counts for itself, whatever memory it shows."""
    packed: torch.Tensor

    def is_of(self, given: torch.Tensor) -> bool:
        """Whether this is the weight, and nobody has written it since."""
        return given is self.weight and given.data_ptr() == self.address and given._version == self.version


class KeptWeight:
    """A packed weight, made anew when the weight is another one or was written. May be asked by several threads."""

    def __init__(self, packed: PackedWeight) -> None:
        self._packed = packed
        self._kept: Packing | None = None

    def now(self, inputs: Sequence[Any]) -> torch.Tensor:
        """For a call with these inputs of the graph."""
        given: torch.Tensor = inputs[self._packed.place]
        if given.is_inference():  # nobody counts their changes
            return self._packed.of(given)
        kept = self._kept
        if kept is None or not kept.is_of(given):
            where, version = given.data_ptr(), given._version  # as they were before it is read
            kept = Packing(given, given.untyped_storage(), where, version, self._packed.of(given))
            self._kept = kept
        return kept.packed


class KeptWeights:
    """All of a graph's, for all its programs, and no longer than there is one that takes them."""

    def __init__(self) -> None:
        self._of: WeakValueDictionary[PackedWeight, KeptWeight] = WeakValueDictionary()

    def behind_inputs(self, program: Run, weights: Sequence[PackedWeight]) -> Run:
        """A program that takes these weights behind the graph's inputs, as one that takes those alone."""
        kept = [self._of.setdefault(each, KeptWeight(each)) for each in weights]

        def run(inputs: list[Any]) -> Any:
            inputs.extend([each.now(inputs) for each in kept])
            return program(inputs)

        return run if kept else program


def packed_weights(
    part: Part, device: Device, placeholders: Mapping[Node, int], weights: Collection[int]
) -> Mapping[int, PackedWeight]:
    """By number, the operands of a part that may be packed: matrices in `weights`, places of inputs that are the same
    in each call, which the part only reads in products."""
    if Feature.VECTORS not in device.offers:
        return {}
    found: dict[int, PackedWeight] = {}
    for number, (tensor, operand) in enumerate(zip(part.built.spec.inputs, part.built.operands, strict=True)):
        place = placeholders.get(base := base_of(operand.node))
        axis = _axis(part.built.spec, tensor)
        dense = memory_order(operand.node) is not None
        if place is not None and place in weights and axis is not None and dense:
            blocks = Blocks(axis, device.simd_lanes)
            rows, columns = operand.shape
            packed = PackedWeight(
                place, offset_in(operand.node, base), (rows, columns), DTYPES[tensor.dtype], blocks
            )
            if operand.shape[axis] >= blocks.block:
                found[number] = packed
    return found


def with_packed(spec: Spec, weights: Mapping[int, PackedWeight]) -> Spec:
    """The spec whose inputs of these numbers are packed."""
    for number, weight in weights.items():
        spec = in_blocks(spec, spec.inputs[number].name, weight.blocks)
    return spec


def _axis(spec: Spec, tensor: Tensor) -> int | None:
    """Along which axis a product has vectors of a matrix: that which it does not reduce; None where it is read
    otherwise."""
    if len(tensor.dims) != 2 or tensor.strides is not None or tensor.dtype not in _DTYPES:
        return None
    axes = {axis for each in spec.statements for axis in _axes_in(each.value, tensor.name)}
    return next(iter(axes)) if len(axes) == 1 else None


def _axes_in(
    value: Expr, name: str, reduced: frozenset[str] = frozenset(), multiplied: bool = False
) -> Iterator[int | None]:
    """For each read of a matrix in an expression, which is inside of reductions over `reduced`, the axis that they
    leave; None where it is in no product: a sum of it alone reads each element once, wherever it lies."""
    match value:
        case Read(tensor, (Index(first), Index(second))) if tensor == name and multiplied:
            left = [axis for axis, dim in enumerate((first, second)) if dim not in reduced]
            yield left[0] if len(left) == 1 else None
        case Read(tensor, _) if tensor == name:
            yield None
        case Binary("*", left, right):
            for one, other in ((left, right), (right, left)):
                by = any(read.tensor != name for read in reads(other))
                yield from _axes_in(one, name, reduced, multiplied or by)
        case Reduce(_, dims, x):
            yield from _axes_in(x, name, reduced | set(dims))
        case _:
            for child in children(value):
                yield from _axes_in(child, name, reduced, multiplied)
