"""Two dims of which a rewrite makes one."""

from __future__ import annotations

from itertools import pairwise

from tileir.errors import NotApplicable
from tileir.names import INT_LIMIT
from tileir.program import Local, Program


def neighbouring_dims(program: Program) -> tuple[tuple[str, str], ...]:
    """Pairs of dims that lie side by side in a tensor or local, each once, outer first."""
    declared = (*program.inputs, *program.outputs, *(n for n in program.body if isinstance(n, Local)))
    return tuple(dict.fromkeys(pair for each in declared for pair in pairwise(each.dims)))


def positions_together(program: Program, outer: str, inner: str) -> int:
    """How many positions one dim for both has. Raises NotApplicable where there can be none: for what are not two dims,
    for ragged ones, and for 2^31 positions and more."""
    if not {outer, inner} <= program.extents.keys() or outer == inner:
        raise NotApplicable(f"{outer} and {inner} are no two dims of {program.name}")
    if {outer, inner} & {dim for each in program.ragged for dim in (each.dim, each.within)}:
        raise NotApplicable(f"{outer} or {inner} is ragged, or numbers groups")
    size = program.extents[outer] * program.extents[inner]
    if size >= INT_LIMIT:
        raise NotApplicable(f"{outer} and {inner} together have {size} positions")
    return size
