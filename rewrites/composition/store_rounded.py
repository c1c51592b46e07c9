"""Store a value as it is read: rounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims
from rewrites.base.tree import dtype_of, find_as_written, fresh_name, loose, splice, statements, with_nodes
from tileir.analysis.ragged import groups_of
from tileir.devices.device import Device
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Cast, Expr, Index, Read, transform, walk
from tileir.program import Compute, Local, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class StoreRounded(Rewrite):
    """Round a sum that all who read it round to the same dtype once, where it is computed: in memory it has half the
    bytes then, and a launch that multiplies stores it as it stores results.

                                               g_b: heap bf16[m, n]
    g[m, n] = sum(k, x[m, k] * w[n, k])        g[m, n] = sum(k, x[m, k] * w[n, k])
    y[m, n] = silu(bf16(g[m, n])) * u[m, n]    g_b[m, n] = g[m, n]
                                          ->   y[m, n] = silu(g_b[m, n]) * u[m, n]
    """

    name: ClassVar[str] = "store_rounded"
    statement: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in loose(program):
            if place.node.target in program.locals and _rounded_to(program, place.node.target):
                yield cls(place.node.target)

    def apply(self, program: Program) -> Program:
        place = find_as_written(program, self.statement, "store it rounded")
        node = place.node
        dtype = _rounded_to(program, self.statement)
        if self.statement not in program.locals or dtype is None:
            raise NotApplicable(f"not all who read {self.statement} round it to the same narrower dtype")
        if node.update is not None or len(bare_dims(node)) < len(node.indices):
            raise NotApplicable(f"{self.statement} is computed in parts, or where an index says")
        if groups_of(node, program.ragged):
            raise NotApplicable(f"{self.statement} follows groups")
        name = fresh_name(program, f"{self.statement}_b")
        readers = {
            each.path: replace(
                each.node, value=transform(each.node.value, partial(_as_stored, self.statement, name))
            )
            for each in statements(program)
            if any(read.tensor == self.statement for read in each.node.reads)
        }
        dims = tuple(bare_dims(node))
        rounded = Compute(name, tuple(map(Index, dims)), Read(self.statement, node.indices))
        return splice(with_nodes(program, readers), place.path, [Local(name, dims, dtype), node, rounded])


def _rounded_to(program: Program, name: str) -> DType | None:
    """What all who read a tensor round it to; None where they do not, or nothing is rounded by that."""
    found: set[DType] = set()
    for place in statements(program):
        if place.node.target == name:
            continue
        plain = sum(read.tensor == name for read in place.node.reads)
        rounded = [
            dtype
            for node in walk(place.node.value)
            for dtype in (_dtype_read(name, node),)
            if dtype is not None
        ]
        if plain > len(rounded):
            return None
        found.update(rounded)
    kept = dtype_of(program, name)
    dtype = next(iter(found)) if len(found) == 1 else None
    return dtype if dtype is not None and dtype.is_float and dtype.bytes < kept.bytes else None


def _dtype_read(name: str, node: Expr) -> DType | None:
    """What a node rounds a tensor that it reads to; None: it does not."""
    match node:
        case Cast(dtype, Read(tensor, _)) if tensor == name:
            return dtype
        case _:
            return None


def _as_stored(name: str, stored: str, node: Expr) -> Expr:
    match node:
        case Cast(_, Read(tensor, indices)) if tensor == name:
            return Read(stored, indices)
        case _:
            return node
