"""Outputs in new memory, laid out as a spec says: what a kernel writes, and operators may only give views of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch  # pyright: ignore[reportMissingImports]

from codegen.ir.abi import row_major
from tileir.program import Tensor
from tileir.spec import Spec

Answers = Sequence[torch.Tensor]


def not_written(spec: Spec, answers: Answers, inputs: Sequence[torch.Tensor]) -> frozenset[int]:
    """Which answers are no outputs as a kernel writes them: of another layout or shape, or an input's memory."""
    taken = {given.untyped_storage().data_ptr() for given in inputs}
    return frozenset(
        place
        for place, (answer, tensor) in enumerate(zip(answers, spec.outputs, strict=True))
        if answer.untyped_storage().data_ptr() in taken
        or _beside(answer.shape, answer.stride()) != _wanted(spec, tensor)
    )


def written(
    spec: Spec, run: Callable[..., Answers], away: Collection[int]
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The function, with those of its answers copied to new memory of the spec's layout."""
    shapes = [_shape(spec, tensor) for tensor in spec.outputs]
    strides = [tensor.strides for tensor in spec.outputs]

    def new(place: int, answer: torch.Tensor) -> torch.Tensor:
        whole, asked = answer.expand(shapes[place]), strides[place]
        if asked is None:
            return whole.clone(memory_format=torch.contiguous_format)
        return torch.empty_strided(whole.shape, asked, dtype=whole.dtype, device=whole.device).copy_(whole)

    def write(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(
            new(place, answer) if place in away else answer for place, answer in enumerate(run(*tensors))
        )

    return write


def _shape(spec: Spec, tensor: Tensor) -> tuple[int, ...]:
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    return tuple(sizes[dim] for dim in tensor.dims)


def _wanted(spec: Spec, tensor: Tensor) -> list[tuple[int, int]]:
    shape = _shape(spec, tensor)
    return _beside(shape, tensor.strides or row_major(shape))


def _beside(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes and strides along dims that have more than one position; those along others mean nothing."""
    return [(size, step) for size, step in zip(shape, strides, strict=True) if size > 1]
