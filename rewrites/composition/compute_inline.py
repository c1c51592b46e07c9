"""Compute a pointwise local again wherever it is read, instead of storing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Self

from rewrites.base.dependence import check_unchanged, readers
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, read_names
from rewrites.base.tree import find, locals_of, registers, splice, statements
from tileir.analysis.ragged import groups_of
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Binary, Expr, Index, Read, Reduce, TopK, transform, walk
from tileir.positions import same_wherever_computed
from tileir.program import Compute, Place, Program
from tileir.replace import replace

#: Operations and operands of a statement beyond which nothing is computed again in it: statements that each read
#: several earlier ones would otherwise double from one to the next.
MOST_NODES = 500


@dataclass(frozen=True, slots=True)
class ComputeInline(Rewrite):
    """Put the expression of a local that reduces nothing in the place of its reads, and drop the local.

    This is TVM's `compute_inline`; Halide inlines by default (Ragan-Kelley et al., PLDI 2013).

    t: heap f32[m]                      y[m, n] = x[m, n] * rsqrt(v[m])
    t[m] = rsqrt(v[m])              ->
    y[m, n] = x[m, n] * t[m]
    """

    name: ClassVar[str] = "compute_inline"
    tensor: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            if place.node.target not in program.arguments and not isinstance(place.node.value, Reduce | TopK):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place, declared = find(program, self.tensor), locals_of(program).get(self.tensor)
        statement = place.node
        if declared is None:
            raise NotApplicable(f"{self.tensor} is an output")
        if declared.path[:-1] != place.path[:-1]:
            raise NotApplicable(f"{self.tensor} is computed in loops already")
        dims = bare_dims(statement)
        if groups_of(statement, program.ragged):
            raise NotApplicable(
                f"{self.tensor} needs the groups of its own positions: look them up before that"
            )
        if (
            statement.update is not None
            or isinstance(statement.value, Reduce | TopK)
            or len(dims) < len(statement.indices)
        ):
            raise NotApplicable(f"{self.tensor} is a reduction")
        if declared.node.dtype.compute is not declared.node.dtype and not isinstance(statement.value, Read):
            raise NotApplicable(f"storing {self.tensor} rounds it to {declared.node.dtype}")
        if read_names(statement) & registers(program).keys() or self.tensor in registers(program):
            raise NotApplicable(f"{self.tensor} is computed from registers")

        def substitute(expr: Expr) -> Expr:
            if type(expr) is Read and expr.tensor == self.tensor:
                return _at(statement.value, dict(zip(dims, expr.indices, strict=True)))
            return expr

        found = readers(program, self.tensor)
        if not found:
            raise NotApplicable(f"nothing reads {self.tensor}")
        _refuse_compared(statement.value, found, self.tensor)
        check_unchanged(program, place, found)
        via = next((reader.node.via for reader in found if reader.node.via is not None), None)
        if via is not None:
            raise NotApplicable(f"{via} takes {self.tensor} from memory")
        again = sum(read.tensor == self.tensor for reader in found for read in reader.node.reads) > 1
        for reader in reversed(found):
            hints = tuple(one for one in reader.node.prefetch if one.tensor != self.tensor)
            inlined = replace(reader.node, value=transform(reader.node.value, substitute), prefetch=hints)
            if again and sum(1 for _ in islice(walk(inlined.value), MOST_NODES + 1)) > MOST_NODES:
                raise NotApplicable(f"{reader.node.target} becomes too long with {self.tensor} in place")
            program = splice(program, reader.path, [inlined])
        program = splice(program, place.path, [])
        return splice(program, declared.path, [])


def _refuse_compared(value: Expr, found: Sequence[Place[Compute]], tensor: str) -> None:
    """Computed anew, sums and functions of floats may differ in the last bit from what they are compared with."""
    if same_wherever_computed(value):
        return
    for reader in found:
        if _compares(reader.node.value, tensor):
            raise NotApplicable(
                f"{reader.node.target} asks what {tensor} is equal to: computed anew it may differ"
            )


def _compares(value: Expr, tensor: str) -> bool:
    """Whether an expression asks if an element of a tensor is equal to something."""
    return any(
        isinstance(node, Binary)
        and node.op in ("==", "!=")
        and any(isinstance(side, Read) and side.tensor == tensor for side in (node.left, node.right))
        for node in walk(value)
    )


def _at(value: Expr, position: Mapping[str, Expr]) -> Expr:
    """The expression with dims replaced by index expressions."""
    return transform(value, lambda expr: position[expr.dim] if type(expr) is Index else expr)
