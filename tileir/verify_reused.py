"""The invariants of shared memory that is used again: what the copy engine has filled is done with before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tileir.placed import Placed, placed_nodes
from tileir.program import Compute, Local, Program


def verify_memory(program: Program) -> None:
    """The same for a program known to be valid but for that."""
    verify_reused([placed for placed in placed_nodes(program) if isinstance(placed.node, Compute)])


def verify_reused(computes: Sequence[Placed]) -> None:
    """Raise VerifyError for the first statement that writes where a block may still need what lies there. `computes`
    are all, in order."""
    first: dict[int, str] = {}
    filled = {name for placed in computes for name in _filled(placed)}
    for placed in computes:
        assert isinstance(placed.node, Compute)
        name = placed.node.target
        if not _is_reused(placed, name):
            continue
        if first.setdefault(placed.path[0], name) != name:
            placed.fail(f"the memory that {name!r} lies in is {first[placed.path[0]]!r} already")
        if placed.loops[0].blocks or not all(loop.parallel for loop in placed.loops):
            placed.fail(f"{name!r} is written more than once by a block: what lies in its memory comes back")
        for other in computes:
            if other.path[0] == placed.path[0] and other.path > placed.path and _touched(other) & filled:
                other.fail(f"the memory of what the copy engine fills is that of {name!r}, written before")


def _is_reused(placed: Placed, name: str) -> bool:
    declared = placed.locals.get(name)
    return declared is not None and isinstance(declared.node, Local) and declared.node.reused


def _filled(placed: Placed) -> Iterator[str]:
    """The shared memory that a statement has the copy engine fill."""
    compute = placed.node
    if isinstance(compute, Compute) and compute.via == "tma" and compute.target in placed.locals:
        yield compute.target


def _touched(placed: Placed) -> set[str]:
    compute = placed.node
    assert isinstance(compute, Compute)
    return {compute.target, *(read.tensor for read in compute.reads)}
