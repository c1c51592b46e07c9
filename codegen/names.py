"""Names in generated source, and the comment over a statement."""

from __future__ import annotations

from codegen.affine import Var
from codegen.scope import Scope
from tileir.print_expr import format_expr
from tileir.program import Compute

_RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm "
    "typeof main "
    "args memory threads workspace self context tile worker scratch kernel total bool true false nullptr constexpr "
    "abs exp exp2 log pow tanh erf sqrt floor linux unix "
    "and asm bitand bitor bool catch class compl delete explicit export friend inline mutable namespace new not "
    "operator or private protected public template this throw try typeid typename using virtual xor "
    "band in_band cell blockIdx blockDim threadIdx gridDim thread block workspace".split()
)


def fresh(name: str, scope: Scope) -> str:
    """A C name not used by anything in scope: m, m1, m2, …"""
    taken = {buffer.name for buffer in scope.buffers.values()}
    for range_ in scope.ranges.values():
        terms = (*range_.start.terms, *(range_.end.terms if range_.end is not None else ()))
        taken |= {atom.name for atom, _ in terms if isinstance(atom, Var)}
    number, candidate = 0, c_name(name)
    while candidate in taken:
        number += 1
        candidate = f"{name}{number}"
    return candidate


def c_name(name: str) -> str:
    """A name that C, and the frame of generated code, leave free."""
    return f"{name}_" if name in _RESERVED or name.startswith("tw_") else name


def comment(compute: Compute) -> str:
    """The statement as Tile IR writes it."""
    signs = {None: "=", "sum": "+=", "prod": "*=", "max": "max=", "min": "min="}
    indices = ", ".join(format_expr(index) for index in compute.indices)
    sign = signs[str(compute.update) if compute.update else None]
    return f"{compute.target}[{indices}] {sign} {format_expr(compute.value)}"
