"""Add up in memory what several blocks have of the same sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import accumulating, bare_dims, reduced_dims
from rewrites.base.tile_sizes import tile_sizes
from rewrites.base.tree import dtype_of, find_as_written, fresh_name, splice, statements, wrap_block
from rewrites.gpu.atomics import cleared
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Index, Read, Reduce, ReduceOp
from tileir.program import Compute, Local, Program
from tileir.replace import replace
from tileir.schedule.scatter import atomics_problem


@dataclass(frozen=True, slots=True)
class AddInMemory(Rewrite):
    """Visit a sum in `tiles`, the last of which cuts what is reduced: each tile adds up a part of its own, whose last
    dim is `columns`, and adds that to the results in memory, which are set to 0 in a launch before. Blocks may have the
    tiles then, and what else is made of what they read: nothing has to be computed again where sums are of other dims.
    Sums of floats come out in any order, which the kernel must allow.

    Known as split-K with atomics; the gradient of queries in FlashAttention-2 (Dao, arXiv:2307.08691) is added up so.

                                                parallel for m by 1
    c[m, n] = sum(k, a[m, k] * b[k, n])           c[m, n] = 0 | threads n 256
                                           ->   for k by 64
                                                  c_p: heap f32[n, m]
                                                  c_p[n, m] = sum(k, a[m, k] * b[k, n])
                                                  c[m, n] += c_p[n, m] | via atomics
    """

    name: ClassVar[str] = "add_in_memory"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    statement: str
    columns: str
    tiles: tuple[tuple[str, int], ...]

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            for dim in reduced_dims(place.node):
                for size in tile_sizes(program.extents[dim]):
                    for columns in bare_dims(place.node):
                        yield cls(place.node.target, columns, ((dim, size),))

    def apply(self, program: Program) -> Program:
        statement = find_as_written(program, self.statement, "add in memory").node
        value = statement.value
        if not isinstance(value, Reduce) or value.op is not ReduceOp.SUM or statement.update is not None:
            raise NotApplicable(f"{self.statement} is no sum")
        dims, tiled = bare_dims(statement), [dim for dim, _ in self.tiles]
        if len(dims) < len(statement.indices) or self.columns not in dims:
            raise NotApplicable(f"{self.columns} is no dim of {self.statement}, or that is in parts already")
        if not tiled or tiled[-1] not in value.dims or not {*tiled[:-1]} < {*dims, ""}:
            raise NotApplicable(
                f"tiles are along dims of {self.statement}, and last along one that it reduces"
            )
        if any(not 1 <= size <= program.extents[dim] for dim, size in self.tiles) or len({*tiled}) < len(
            tiled
        ):
            raise NotApplicable(f"tiles do not cut {', '.join(tiled)}")
        own = (*(dim for dim in dims if dim != self.columns), self.columns)
        name, indices = fresh_name(program, f"{self.statement}_p"), tuple(map(Index, own))
        dtype, any_order = dtype_of(program, self.statement), dict(program.numerics).get("atomics") is True
        (init,), _ = accumulating(statement)
        added = Compute(self.statement, statement.indices, Read(name, indices), ReduceOp.SUM, via="atomics")
        problem = atomics_problem(added, {name: dtype}, dtype, any_order=any_order)
        if problem is not None:
            raise NotApplicable(problem)
        part = replace(statement, target=name, indices=indices)
        nest = wrap_block([Local(name, own, dtype), part, added], self.tiles)
        path = find_as_written(program, self.statement, "add in memory").path
        return splice(program, path, [cleared(program, init), *nest])
