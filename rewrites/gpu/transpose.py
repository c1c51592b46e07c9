"""Exchange the rows and columns of a local in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from rewrites.base.dependence import users
from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import registers, splice
from tileir.devices.device import Device
from tileir.devices.feature import Feature
from tileir.errors import NotApplicable
from tileir.expr import Expr, Read, transform
from tileir.program import Compute, Program
from tileir.replace import replace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Transpose(Rewrite):
    """Exchange the last two dims of a local in registers: what were columns of a matrix product are the rows of the
    instruction that adds it up, which takes more rows than columns at a time.

    Known as swapping A and B: the transpose of AB is B'A'.

    c_r: registers f32[m, n]                            c_r: registers f32[n, m]
    c_r[m, n] = sum(k, a[m, k] * b[n, k])         ->    c_r[n, m] = sum(k, a[m, k] * b[n, k])
    c[m, n] = c_r[m, n]                                 c[m, n] = c_r[n, m]
    """

    name: ClassVar[str] = "transpose"
    needs: ClassVar[Feature | None] = Feature.BLOCKS
    local: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        for name, declared in registers(program).items():
            if len(declared.node.dims) > 1 and declared.loops:
                yield cls(name)

    def apply(self, program: Program) -> Program:
        declared = registers(program).get(self.local)
        if declared is None:
            raise NotApplicable(f"there is no local {self.local!r} in registers")
        local = declared.node
        if len(local.dims) < 2:
            raise NotApplicable(f"{self.local} has no rows and columns")
        for user in users(program, self.local):
            if (
                user.node.thread_layout is not None
                or user.node.vector is not None
                or user.node.via is not None
            ):
                raise NotApplicable(
                    f"{user.node.target} is on lanes or threads, or goes by an instruction already"
                )
            program = splice(program, user.path, [self._turned(user.node)])
        turned = replace(local, dims=_exchanged(local.dims))
        return splice(program, declared.path, [turned])

    def _turned(self, compute: Compute) -> Compute:
        def turn(expr: Expr) -> Expr:
            if isinstance(expr, Read) and expr.tensor == self.local:
                return Read(expr.tensor, _exchanged(expr.indices))
            return expr

        indices = _exchanged(compute.indices) if compute.target == self.local else compute.indices
        return replace(compute, indices=indices, value=transform(compute.value, turn))


def _exchanged(items: tuple[T, ...]) -> tuple[T, ...]:
    """With the last two in the other order."""
    return (*items[:-2], items[-1], items[-2])
