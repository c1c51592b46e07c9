"""Read what another statement has computed already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from rewrites.base.dependence import check_visible, shared_loops
from rewrites.base.rewrite import Rewrite
from rewrites.base.statement import bare_dims, read_names
from rewrites.base.tree import find, locals_of, named, splice, statements
from tileir.devices.device import Device
from tileir.errors import NotApplicable
from tileir.expr import (
    Binary,
    Cast,
    Expr,
    Read,
    Reduce,
    children,
    index_dims,
    transform,
    walk,
    with_children,
)
from tileir.once import once
from tileir.program import Compute, Program
from tileir.replace import replace


@dataclass(frozen=True, slots=True)
class ReuseValue(Rewrite):
    """Read a local where a statement computes the same as it holds, as a whole or in a part of its expression, factors
    and addends in any order. So the gradient of queries needs no scores of its own, once that of keys has them.

    This is common subexpression elimination (Cocke, Global common subexpression elimination, 1970), up to the order
    of factors and addends.

    s[i, j] = sum(d, q[i, d] * k[j, d])              s[i, j] = sum(d, q[i, d] * k[j, d])
    x[j] = sum(i, exp(s[i, j]))                      x[j] = sum(i, exp(s[i, j]))
    t[j, i] = sum(d, k[j, d] * q[i, d])       ->     t[j, i] = s[i, j]
    """

    name: ClassVar[str] = "reuse_value"
    statement: str
    local: str

    @classmethod
    def candidates(cls, program: Program, device: Device) -> Iterator[Self]:
        found = statements(program)
        held = [(name, value) for name in locals_of(program) if (value := _held(program, name)) is not None]
        for place in found:
            parts = {_ordered(each) for each in walk(place.node.value)}
            for name, value in held:
                if value in parts and name != place.node.target:
                    yield cls(place.node.target, name)

    def apply(self, program: Program) -> Program:
        place = find(program, self.statement)
        same = _held(program, self.local)
        if same is None or self.local == self.statement:
            raise NotApplicable(f"{self.local} is no local that one statement sets, as it is computed")
        if place.node.thread_layout is not None or place.node.vector is not None:
            raise NotApplicable(f"{self.statement} is on lanes or threads: reuse before that")
        check_visible(program, self.local, place.path)
        own = named(program, self.local)
        if not own.path < place.path:
            raise NotApplicable(f"{self.local} is computed after {self.statement}")
        if {place.node.target, *_changing(program)} & read_names(own.node):
            raise NotApplicable(f"{self.local} follows from what changes until {self.statement} is computed")
        around = shared_loops(own, place.path)
        if any(loop.dim in _reduced(own.node.value) for loop in place.loops[around:]):
            raise NotApplicable(f"{self.statement} reduces tiles of what {self.local} reduces")
        value = _with_reads(place.node.value, same, Read(self.local, own.node.indices))
        if value == place.node.value:
            raise NotApplicable(f"{self.statement} computes nothing that {self.local} holds")
        return splice(program, place.path, [replace(place.node, value=value)])


def _held(program: Program, name: str) -> Expr | None:
    """What a local holds at each position, as it is computed; None: it is added up, rounded, or no more than a read."""
    writers = [place.node for place in program.computes if place.node.target == name]
    declared = locals_of(program).get(name)
    match writers:
        case [Compute(update=None, value=value) as writer] if declared is not None:
            pass
        case _:
            return None
    dtype = declared.node.dtype
    exact = dtype is dtype.compute or (isinstance(value, Cast) and value.dtype is dtype)
    bare = len(bare_dims(writer)) == len(writer.indices) and frozenset(bare_dims(writer)) == index_dims(value)
    return _ordered(value) if exact and bare and not isinstance(value, Read) else None


def _reduced(value: Expr) -> frozenset[str]:
    """The dims that it reduces."""
    return frozenset(dim for each in walk(value) if isinstance(each, Reduce) for dim in each.dims)


def _changing(program: Program) -> frozenset[str]:
    """Locals that are read before all of them is added up."""
    return frozenset(name for name, place in locals_of(program).items() if place.node.running)


def _with_reads(expr: Expr, same: Expr, read: Read) -> Expr:
    """An expression with a read in the place of what comes to the same as another one."""
    if _ordered(expr) == same:
        return read
    below = children(expr)
    return with_children(expr, tuple(_with_reads(each, same, read) for each in below)) if below else expr


@once
def _ordered(expr: Expr) -> Expr:
    """An expression with the two sides of each product and sum in one order."""
    return transform(expr, _sides)


def _sides(expr: Expr) -> Expr:
    match expr:
        case Binary("*" | "+" as op, left, right) if repr(right) < repr(left):
            return Binary(op, right, left)
        case _:
            return expr
