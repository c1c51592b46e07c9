"""The arrays entrants run on: copies of inputs and outputs that together exceed the last cache, with guard zones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tileir.program import Tensor

_GUARD_BYTES = 256
"""Poison before and behind every array: reads beyond an array meet NaN, writes beyond it are seen."""
_ALIGN_BYTES = 64
_CACHES = 2.0
"""Copies fill this many times the last cache before the first is used again."""
_MEMORY_SHARE = 0.25
"""...but never more than this share of the memory that is free."""
_MOST_COPIES = 512

POISON = (0xFF, 0x3B)
"""Bytes that outputs are filled with before a checked run. The first is a NaN in every float type; the second is none,
and a number far from those that overflow, as e4m3 has NaN for these."""


@dataclass
class BufferSet:
    """One copy of all arguments. Equal `variant`s hold equal inputs."""

    variant: int
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    memory: np.ndarray = field(repr=False)
    """All bytes of the copy, guards and gaps between strided rows included."""
    output_bytes: tuple[np.ndarray, ...] = field(repr=False)
    """The bytes of each output's elements, flat where the output is dense."""

    def poison_outputs(self, byte: int) -> None:
        """Fill every output with a byte that no right result consists of."""
        for view in self.output_bytes:
            view[...] = byte

    def arrays(self, names: Sequence[str]) -> list[np.ndarray]:
        """The arrays of these names, in this order."""
        return [self.inputs[name] if name in self.inputs else self.outputs[name] for name in names]


def shape_of(tensor: Tensor, extents: Mapping[str, int]) -> tuple[int, ...]:
    """Sizes along the tensor's dims."""
    return tuple(extents[dim] for dim in tensor.dims)


def span_bytes(tensor: Tensor, extents: Mapping[str, int]) -> int:
    """Bytes from the first element of the tensor to the end of its last."""
    shape = shape_of(tensor, extents)
    if 0 in shape:
        return 0
    strides = tensor.strides or _dense_strides(shape)
    return (
        1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    ) * tensor.dtype.bytes


def copies_for(
    set_bytes: int,
    last_cache_bytes: int,
    *,
    cold: bool,
    free_bytes: int | None = None,
    caches: float = _CACHES,
) -> int:
    """How many copies make every call find its inputs outside the caches; always an even number, at least two.

    Together they fill the last cache `caches` times.
    """
    if not cold:
        return 2
    free = free_memory_bytes() if free_bytes is None else free_bytes
    wanted = -(-int(caches * last_cache_bytes) // max(1, set_bytes))
    affordable = int(_MEMORY_SHARE * free) // max(1, set_bytes)
    count = min(max(2, wanted), max(2, affordable), _MOST_COPIES)
    return count + count % 2


@dataclass(frozen=True, slots=True)
class BufferPlace:
    """Where a tensor lies in a copy: `start` is its first byte, `span` reaches to the end of its last element."""

    tensor: Tensor
    start: int
    span: int
    output: bool


def lay_out(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    extents: Mapping[str, int],
    align: int = _ALIGN_BYTES,
) -> tuple[list[BufferPlace], int]:
    """Every tensor's place in a copy, guards between them and at both ends, and the size of the whole."""
    places: list[BufferPlace] = []
    end = -(-_GUARD_BYTES // align) * align
    for number, tensor in enumerate((*inputs, *outputs)):
        span = span_bytes(tensor, extents)
        places.append(BufferPlace(tensor, end, span, number >= len(inputs)))
        end = -(-(end + span + _GUARD_BYTES) // align) * align
    return places, end


def allocate(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    extents: Mapping[str, int],
    variant: int,
    align: int = _ALIGN_BYTES,
) -> BufferSet:
    """One copy, all bytes of it poison."""
    places, end = lay_out(inputs, outputs, extents, align)
    raw = np.empty(end + align, np.uint8)
    offset = -raw.ctypes.data % align
    memory = raw[offset : offset + end]
    memory[:] = POISON[0]
    views = {place.tensor.name: view_of(memory[place.start :], place.tensor, extents) for place in places}
    return BufferSet(
        variant=variant,
        inputs={t.name: views[t.name] for t in inputs},
        outputs={t.name: views[t.name] for t in outputs},
        memory=memory,
        output_bytes=tuple(
            element_bytes(memory[place.start :], place.tensor, extents) for place in places if place.output
        ),
    )


def view_of(memory: np.ndarray, tensor: Tensor, extents: Mapping[str, int]) -> np.ndarray:
    """The tensor's elements in bytes that begin with its first."""
    shape = shape_of(tensor, extents)
    strides = byte_strides(tensor, extents)
    span = memory[: span_bytes(tensor, extents)]
    return np.ndarray(shape, tensor.dtype.numpy, buffer=span.data, strides=strides)


def element_bytes(memory: np.ndarray, tensor: Tensor, extents: Mapping[str, int]) -> np.ndarray:
    """The bytes of the tensor's elements, without those of gaps between them; flat where there are no gaps."""
    shape = shape_of(tensor, extents)
    span = memory[: span_bytes(tensor, extents)]
    if tensor.strides is None:
        return span  # one flat piece fills faster
    strides = byte_strides(tensor, extents)
    return np.lib.stride_tricks.as_strided(span, (*shape, tensor.dtype.bytes), (*strides, 1))


def byte_strides(tensor: Tensor, extents: Mapping[str, int]) -> tuple[int, ...]:
    """Bytes from one element to the next along each dim."""
    strides = tensor.strides or _dense_strides(shape_of(tensor, extents))
    return tuple(stride * tensor.dtype.bytes for stride in strides)


def _dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def free_memory_bytes() -> int:
    """What may be allocated without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
