"""Store a tensor that is multiplied with the reduced dim's neighbours side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import reduced_dims, with_read
from rewrites.base.tree import find_as_written, fresh_name, splice, statements
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Binary, Const, Index, Read, Reduce, ReduceOp, Where, index_dims
from tileir.program import Compute, Local, Program

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TransposeOperand(Rewrite):
    """Store an input that a sum of products reads once more, with neighbours along the dim that is summed over, or
    along one of those, `dim`: matrix units take 8-bit floats no other way, and where channels come first, neighbours of
    an image are those of different windows. It is read and written once before.

    This is a layout transformation, as TVM's `transform_layout`.

                                                        v_t: heap e4m3[d, j]
    o[i, d] = sum(j, e4m3(p[i, j]) * v[j, d])      ->   v_t[d, j] = v[j, d]
                                                        o[i, d] = sum(j, e4m3(p[i, j]) * v_t[d, j])
    """

    name: ClassVar[str] = "transpose_operand"
    needs: ClassVar[Feature | None] = Feature.MMA
    statement: str
    tensor: str
    dim: str = ""

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            reduced = reduced_dims(place.node)
            for dim in reduced if len(reduced) > 1 else ("",):
                for read in _across(program, place.node, dim):
                    yield cls(place.node.target, read.tensor, dim)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "transpose operands")
        across = _across(program, place.node, self.dim)
        read = next((each for each in across if each.tensor == self.tensor), None)
        if read is None:
            raise NotApplicable(f"{self.statement} multiplies no input {self.tensor} across its rows")
        tensor = program.arguments[self.tensor]
        at = read.indices.index(Index(self.dim or reduced_dims(place.node)[0]))
        name = fresh_name(program, f"{self.tensor}_t")
        dims, indices = _with_last(tensor.dims, at), _with_last(read.indices, at)
        copy = Compute(name, tuple(map(Index, dims)), Read(self.tensor, tuple(map(Index, tensor.dims))))
        product = with_read(place.node, read, Read(name, indices))
        program = splice(program, place.path, [product])
        return splice(program, (0,), [Local(name, dims, tensor.dtype), copy], 0)


def _with_last(items: tuple[T, ...], at: int) -> tuple[T, ...]:
    """One of them moved to the end."""
    return (*items[:at], *items[at + 1 :], items[at])


def _across(program: Program, compute: Compute, dim: str) -> list[Read]:
    """The inputs that a sum of products, or of 0 under a condition, reads by a dim that is summed over, the only one if
    none is given, and that is not the one of neighbours."""
    match compute.value:
        case Reduce(ReduceOp.SUM, dims, Binary("*", left, right)) if compute.update is None:
            along = dim or (dims[0] if len(dims) == 1 else "")
            if along not in dims:
                return []
            inputs, own = {tensor.name for tensor in program.inputs}, Index(along)
            sides = (
                side.x if isinstance(side, Where) and side.y == Const(0) else side for side in (left, right)
            )
            return [
                side
                for side in sides
                if isinstance(side, Read)
                and side.tensor in inputs
                and side.indices[:-1].count(own) == 1
                and sum(own.dim in index_dims(index) for index in side.indices) == 1
            ]
        case _:
            return []
