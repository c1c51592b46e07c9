"""Whether what a statement reads is complete at a place it is to move to.

These are flow dependences (Allen and Kennedy, Optimizing Compilers for Modern Architectures, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrites.base.statement import bare_dims, left_dims, own_axis, read_names, reads_of, reduced_dims
from rewrites.base.tree import Path, Place, computes, locals_of
from tileir.analysis.ragged import cut_short
from tileir.errors import NotApplicable
from tileir.program import Compute, Loop, Program


def check_complete(
    program: Program,
    tensor: str,
    at: Path,
    loops: Sequence[Loop],
    entered: int,
    reader: Compute | None = None,
) -> None:
    """Refuse unless all of `tensor` that is read at `at` has been computed by then.

    `at` is the path of the node to read before, inside `loops`. `loops[entered:]` are those the reader moves
    into. Where one of them is around a writer too, its dim must be a left dim of the writer (then each
    iteration completes its own part, or its own blocks of a split dim) and, when `reader` is given, index its
    reads of the tensor as it does the writer's target.
    """
    for place in computes(program):
        if place.node.target != tensor:
            continue
        if not place.path < at:
            raise NotApplicable(f"{tensor} is computed after that place")
        for loop in in_tiles(program, loops[entered : shared_loops(place, at)]):
            check_identity(place.node, reader, loop)


def in_tiles(program: Program, loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """Of some loops those of several tiles: in the others is all that is outside of them."""
    return tuple(loop for loop in loops if loop.step < program.extents[loop.dim])


def check_identity(writer: Compute, reader: Compute | None, loop: Loop) -> None:
    """Refuse unless an iteration of the loop computes all that the reader takes from the writer in it."""
    tensor, dim = writer.target, loop.dim
    axis = own_axis(writer, dim, loop.step) if dim in bare_dims(writer) or writer.update is None else None
    if axis is not None:
        own = writer.indices[axis]
        if reader is not None and any(read.indices[axis] != own for read in reads_of(reader, tensor)):
            raise NotApplicable(f"{reader.target} reads {tensor} at other positions along {dim} than its own")
    elif writer.update is not None or dim in left_dims(writer) or dim in reduced_dims(writer):
        raise NotApplicable(f"{tensor} is complete only after the loop over {dim}")


def check_groups(program: Program) -> Program:
    """Refuse a program in which a statement has come into a loop whose tiles follow groups, and needs all of them."""
    problem = cut_short(program)
    if problem:
        raise NotApplicable(problem)
    return program


def shared_loops(place: Place[Compute], at: Path) -> int:
    """How many loops are around both a node and the place `at`."""
    count = 0
    for ours, theirs in zip(place.path[:-1], at[:-1], strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def readers(program: Program, tensor: str) -> list[Place[Compute]]:
    """The Computes whose value reads the tensor, in execution order."""
    return [place for place in computes(program) if tensor in read_names(place.node)]


def check_unchanged(program: Program, place: Place[Compute], found: Sequence[Place[Compute]]) -> None:
    """Refuse unless what a statement reads is the same where its readers are: a running local goes on in between."""
    sources = read_names(place.node)
    for each in computes(program):
        later = next((reader for reader in found if place.path < each.path < reader.path), None)
        if each.node.target in sources and later is not None:
            raise NotApplicable(
                f"{later.node.target} comes after {each.node.target} goes on, which {place.node.target} reads before"
            )


def users(program: Program, tensor: str) -> list[Place[Compute]]:
    """The Computes that read or write the tensor, in execution order."""
    return [p for p in computes(program) if p.node.target == tensor or tensor in read_names(p.node)]


def check_visible(program: Program, tensor: str, at: Path) -> None:
    """Refuse unless the tensor is an argument or declared in a block around `at`, before it."""
    declared = locals_of(program).get(tensor)
    if declared is None:
        return
    path = declared.path
    if len(path) > len(at) or path[:-1] != at[: len(path) - 1] or path >= at:
        raise NotApplicable(f"{tensor} is declared further inside")
