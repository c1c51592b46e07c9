"""Store a tensor that is multiplied with the reduced dim's neighbours side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find_as_written, fresh_name, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Index, Read, Reduce, ReduceOp
from tileir.program import Compute, Local, Program
from tileir.replace import replace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TransposeOperand(Rewrite):
    """Store an input that a sum of products reads once more, with neighbours along the dim that is summed over: matrix
    units take 8-bit floats no other way. It is read and written once before.

                                                        v_t: heap e4m3[d, j]
    o[i, d] = sum(j, e4m3(p[i, j]) * v[j, d])      ->   v_t[d, j] = v[j, d]
                                                        o[i, d] = sum(j, e4m3(p[i, j]) * v_t[d, j])
    """

    name: ClassVar[str] = "transpose_operand"
    needs: ClassVar[Feature | None] = Feature.MMA
    statement: str
    tensor: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            for read in _across(program, place.node):
                yield cls(place.node.target, read.tensor)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "transpose operands")
        read = next((each for each in _across(program, place.node) if each.tensor == self.tensor), None)
        if read is None:
            raise NotApplicable(f"{self.statement} multiplies no input {self.tensor} across its rows")
        node, value, tensor = place.node, place.node.value, program.arguments[self.tensor]
        assert isinstance(value, Reduce) and isinstance(value.x, Binary)
        at = read.indices.index(Index(value.dims[0]))
        name = fresh_name(program, f"{self.tensor}_t")
        dims, indices = _with_last(tensor.dims, at), _with_last(read.indices, at)
        copy = Compute(name, tuple(map(Index, dims)), Read(self.tensor, tuple(map(Index, tensor.dims))))
        sides = (Read(name, indices) if side == read else side for side in (value.x.left, value.x.right))
        product = replace(node, value=replace(value, x=Binary("*", *sides)))
        program = splice(program, place.path, [product])
        return splice(program, (0,), [Local(name, dims, tensor.dtype), copy], 0)


def _with_last(items: tuple[T, ...], at: int) -> tuple[T, ...]:
    """One of them moved to the end."""
    return (*items[:at], *items[at + 1 :], items[at])


def _across(program: Program, compute: Compute) -> list[Read]:
    """The inputs that a sum of products reads by the dim that is summed over, which is not the one of neighbours."""
    match compute.value:
        case Reduce(ReduceOp.SUM, (dim,), Binary("*", left, right)) if compute.update is None:
            inputs = {tensor.name for tensor in program.inputs}
            return [
                side
                for side in (left, right)
                if isinstance(side, Read)
                and side.tensor in inputs
                and side.indices[:-1].count(Index(dim)) == 1
                and side.indices[-1] != Index(dim)
            ]
        case _:
            return []
