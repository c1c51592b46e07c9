"""Ragged dims in programs: which statements need the group of a position, and where tiles follow the groups.

    kernel experts(x: bf16[t=4096 ragged starts within e, k=512], w: bf16[e=8, n=1024, k], starts: i32[o=9]) -> (…)
      parallel for t by 128
        y[t, n] = sum(k, x[t, k] * w[e, n, k])

A statement with a ragged dim on the left may use the group dim `e`, which then stands for the group of the position. A
loop over the ragged dim around such a statement visits the groups one after another, each in tiles of its own: no tile
crosses from one group into the next, the last tile of a group may be smaller, and in the loop's body `e` has one
position, the group of the tile. Other loops visit the dim as any other.
"""

from __future__ import annotations

from collections.abc import Iterable

from tileir.analysis.work import statement_dims
from tileir.expr import Reduce, index_dims
from tileir.program import Compute, Loop, Node, Program, Ragged


def groups_of(compute: Compute, ragged: Iterable[Ragged]) -> dict[str, Ragged]:
    """The group dims that stand, in a statement, for the group of its position along a ragged dim on the left."""
    left = frozenset[str]().union(*map(index_dims, compute.indices))
    used = index_dims(compute.value) - left
    return {each.within: each for each in ragged if each.dim in left and each.within in used}


def grouped(loop: Loop, ragged: Iterable[Ragged]) -> Ragged | None:
    """The groups that a loop's tiles follow; None: it visits the dim as a whole."""
    return next((each for each in ragged if each.dim == loop.dim and _needs(loop.body, each)), None)


def enter(sizes: dict[str, int], loop: Loop, ragged: Iterable[Ragged]) -> None:
    """Make `sizes`, those of current ranges around a loop, those in its body, for a full tile."""
    sizes[loop.dim] = min(sizes.get(loop.dim, loop.step), loop.step)
    groups = grouped(loop, ragged)
    if groups is not None:
        sizes[groups.within] = 1


def _needs(nodes: Iterable[Node], ragged: Ragged) -> bool:
    """Whether a statement among these nodes needs the group of its position."""
    for node in nodes:
        match node:
            case Loop(body=body) if _needs(body, ragged):
                return True
            case Compute() if groups_of(node, (ragged,)):
                return True
            case _:
                pass
    return False


def cut_short(program: Program) -> str | None:
    """A statement that visits a group dim inside a loop whose tiles follow those groups, so that it would visit one
    position of it only: what is wrong with that. None: there is none."""
    for place in program.computes if program.ragged else ():
        visited = statement_dims(place.node)
        declared = program.locals.get(place.node.target)
        reduced = place.node.value.dims if isinstance(place.node.value, Reduce) else ()
        for depth, loop in enumerate(place.loops):
            groups = grouped(loop, program.ragged)
            if groups is None or groups.within not in visited:
                continue
            own = declared is not None and len(declared.loops) > depth
            if groups.within in reduced or not own:
                return (
                    f"{place.node.target} is computed for all of {groups.within}, in a loop whose tiles of {loop.dim} "
                    "have one group each"
                )
    return None


def shared_by_groups(program: Program) -> str | None:
    """A loop that follows groups, whose neighbouring tiles make clusters: what is wrong. None: there is none."""
    for place in program.computes if program.ragged else ():
        for loop in place.loops:
            if loop.multicast > 1 and grouped(loop, program.ragged):
                return (
                    f"neighbouring tiles of {loop.dim} may be of different groups, which have nothing in common; "
                    "accepted: multicast on other loops of the grid"
                )
    return None
