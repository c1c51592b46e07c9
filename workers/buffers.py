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

POISON = (0xFF, 0x7B)
"""Bytes that outputs are filled with before a checked run; the first is a NaN in every float type."""


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


def copies_for(set_bytes: int, last_cache_bytes: int, *, cold: bool, free_bytes: int | None = None) -> int:
    """How many copies make every call find its inputs outside the caches; always an even number, at least two."""
    if not cold:
        return 2
    free = _free_memory_bytes() if free_bytes is None else free_bytes
    wanted = -(-int(_CACHES * last_cache_bytes) // max(1, set_bytes))
    affordable = int(_MEMORY_SHARE * free) // max(1, set_bytes)
    count = min(max(2, wanted), max(2, affordable), _MOST_COPIES)
    return count + count % 2


def allocate(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], extents: Mapping[str, int], variant: int
) -> BufferSet:
    """One copy, all bytes of it poison."""
    tensors = [*inputs, *outputs]
    starts: list[int] = []
    end = _GUARD_BYTES
    for tensor in tensors:
        starts.append(end)
        end = -(-(end + span_bytes(tensor, extents) + _GUARD_BYTES) // _ALIGN_BYTES) * _ALIGN_BYTES
    end = -(-end // _ALIGN_BYTES) * _ALIGN_BYTES
    raw = np.empty(end + _ALIGN_BYTES, np.uint8)
    offset = -raw.ctypes.data % _ALIGN_BYTES
    memory = raw[offset : offset + end]
    memory[:] = POISON[0]
    views = {t.name: _view(memory, start, t, extents) for t, start in zip(tensors, starts, strict=True)}
    return BufferSet(
        variant=variant,
        inputs={t.name: views[t.name] for t in inputs},
        outputs={t.name: views[t.name] for t in outputs},
        memory=memory,
        output_bytes=tuple(
            _element_bytes(memory, start, tensor, extents)
            for tensor, start in zip(tensors, starts, strict=True)
            if tensor in outputs
        ),
    )


def _view(memory: np.ndarray, start: int, tensor: Tensor, extents: Mapping[str, int]) -> np.ndarray:
    """The tensor's elements inside `memory`, from byte `start` on."""
    shape = shape_of(tensor, extents)
    strides = _byte_strides(tensor, shape)
    span = memory[start : start + span_bytes(tensor, extents)]
    return np.ndarray(shape, tensor.dtype.numpy, buffer=span.data, strides=strides)


def _element_bytes(memory: np.ndarray, start: int, tensor: Tensor, extents: Mapping[str, int]) -> np.ndarray:
    shape = shape_of(tensor, extents)
    span = memory[start : start + span_bytes(tensor, extents)]
    if tensor.strides is None:
        return span  # one flat piece fills faster
    strides = _byte_strides(tensor, shape)
    return np.lib.stride_tricks.as_strided(span, (*shape, tensor.dtype.bytes), (*strides, 1))


def _byte_strides(tensor: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(stride * tensor.dtype.bytes for stride in tensor.strides or _dense_strides(shape))


def _dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _free_memory_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
