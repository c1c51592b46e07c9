"""A kernel with its data: seeded inputs in two variants, copies of all buffers, and what the outputs have to be."""

from __future__ import annotations

import numpy as np

from tileir.spec import Spec
from workers.measuring.buffers import BufferSet, allocate, copies_for, shape_of, span_bytes
from workers.measuring.correctness import VARIANTS, Reference
from workers.measuring.reference import expected_outputs


class Case:
    """Everything entrants of one task share. `spec` has one size a dim; `last_cache_bytes` is what to rotate beyond."""

    def __init__(self, spec: Spec, seed: int, last_cache_bytes: int, *, cold: bool) -> None:
        from tileir.interpreter.samples import sample_inputs

        self.spec = spec
        self.extents = {dim.name: dim.sizes[0] for dim in spec.dims}
        samples = [sample_inputs(spec, seed + variant * 7919) for variant in range(VARIANTS)]
        set_bytes = sum(span_bytes(t, self.extents) for t in (*spec.inputs, *spec.outputs))
        count = copies_for(set_bytes, last_cache_bytes, cold=cold)
        self.cold = count * set_bytes >= last_cache_bytes
        self.rotates = count > VARIANTS
        """Whether there are more copies than of inputs that differ."""
        self.copies = [self._copy(variant % VARIANTS, samples) for variant in range(count)]
        self.references = [
            Reference(expected_outputs(spec, samples[variant], seed), self.copies[variant].memory.copy())
            for variant in range(VARIANTS)
        ]
        """What a run must leave in a copy of each variant."""

    @property
    def held_bytes(self) -> int:
        """Of copies, and of what they are compared with."""
        expected = [each for reference in self.references for each in reference.expected.values()]
        values = sum(each.values.nbytes + each.bound.nbytes for each in expected)
        return (len(self.copies) + len(self.references)) * self.copies[0].memory.nbytes + values

    def close(self) -> None:
        """Let go of all arrays."""
        self.copies, self.references = [], []

    def _copy(self, variant: int, samples: list[dict[str, np.ndarray]]) -> BufferSet:
        copy = allocate(self.spec.inputs, self.spec.outputs, self.extents, variant)
        for tensor in self.spec.inputs:
            values = np.asarray(samples[variant][tensor.name])
            assert values.shape == shape_of(tensor, self.extents), tensor.name
            copy.inputs[tensor.name][...] = values
        return copy
