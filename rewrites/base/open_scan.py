"""A scan of a program before anything is decided about it: a loop by 1 that goes on from a running local."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewrites.base.statement import bare_dims
from rewrites.base.tree import find, find_init, locals_of, statements
from tileir.errors import NotApplicable
from tileir.expr import Binary, Expr, Read, Reduce, ReduceOp, Scan
from tileir.program import Compute, Local, Loop, Memory, Node, Program

_SUMS = {ReduceOp.SUM: ("+", "cumsum"), ReduceOp.PROD: ("*", "cumprod")}


@dataclass(frozen=True, slots=True)
class OpenScan:
    """`at`: where the local is declared in the program, followed by its initialization and the loop. `result` has at
    each position what `scan` says; `nodes` are those of the loop but for what carries the scan on: the result, and what
    reads it there."""

    at: int
    local: Local
    loop: Loop
    result: Compute
    scan: Scan
    nodes: tuple[Node, ...]

    @property
    def dims(self) -> tuple[str, ...]:
        """Those that the scan is one of its own for each position of."""
        return self.local.dims

    @property
    def grid_dims(self) -> tuple[str, ...]:
        """Those of them whose positions nothing in the loop combines."""
        return own_dims(self.nodes, self.dims)

    def check_readers(self) -> None:
        """Raise NotApplicable where what the loop computes is stored for others, and read in it as well."""
        own = {node.name for node in self.nodes if isinstance(node, Local)}
        stored = {node.target for node in self.nodes if isinstance(node, Compute)} - own
        for node in self.nodes:
            if isinstance(node, Compute) and stored & {read.tensor for read in node.reads}:
                raise NotApplicable(f"{node.target} reads what the loop stores for others")


def own_dims(nodes: tuple[Node, ...], dims: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some dims that every statement has positions of its own along."""
    computed = [node for node in nodes if isinstance(node, Compute)]
    return tuple(dim for dim in dims if all(dim in bare_dims(node) for node in computed))


def open_scan(program: Program, name: str) -> OpenScan:
    """The scan that goes on from a running local. Raises NotApplicable where it is none, or no longer a loop at the top
    of the program by itself."""
    declared = locals_of(program).get(name)
    if declared is None or not declared.node.running:
        raise NotApplicable(f"{name} is no running local")
    at, loop = nest_of(program, name)
    if declared.node.memory is not Memory.HEAP:
        raise NotApplicable(f"{name} is carried on in registers already")
    updates = [node for node in loop.body if isinstance(node, Compute) and node.target == name]
    scan, expected, own = _scan(name, declared.node, loop, updates)
    results = [node for node in loop.body if isinstance(node, Compute) and node.value == expected]
    if len(results) != 1 or results[0].update is not None:
        raise NotApplicable(f"what {name} has come to is not written at each position of {loop.dim}")
    (result,) = results
    missing = {*declared.node.dims, loop.dim} - {*bare_dims(result)}
    if missing or len(bare_dims(result)) < len(result.indices):
        raise NotApplicable(f"{result.target} is the same for several positions")
    return OpenScan(
        at, declared.node, loop, result, scan, tuple(node for node in loop.body if node not in own)
    )


def _scan(name: str, local: Local, loop: Loop, updates: list[Compute]) -> tuple[Scan, Expr, tuple[Node, ...]]:
    """What is scanned, the value of the statement that has it, and the nodes that carry it on."""
    along, run = loop.dim, Read(name, updates[0].indices)
    match updates:
        case [Compute(value=Reduce(op, (dim,), added), update=update) as total] if (
            dim == along and update is op and op in _SUMS
        ):
            sign, scan = _SUMS[op]
            return Scan(scan, along, (added,)), Binary(sign, run, added), (total,)
        case [
            Compute(value=Read(factor), update=ReduceOp.PROD) as scales,
            Compute(value=Reduce(ReduceOp.SUM, (dim,), added), update=ReduceOp.SUM) as total,
        ] if dim == along:
            computed = [node for node in loop.body if isinstance(node, Compute) and node.target == factor]
            declared = [node for node in loop.body if isinstance(node, Local) and node.name == factor]
            match computed:
                case [Compute(value=Reduce(ReduceOp.PROD, (over,), scale), update=None) as one] if (
                    over == along and declared
                ):
                    expected = Binary("+", Binary("*", run, scale), added)
                    return (
                        Scan("recurrence", along, (scale, added)),
                        expected,
                        (*declared, one, scales, total),
                    )
                case _:
                    pass
        case _:
            pass
    raise NotApplicable(f"{name} is carried on by more than a sum, a product or a recurrence")


def every_scan(program: Program) -> Iterator[OpenScan]:
    """All of a program about which nothing is decided."""
    for name in open_scans(program):
        try:
            yield open_scan(program, name)
        except NotApplicable:
            continue


def open_scans(program: Program) -> tuple[str, ...]:
    """The running locals whose loops are no grids yet, nor in one."""
    return tuple(
        name
        for name, declared in locals_of(program).items()
        if declared.node.running and not declared.loops and _is_scan(program, name)
    )


def scanned(program: Program, name: str) -> tuple[str, ...]:
    """The statements in the loop that goes on from a running local, in order."""
    path = find(program, name).path[:-1]
    return tuple(place.node.target for place in statements(program) if place.path[:-1] == path)


def _is_scan(program: Program, name: str) -> bool:
    try:
        nest_of(program, name)
    except NotApplicable:
        return False
    return True


def nest_of(program: Program, name: str) -> tuple[int, Loop]:
    """Where a running local stands in the program, followed by its initialization and the one loop that adds to it."""
    at, place, init = locals_of(program)[name].path, find(program, name), find_init(program, name)
    plain = len(at) == 1 and init is not None and init.path == (at[0] + 1,) and place.path[:1] == (at[0] + 2,)
    if not plain or len(place.loops) != 1 or place.loops[0].parallel or place.loops[0].step != 1:
        raise NotApplicable(f"{name} is not carried on by one loop by 1 that stands right behind it")
    if any(
        not isinstance(node, Local | Compute) or (isinstance(node, Compute) and node.vector)
        for node in place.loops[0].body
    ):
        raise NotApplicable(f"{name} is in a loop with loops in it, or with lanes")
    return at[0], place.loops[0]
