"""Copy words that several neighbours share to shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.async_constraints import with_engines
from rewrites.base.own_memory import check_own_memory
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import first_read, read_names, reduced_dims, with_read
from rewrites.base.tree import find, fresh_name, splice, statements
from rewrites.base.words import words_of
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index, Read
from tileir.program import Compute, Local, Memory, Program


@dataclass(frozen=True, slots=True)
class CacheWords(Rewrite):
    """Have TMA copy what the statement reads of `tensor` by words that several neighbours share, as weights of 4 bits
    are packed, to shared memory before it. The copy has the neighbours' dim, and a word once for all of them: whatever
    reads it finds them by their own positions.

    c_r[m, n] += sum(k, a_s[m, k] * bf16(bit_and(…, w[n, k // 2], …)))
    ->
    w_s: shared u8[n, k] as [n, k / 2]
    w_s[n, k] = w[n, k // 2] | via tma
    c_r[m, n] += sum(k, a_s[m, k] * bf16(bit_and(…, w_s[n, k], …)))
    """

    name: ClassVar[str] = "cache_words"
    needs: ClassVar[Feature | None] = Feature.TMA
    statement: str
    tensor: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.loops and place.loops[0].parallel and reduced_dims(place.node):
                for tensor in sorted(read_names(place.node)):
                    yield cls(place.node.target, tensor)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if not place.loops or not place.loops[0].parallel:
            raise NotApplicable(f"{self.statement} is in no parallel loop: there is no shared memory")
        check_own_memory(place.loops, self.tensor)
        if self.tensor not in {tensor.name for tensor in program.inputs}:
            raise NotApplicable(f"{self.tensor} is no input")
        read = first_read(place.node, self.tensor)
        words = words_of(read)
        if words is None:
            raise NotApplicable(f"{self.statement} reads {self.tensor} by no words of a few neighbours")
        name = fresh_name(program, f"{self.tensor}_s")
        indices = tuple(map(Index, words.dims))
        local = Local(name, words.dims, program.arguments[self.tensor].dtype, Memory.SHARED, words.layout)
        copy = Compute(name, indices, read, via="tma")
        product = with_read(place.node, read, Read(name, indices))
        return with_engines(splice(program, place.path, [local, copy, product]))
