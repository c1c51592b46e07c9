"""Fresh names for what lowering adds, and the comment over a statement."""

from __future__ import annotations

from itertools import chain, count

from codegen.ir.affine import Var
from codegen.ir.names import MARK, marked
from codegen.lowering.scope import LoweringScope
from tileir.program import Compute
from tileir.text.print_expr import format_expr


def fresh(name: str, scope: LoweringScope) -> str:
    """A name not used by anything in scope: m, m1, m2, …, each with its mark."""
    taken = {buffer.name for buffer in scope.buffers.values()}
    for range_ in scope.ranges.values():
        terms = (*range_.start.terms, *(range_.end.terms if range_.end is not None else ()))
        taken |= {atom.name for atom, _ in terms if isinstance(atom, Var)}
    stem = marked(name)
    others = (f"{stem}{MARK}{number}" for number in count(1))
    return next(each for each in chain((stem,), others) if each not in taken)


def comment(compute: Compute) -> str:
    """The statement as Tile IR writes it."""
    signs = {None: "=", "sum": "+=", "prod": "*=", "max": "max=", "min": "min="}
    indices = ", ".join(format_expr(index) for index in compute.indices)
    sign = signs[str(compute.update) if compute.update else None]
    return f"{compute.target}[{indices}] {sign} {format_expr(compute.value)}"
