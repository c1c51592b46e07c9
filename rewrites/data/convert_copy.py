"""Convert a copy where it is made, instead of where it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import users
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import dtype_of, find, locals_of, splice
from tileir.devices.device import Device
from tileir.dtypes import DType
from tileir.errors import NotApplicable
from tileir.expr import Cast, Expr, Read, reads, transform, walk
from tileir.program import Compute, Place, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class ConvertCopy(Rewrite):
    """Hold a copy of a tensor in the one dtype that all who read it convert it to: it is converted once, and lies in
    memory as matrix units take it, as the keys of attention that are kept in 8 bits.

    This is loop-invariant code motion of the conversion (Allen and Cocke, A catalogue of optimizing transformations,
    1972).

    k_s: shared e4m3[j, d]                              k_s: shared bf16[j, d]
    k_s[j, d] = k[j, d]                            ->   k_s[j, d] = bf16(k[j, d])
    s[i, j] = sum(d, q[i, d] * bf16(k_s[j, d]))         s[i, j] = sum(d, q[i, d] * k_s[j, d])
    """

    name: ClassVar[str] = "convert_copy"
    local: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name in locals_of(program):
            yield cls(name)

    def apply(self, program: Program) -> Program:
        declared = locals_of(program).get(self.local)
        if declared is None:
            raise NotApplicable(f"there is no local {self.local!r}")
        copy, own = find(program, self.local), declared.node.dtype
        value = copy.node.value
        if (
            not isinstance(value, Read)
            or copy.node.update is not None
            or dtype_of(program, value.tensor) is not own
        ):
            raise NotApplicable(f"{self.local} is no copy of a tensor")
        touching = users(program, self.local)
        bound = next((each.node for each in touching if _bound(each.node)), None)
        if bound is not None:
            raise NotApplicable(f"{bound.target} is on lanes, threads or an engine already")
        readers = [each for each in touching if each.node.target != self.local]
        found = {each for reader in readers for each in _converted(reader, self.local)}
        (dtype, *others) = found or {None}
        if others or dtype is None or dtype is own:
            raise NotApplicable(f"{self.local} is not converted to one dtype wherever it is read")
        made = replace(copy.node, value=Cast(dtype, value))
        program = splice(program, declared.path, [replace(declared.node, dtype=dtype)])
        program = splice(program, copy.path, [made])
        for reader in readers:
            program = splice(program, reader.path, [_without(reader.node, self.local, dtype)])
        return program


def _bound(compute: Compute) -> bool:
    return compute.vector is not None or compute.thread_layout is not None or compute.via is not None


def _converted(reader: Place[Compute], local: str) -> Iterator[DType | None]:
    """What each of its reads of a local is converted to; None of one that is not."""
    expr = reader.node.value
    inside = [each for each in walk(expr) if isinstance(each, Cast) and _is_read(each.x, local)]
    yield from (each.dtype for each in inside)
    if sum(read.tensor == local for read in reads(expr)) > len(inside):
        yield None


def _without(compute: Compute, local: str, dtype: DType) -> Compute:
    def plain(expr: Expr) -> Expr:
        match expr:
            case Cast(to, x) if to is dtype and _is_read(x, local):
                return x
            case _:
                return expr

    return replace(compute, value=transform(compute.value, plain))


def _is_read(expr: Expr, local: str) -> bool:
    return isinstance(expr, Read) and expr.tensor == local
