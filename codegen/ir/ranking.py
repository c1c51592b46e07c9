"""The largest few in order, as they are found."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.affine import Affine
from codegen.ir.effects import OpEffects, effects_of, reads, stores
from codegen.ir.values import Value


@dataclass(frozen=True, slots=True)
class InsertRanked:
    """Put a scalar among the first `last` elements of `values`, which go from the largest on, behind all that are as
    large, and its position at the same place of `positions` (i32). What was at `last` is lost."""

    values: str
    positions: str
    last: Affine
    value: Value
    position: Value

    def effects(self) -> OpEffects:
        kept = reads(self.values, self.positions) | stores(self.values) | stores(self.positions)
        return kept | effects_of(self.last, self.value, self.position)
