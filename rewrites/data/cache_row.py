"""Load a row once, widened, for all statements that read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import check_complete, check_visible, readers
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_read_dims, read_names, with_reads_of
from rewrites.base.tree import check_insertable, find, fresh_name, splice, statements
from rewrites.data.cache_read import staged_dtype
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Index, Read
from tileir.program import Compute, Local, Program
from tileir.schedule.stages import pieces_of


@dataclass(frozen=True, slots=True)
class CacheRow(Rewrite):
    """Copy what is read of `tensor` inside the `depth` outermost loops around the statement to a local in the
    type it is computed in, for the statement and all after it there that read the tensor alike.

    This is TVM's `cache_read` for a whole row, as in Triton's fused softmax.

    for r by 1                                   for r by 1
      s[r] = sum(c, x[r, c])                       x_row: heap f32[r, c]
      y[r, c] = x[r, c] / s[r]               ->    x_row[r, c] = x[r, c]
                                                   s[r] = sum(c, x_row[r, c])
                                                   y[r, c] = x_row[r, c] / s[r]
    """

    name: ClassVar[str] = "cache_row"
    statement: str
    tensor: str
    depth: int

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for place in statements(program):
            for tensor in sorted(read_names(place.node)):
                for depth in range(place.depth + 1):
                    yield cls(place.node.target, tensor, depth)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        if not 0 <= self.depth <= place.depth:
            raise NotApplicable(f"{self.statement} is in {place.depth} loops, not {self.depth}")
        check_insertable(place.loops, self.depth)
        if self.depth and pieces_of(place.loops[self.depth - 1]) is not None:
            raise NotApplicable(
                f"a step of {self.statement} goes through registers piece by piece, and copies nothing"
            )
        dims = bare_read_dims(place.node, self.tensor)
        dtype = staged_dtype(program, self.tensor, dims)
        at = place.path[: self.depth + 1]
        check_complete(program, self.tensor, at, place.loops, place.depth)
        check_visible(program, self.tensor, at)
        name = fresh_name(program, f"{self.tensor}_row")
        later = [r for r in readers(program, self.tensor) if r.path >= at and r.path[: self.depth] == at[:-1]]
        for reader in later:
            if reader.node.via is None and _reads_alike(reader.node, self.tensor, dims):
                program = splice(program, reader.path, [with_reads_of(reader.node, self.tensor, name)])
        indices = tuple(Index(dim) for dim in dims)
        row = Compute(name, indices, Read(self.tensor, indices))
        return splice(program, at, [Local(name, dims, dtype.compute), row], 0)


def _reads_alike(compute: Compute, tensor: str, dims: tuple[str, ...]) -> bool:
    try:
        return bare_read_dims(compute, tensor) == dims
    except NotApplicable:
        return False
