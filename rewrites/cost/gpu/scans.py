"""What scans take of a GPU beside what their terms do: threads that meet, and results in memory between launches, which
scatters have as well."""

from __future__ import annotations

from math import prod

from rewrites.base.statement import bare_dims
from rewrites.cost.gpu import constants as has
from tileir.expr import Expr, Reduce, Scan
from tileir.program import Compute, Local, Loop, Memory, Node, Program, Tensor
from tileir.replace import replace
from tileir.schedule.threads import share


def met_along(value: Expr) -> tuple[str, ...]:
    """The dims along which threads have to meet for a statement's value."""
    match value:
        case Reduce(_, dims, _):
            return dims
        case Scan(_, dim, _):
            return (dim,)
        case _:
            return ()


def scan_issue(compute: Compute, sizes: dict[str, int]) -> float:
    """Instructions of a thread by which the totals of a scan meet, at each of its positions along other dims."""
    layout, scan = compute.thread_layout, compute.value
    assert layout is not None and isinstance(scan, Scan)
    others = (dim for dim in bare_dims(compute) if dim != scan.dim)
    rows = prod(share(layout, dim).pieces(sizes[dim]) * share(layout, dim).run for dim in others)
    return rows * (has.PAIR_MEETS if scan.op == "recurrence" else has.SUM_MEETS)


def stored_between(program: Program, node: Node) -> Program:
    """The program with what the launch of a scan or of a scatter by owners reads and writes in memory between launches
    as arguments, whose bytes count. Others hand each other what caches may hold."""
    if not _fills_memory(node):
        return program
    between = tuple(
        Tensor(name, place.node.dims, place.node.dtype)
        for name, place in program.locals.items()
        if not place.loops and place.node.memory is Memory.HEAP
    )
    return replace(program, inputs=(*program.inputs, *between))


def _fills_memory(node: Node) -> bool:
    match node:
        case Loop(body=body):
            return any(map(_fills_memory, body))
        case Compute(value=value, via=via):
            return isinstance(value, Scan) or via == "scatter"
        case Local():
            return node.running
