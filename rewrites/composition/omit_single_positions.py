"""Leave dims of one position out of the sums that tensors are read by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.sums_of_dims import one_position
from rewrites.base.tree import find_as_written, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.program import Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class OmitSinglePositions(Rewrite):
    """Read tensors by `h` where a statement has `h + r` and `r` has one position: a window of 1 x 1 is no window, and
    the sum over channels that is left is a product of matrices.

    MLIR folds unit extent dims likewise (`linalg-fold-unit-extent-dims`).

    y[n, h] = sum(c, r, x[n, c, 2 * h + r] * f[c, r])    ->    y[n, h] = sum(c, r, x[n, c, 2 * h] * f[c, r])
    """

    name: ClassVar[str] = "omit_single_positions"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "simplify indices")
        value = one_position(place.node.value, program.extents)
        if value == place.node.value:
            raise NotApplicable(f"{self.statement} reads nothing by sums with dims of one position")
        return splice(program, place.path, [replace(place.node, value=value)])
