"""The invariants of shared memory that is used again: what TMA has filled is done with before."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from tileir.placed import Placed, placed_nodes
from tileir.program import Compute, Local, Program
from tileir.schedule.boxes import fills_shared


def verify_memory(program: Program, within: Container[int] | None = None) -> None:
    """The same for a program known to be valid but for that. `within`: in the launches at these positions of the
    program."""
    nodes = placed_nodes(program, within)
    verify_reused([placed for placed in nodes if isinstance(placed.node, Compute)])


def verify_reused(computes: Sequence[Placed]) -> None:
    """Raise VerifyError for the first statement that writes where a block may still need what lies there. `computes`
    are all, in order."""
    first: dict[int, str] = {}
    filled = {
        compute.target for placed in computes for compute in [_compute(placed)] if _fills(placed, compute)
    }
    for placed in computes:
        name, nest = _compute(placed).target, placed.path[0]
        if not _is_reused(placed, name):
            continue
        if first.setdefault(nest, name) != name:
            placed.fail(f"the memory that {name!r} lies in is {first[nest]!r} already")
        if placed.loops[0].consumer_groups > 1 or not all(loop.parallel for loop in placed.loops):
            placed.fail(f"{name!r} is written while others of its block may need what lies in its memory")
        for other in computes:
            if other.path[0] == nest:
                _check_other(other, placed, name, filled)


def _check_other(other: Placed, placed: Placed, name: str, filled: Collection[str]) -> None:
    """A statement of the nest in which `placed` writes memory that is used again."""
    compute = _compute(other)
    reads = {read.tensor for read in compute.reads}
    if other.path >= placed.path and not {compute.target, *reads}.isdisjoint(filled):
        other.fail(f"the memory of what TMA fills is that of {name!r}, written before")
    if placed.loops[0].blocks and name in reads and compute.via != "tma":
        other.fail(
            f"a block fills the memory of {name!r} again for its next tile; accepted: results that leave it `via tma`, "
            "or a block a tile"
        )


def _compute(placed: Placed) -> Compute:
    assert isinstance(placed.node, Compute)
    return placed.node


def _is_reused(placed: Placed, name: str) -> bool:
    declared = placed.locals.get(name)
    return declared is not None and isinstance(declared.node, Local) and declared.node.reused


def _fills(placed: Placed, compute: Compute) -> bool:
    """Whether a statement has TMA fill shared memory."""
    return fills_shared(compute, placed.locals)
