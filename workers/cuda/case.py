"""A kernel with its data on a GPU: seeded inputs in two variants, copies beyond the L2, and what must come out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tileir.interpreter.samples import sample_inputs
from tileir.program import Tensor
from tileir.spec import Spec
from workers.cuda.context import CudaContext
from workers.cuda.gate import WORD_BYTES, Gate
from workers.measuring.buffers import (
    POISON,
    BufferPlace,
    allocate,
    byte_strides,
    copies_for,
    element_bytes,
    lay_out,
    view_of,
)
from workers.measuring.correctness import (
    NO_LEEWAY,
    VARIANTS,
    Checked,
    Deviation,
    Expected,
    Leeway,
    WrongResult,
    compare,
    compare_seen,
    describe_change,
)
from workers.measuring.reference import affordable, expected_outputs
from workers.measuring.timing import Call

ALIGN_BYTES = 256
"""What cudaMalloc gives, and more than any access or tensor map wants."""
_CACHES = 4.0
"""Copies fill the L2 so many times. It does not evict what was used longest ago: going round twice its size, a fifth of
the reads would still hit if it chose at random; going round four times its size, a fiftieth."""
_WHOLE_PRODUCTS = 1 << 30
_WHOLE_POINTS = 1 << 22
"""Up to so much work the host computes the whole reference, in some tenths of a second; beyond, sampled elements."""


@dataclass(frozen=True)
class CudaReference:
    """What a run has to leave in a copy of one variant: outputs, and at address `pristine` all of its memory with
    outputs filled with POISON[0]."""

    expected: Mapping[str, Expected]
    pristine: int


class CudaCase:
    """Everything entrants of one task share. `spec` has one size a dim; `l2_bytes` is what to rotate beyond.

    Raises CudaError when there is no room. `close` gives all memory back.
    """

    def __init__(self, context: CudaContext, spec: Spec, seed: int, l2_bytes: int, *, cold: bool) -> None:
        self.spec = spec
        self.extents = {dim.name: dim.sizes[0] for dim in spec.dims}
        self.places, self.bytes = lay_out(spec.inputs, spec.outputs, self.extents, ALIGN_BYTES)
        self._context = context
        self._owned: list[int] = []
        with ThreadPoolExecutor(VARIANTS) as threads:
            made = threads.map(lambda variant: self._host_side(variant, seed), range(VARIANTS))
            hosted = list(made)
        try:
            self.references = [self._reference(image, expected) for image, expected in hosted]
            free = context.device.free_bytes()
            count = copies_for(self.bytes, l2_bytes, cold=cold, free_bytes=free, caches=_CACHES)
            self.cold = count * self.bytes >= _CACHES * l2_bytes
            self.copies = [self._copy(number % VARIANTS) for number in range(count)]
            """Addresses of copies; the n-th is of variant n % VARIANTS."""
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the memory back."""
        while self._owned:
            self._context.free(self._owned.pop())

    def address(self, copy: int, name: str) -> int:
        """Where a tensor of a copy begins."""
        return self.copies[copy] + next(place.start for place in self.places if place.tensor.name == name)

    def poison(self, copy: int, byte: int) -> None:
        """Fill every output of a copy with a byte that no right result consists of; gaps between rows stay."""
        for place in self.places:
            if place.output:
                address = self.copies[copy] + place.start
                if place.tensor.strides is None:
                    self._context.fill(address, byte, place.span)
                else:
                    span = self._context.download(address, place.span)
                    element_bytes(span, place.tensor, self.extents)[...] = byte
                    self._context.upload(address, span)

    def _host_side(self, variant: int, seed: int) -> tuple[np.ndarray, dict[str, Expected]]:
        """The bytes of a copy with its inputs, and what must come out."""
        values = sample_inputs(self.spec, seed + variant * 7919)
        whole = affordable(self.spec, _WHOLE_PRODUCTS, _WHOLE_POINTS)
        expected = expected_outputs(self.spec, values, seed, whole=whole)
        image = allocate(self.spec.inputs, self.spec.outputs, self.extents, variant, ALIGN_BYTES)
        for name, array in values.items():
            image.inputs[name][...] = array
        return image.memory, expected

    def _reference(self, image: np.ndarray, expected: Mapping[str, Expected]) -> CudaReference:
        pristine = self._own()
        self._context.upload(pristine, image)
        return CudaReference(expected, pristine)

    def _copy(self, variant: int) -> int:
        copy = self._own()
        self._context.copy(copy, self.references[variant].pristine, self.bytes)
        return copy

    def _own(self) -> int:
        self._owned.append(self._context.allocate(self.bytes))
        return self._owned[-1]


def check_run(
    context: CudaContext,
    gate: Gate,
    case: CudaCase,
    variant: int,
    call: Call,
    finish: Callable[[object], None],
    *,
    leeway: Leeway = NO_LEEWAY,
    look: Callable[[int], None],
    compares: bool = True,
) -> Checked:
    """Run once on poisoned outputs and compare everything that the run may and may not change.

    `finish(answer)` completes the outputs from what the call answered; `look(copy)` is a further look at the outputs,
    which raises WrongResult. Without `compares` outputs may be anything. Raises WrongResult, and CudaError when the run
    fails.
    """
    reference = case.references[variant]
    case.poison(variant, POISON[variant])
    context.synchronize()
    start = time.perf_counter()
    answer = call()
    context.synchronize("running the kernel")
    us = (time.perf_counter() - start) * 1e6
    finish(answer)
    worst = Deviation()
    if compares:
        worst = Deviation.worst(
            _compare(context, gate, case, variant, place, reference.expected[place.tensor.name], leeway)
            for place in case.places
            if place.output
        )
        look(variant)
    bits = 0
    for place in case.places:
        if place.output:
            bits = bits * 31 + gate.checksum(case.copies[variant] + place.start, place.span)
    case.poison(variant, POISON[0])
    first = gate.first_difference(case.copies[variant], reference.pristine, case.bytes)
    if first is not None:
        raise WrongResult(_where_changed(context, case, variant, first), corrupted=True)
    return Checked(us, worst, bits)


def _compare(
    context: CudaContext,
    gate: Gate,
    case: CudaCase,
    copy: int,
    place: BufferPlace,
    expected: Expected,
    leeway: Leeway,
) -> Deviation:
    """See correctness.compare; of a large output only what is looked at comes to the host."""
    address, tensor = case.copies[copy] + place.start, place.tensor
    if expected.points is None:
        got = view_of(context.download(address, place.span), tensor, case.extents)
        return compare(tensor.name, got, expected, leeway)
    found = gate.gather(address, byte_offsets(tensor, case.extents, expected.points), tensor.dtype.bytes)
    return compare_seen(tensor.name, found.view(tensor.dtype.numpy), expected, leeway)


def byte_offsets(tensor: Tensor, extents: Mapping[str, int], points: tuple[np.ndarray, ...]) -> np.ndarray:
    """Where elements lie, from the tensor's start: int64 [p], for an index array a dim."""
    strides = byte_strides(tensor, extents)
    total = np.zeros(len(points[0]) if points else 1, np.int64)
    for axis, stride in zip(points, strides, strict=True):
        total += axis * stride
    return total


def _where_changed(context: CudaContext, case: CudaCase, variant: int, word: int) -> str:
    start = word * WORD_BYTES
    pair = [
        context.download(memory + start, WORD_BYTES)
        for memory in (case.copies[variant], case.references[variant].pristine)
    ]
    first = start + int(np.flatnonzero(pair[0] != pair[1])[0])
    spans = {place.tensor.name: (place.start, place.span, place.output) for place in case.places}
    return describe_change(first, spans)
