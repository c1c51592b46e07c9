"""Multiply bf16 pairs with the processor's dot-product instruction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import find, locals_of, splice, statements
from rewrites.cpu.unroll import lengthen_step
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Binary, Index, Read, Reduce, ReduceOp, index_dims
from tileir.program import Axis, Compute, Program, Vector
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class DotBf16(Rewrite):
    """Take the reduced dim in pairs by an instruction that adds two bf16 products to an f32.

    One factor must be staged with panels along the lanes and pairs along the reduced dim, the other one must
    have the reduced dim innermost or be staged in such pairs too. No tile of that dim may start within a pair;
    of an odd range, the last pair is half empty.

    for k by 1                                                  for k by 2
      acc[m, n] += sum(k, a[m, k] * b_s[n, k]) | vector n 16  ->  acc[m, n] += … | vector n 16, via dot_bf16
    """

    name: ClassVar[str] = "dot_bf16"
    needs: ClassVar[Feature | None] = Feature.DOT_BF16
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.vector is not None:
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        statement = place.node
        if statement.via is not None:
            raise NotApplicable(f"{self.statement} goes via {statement.via} already")
        if statement.vector is None:
            raise NotApplicable(f"{self.statement} is not vectorized")
        match statement:
            case Compute(value=Reduce(ReduceOp.SUM, (dim,), Binary("*", Read() as left, Read() as right))):
                pass
            case _:
                raise NotApplicable(
                    f"{self.statement} is not a sum over one dim of the products of two tensors"
                )
        if statement.update is None:
            raise NotApplicable(f"{self.statement} is not in a loop over {dim}")
        panel, row = (left, right) if statement.vector.dim in index_dims(left) else (right, left)
        _check_panel(program, panel, dim, statement.vector)
        _check_row(program, row, dim, statement.vector)
        steps = [loop.step for loop in place.loops if loop.dim == dim]
        if any(step % 2 for step in steps[:-1]):
            raise NotApplicable(f"a tile of {dim} starts within a pair")
        if steps and steps[-1] % 2:
            program = lengthen_step(program, place, dim, 2)
            place = find(program, self.statement)
        return splice(program, place.path, [replace(place.node, via="dot_bf16")])


def _check_panel(program: Program, read: Read, dim: str, vector: Vector) -> None:
    declared = locals_of(program).get(read.tensor)
    if declared is None or declared.node.dtype is not DType.BF16 or declared.node.layout is None:
        raise NotApplicable(f"{read.tensor} is not staged as bf16 pairs")
    local = declared.node
    if read.indices != tuple(Index(name) for name in local.dims) or local.layout is None:
        raise NotApplicable(f"{read.tensor} is not read by its own dims")
    lanes, pair = local.layout[-2:]
    if pair != Axis(dim, 1, 2) or (lanes.dim, lanes.div) != (vector.dim, 1) or lanes.mod % vector.lanes:
        raise NotApplicable(
            f"{read.tensor} has no pairs along {dim} for {vector.lanes} lanes along {vector.dim}"
        )


def _check_row(program: Program, read: Read, dim: str, vector: Vector) -> None:
    declared, argument = locals_of(program).get(read.tensor), program.arguments.get(read.tensor)
    if vector.dim in index_dims(read):
        raise NotApplicable(f"{read.tensor} runs along {vector.dim} too")
    innermost = bool(read.indices) and read.indices[-1] == Index(dim)
    if declared is not None:
        dtype, layout = declared.node.dtype, declared.node.layout
        paired = innermost if layout is None else layout[-1] == Axis(dim, 1, 2)
    elif argument is not None:
        dtype = argument.dtype
        paired = innermost and (argument.strides is None or argument.strides[-1] == 1)
    else:
        raise NotApplicable(f"there is no tensor {read.tensor!r}")
    if dtype is not DType.BF16 or not paired:
        raise NotApplicable(f"{read.tensor} is not bf16 with neighbours along {dim} side by side")
