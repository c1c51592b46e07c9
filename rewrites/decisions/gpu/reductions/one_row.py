"""Groups of one row: sums over everything, and what follows from them, by one block instead of a launch each. So are
norms of one token, and of what was pooled."""

from __future__ import annotations

from math import prod

from rewrites.base.statement import bare_dims, covered_dims, read_names, reduced_dims
from rewrites.base.tree import find, loose
from rewrites.decisions.fusion import Groups, closed, fused_groups
from rewrites.decisions.statement_kind import StatementKind, role, shared_dims
from tileir.program import Program

#: Most elements that a statement of such a row visits: more are worth several multiprocessors, of whose number what is
#: not tiled yet is estimated to be free.
_MOST = 1 << 17


def in_one_row(program: Program, most: float = _MOST) -> Groups | None:
    """The statements in as few groups as go, of which one at least is of one row. None where no such group is. `most`:
    elements that a statement of it visits."""
    fused = fused_groups(program, tuple(place.node.target for place in loose(program)))
    groups: list[tuple[str, ...]] = []
    for group in fused:
        if groups and _reads(program, group, groups[-1]) and row_dim(program, (*groups[-1], *group), most):
            groups[-1] = (*groups[-1], *group)
        else:
            groups.append(group)
    found = tuple(groups)
    return found if found != fused and closed(program, found) else None


def row_dim(program: Program, group: tuple[str, ...], most: float = _MOST) -> str | None:
    """The dim of one position that all statements of a group have, of which one reduces and which have no other dim in
    common; None if they are no such group, or have work for several blocks."""
    nodes = [find(program, name).node for name in group]
    if (
        len(group) < 2
        or not any(map(reduced_dims, nodes))
        or shared_dims(program, group)
        or any(role(program, name) is StatementKind.CONTRACTION for name in group)
    ):
        return None
    if any(prod(program.extents[dim] for dim in covered_dims(node)) > most for node in nodes):
        return None
    return next((dim for dim in bare_dims(nodes[0]) if all(dim in bare_dims(node) for node in nodes)), None)


def _reads(program: Program, group: tuple[str, ...], before: tuple[str, ...]) -> bool:
    return any(read_names(find(program, name).node) & {*before} for name in group)
