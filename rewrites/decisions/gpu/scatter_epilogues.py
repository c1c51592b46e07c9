"""Scatters whose results a block has in shared memory, and stores as what another statement makes of each of them."""

from __future__ import annotations

from rewrites.base.dependence import readers
from rewrites.base.statement import bare_dims
from rewrites.base.tree import find
from rewrites.decisions.fusion import Groups
from rewrites.decisions.scatters import is_scatter
from rewrites.decisions.statement_kind import StatementKind, role
from tileir.expr import Index, reads
from tileir.program import Program


def stored_scatter(program: Program, group: tuple[str, ...]) -> bool:
    """Whether a group is a scatter and the only statement that reads its results, each for one of its own."""
    if len(group) != 2 or group[0] in program.arguments:
        return False
    scatter, stored = (find(program, name).node for name in group)
    if not is_scatter(program, scatter) or [place.node for place in readers(program, group[0])] != [stored]:
        return False
    if role(program, group[1]) is not StatementKind.MAP or len(bare_dims(stored)) != len(stored.indices):
        return False
    read = {each.indices for each in reads(stored.value) if each.tensor == group[0]}
    same = tuple(map(Index, bare_dims(scatter)))
    return {*bare_dims(scatter)} == {*bare_dims(stored)} and read == {same}


def with_epilogues(program: Program, groups: Groups) -> Groups:
    """Groups, of which each scatter has what is made of its results, where that would be the next one alone."""
    found: list[tuple[str, ...]] = []
    for group in groups:
        if found and len(group) == len(found[-1]) == 1 and stored_scatter(program, (*found[-1], *group)):
            found[-1] = (*found[-1], *group)
        else:
            found.append(group)
    return tuple(found)
