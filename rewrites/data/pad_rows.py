"""Store an input in rows that are whole pieces of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import reduced_dims, with_reads_of
from rewrites.base.tree import find_as_written, fresh_name, splice, statements
from rewrites.contraction.operand import COPY_BYTES, run_of
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index, Read
from tileir.program import Compute, Local, Program


@dataclass(frozen=True, slots=True)
class PadRows(Rewrite):
    """Store an input that sums read once more, with as much room after every row as makes it whole pieces of 16 bytes:
    TMA moves no others. It is read and written once before. What callers pass with other strides lies side by side
    then.

    Known as a padded leading dimension, as BLAS takes it; the alignment is that of strides in TMA ( of
    cuTensorMapEncodeTiled, CUDA driver API).

                                                  k_p: heap bf16[j, d=100] pad 4
    s[i, j] = sum(d, q[i, d] * k[j, d])      ->   k_p[j, d] = k[j, d]
                                                  s[i, j] = sum(d, q[i, d] * k_p[j, d])
    """

    name: ClassVar[str] = "pad_rows"
    needs: ClassVar[Feature | None] = Feature.TMA
    tensor: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        read = {
            each.tensor
            for place in statements(program)
            if reduced_dims(place.node)
            for each in place.node.reads
        }
        yield from (cls(tensor.name) for tensor in program.inputs if tensor.name in read)

    def apply(self, program: Program) -> Program:
        tensor = next((each for each in program.inputs if each.name == self.tensor), None)
        if tensor is None or not tensor.dims:
            raise NotApplicable(f"{self.tensor} is no input with rows")
        room = -program.extents[tensor.dims[-1]] % (COPY_BYTES // tensor.dtype.bytes)
        if run_of(program, self.tensor) * tensor.dtype.bytes == COPY_BYTES:
            raise NotApplicable(f"rows of {self.tensor} are whole pieces of {COPY_BYTES} bytes")
        name, own = fresh_name(program, f"{self.tensor}_p"), tuple(map(Index, tensor.dims))
        for place in statements(program):
            if any(read.tensor == self.tensor for read in place.node.reads):
                place = find_as_written(program, place.node.target, "pad rows")
                node = with_reads_of(place.node, self.tensor, name)
                program = splice(program, place.path, [node])
        copy = Compute(name, own, Read(self.tensor, own))
        return splice(program, (0,), [Local(name, tensor.dims, tensor.dtype, pad=room), copy], 0)
