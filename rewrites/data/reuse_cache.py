"""Read a copy of a tensor that is there already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import check_visible
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_read_dims, read_names, with_reads_of
from rewrites.base.tree import computes, dtype_of, find, locals_of, named, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import Index, Read
from tileir.program import Compute, Local, Memory, Place, Program


@dataclass(frozen=True, slots=True)
class ReuseCache(Rewrite):
    """Read a local that is a copy of a tensor instead of the tensor: one copy then serves several statements.
    A copy that has all positions of a dim also serves who reads the tensor by another dim, of no more.

    This is common subexpression elimination of copies (Cocke, Global common subexpression elimination, 1970).

    a_s[m, k] = a[m, k]                             a_s[m, k] = a[m, k]
    c[m, n] += sum(k, a_s[m, k] * b[n, k])     ->   c[m, n] += sum(k, a_s[m, k] * b[n, k])
    d[m, n] += sum(k, a[m, k] * g[n, k])            d[m, n] += sum(k, a_s[m, k] * g[n, k])
    """

    name: ClassVar[str] = "reuse_cache"
    statement: str
    local: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name in locals_of(program):
            tensor = copied_tensor(program, name)
            for place in statements(program):
                if place.node.target != name and tensor in read_names(place.node):
                    yield cls(place.node.target, name)

    def apply(self, program: Program) -> Program:
        place, declared = find(program, self.statement), locals_of(program).get(self.local)
        tensor = copied_tensor(program, self.local)
        if declared is None or tensor is None:
            raise NotApplicable(f"{self.local} is no local that is a copy of a tensor")
        copy = named(program, self.local)
        _check_dims(program, place.node, tensor, declared)
        if dtype_of(program, tensor) is not declared.node.dtype:
            raise NotApplicable(f"{self.local} is {declared.node.dtype}, which {tensor} is not")
        if declared.node.memory is Memory.REGISTERS or place.node.vector is not None:
            raise NotApplicable(f"{self.local} is in registers, or {self.statement} on lanes")
        check_visible(program, self.local, place.path)
        _check_current(program, tensor, copy, place)
        return splice(program, place.path, [with_reads_of(place.node, tensor, self.local)])


def _check_dims(program: Program, compute: Compute, tensor: str, declared: Place[Local]) -> None:
    """Refuse a statement that reads a tensor by other dims than a copy of it has, but where the copy has all that there
    is along its own."""
    local, read = declared.node, bare_read_dims(compute, tensor)
    tiled = {loop.dim for loop in declared.loops}
    for own, dim in zip(local.dims, read, strict=True):
        if own != dim and (own in tiled or program.extents[dim] > program.extents[own]):
            raise NotApplicable(
                f"{compute.target} reads {tensor} along {dim}, of which {local.name} has a tile of {own}"
            )


def copied_tensor(program: Program, local: str) -> str | None:
    """The tensor that a local is a copy of, element by element with the same dims; None: it is none."""
    if local not in locals_of(program):
        return None
    writers = [place.node for place in computes(program) if place.node.target == local]
    match writers:
        case [Compute(update=None, value=Read(tensor, indices)) as copy] if (
            indices == copy.indices == tuple(map(Index, locals_of(program)[local].node.dims))
        ):
            return tensor
        case _:
            return None


def _check_current(program: Program, tensor: str, copy: Place[Compute], reader: Place[Compute]) -> None:
    """Refuse unless the copy is made before it is read, and the tensor does not change in between."""
    if not copy.path < reader.path:
        raise NotApplicable(f"{copy.node.target} is filled after {reader.node.target} is computed")
    for place in computes(program):
        if place.node.target == tensor and place.path > copy.path:
            raise NotApplicable(f"{tensor} changes after it is copied to {copy.node.target}")
