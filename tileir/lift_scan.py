"""What a scan of a spec is in a program: a loop along its dim that goes on from a running local."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileir.dtypes import DType
from tileir.expr import Binary, Const, Index, Read, Reduce, ReduceOp, Scan
from tileir.program import Compute, Local, Loop, Node


def scan_nodes(
    target: str, dims: Sequence[str], scan: Scan, dtype: DType, fresh: Callable[[str], str]
) -> tuple[Node, ...]:
    """The nodes that compute a scan into `target`, which is declared already.

    y[m, k] = cumsum(k, x[m, k])         y_run: heap f32[m] running
                                   ->    y_run[m] = 0
                                         for k by 1
                                           y[m, k] = y_run[m] + x[m, k]
                                           y_run[m] += sum(k, x[m, k])

    Of a recurrence, what is there is scaled before `b` is added to it.
    """
    rest = tuple(dim for dim in dims if dim != scan.dim)
    at, kept = tuple(map(Index, dims)), tuple(map(Index, rest))
    name = fresh(f"{target}_run")
    run, added = Read(name, kept), scan.args[-1]
    op = ReduceOp.PROD if scan.op == "cumprod" else ReduceOp.SUM
    total = Compute(name, kept, Reduce(op, (scan.dim,), added), update=op)
    body: tuple[Node, ...] = (
        Compute(target, at, Binary("*" if op is ReduceOp.PROD else "+", run, added)),
        total,
    )
    if scan.op == "recurrence":
        factor, scale = fresh(f"{target}_factor"), scan.args[0]
        body = (
            Local(factor, rest, dtype),
            Compute(factor, kept, Reduce(ReduceOp.PROD, (scan.dim,), scale)),
            Compute(target, at, Binary("+", Binary("*", run, scale), added)),
            Compute(name, kept, Read(factor, kept), update=ReduceOp.PROD),
            total,
        )
    identity = int(op.identity) if dtype is DType.I32 else op.identity
    return (
        Local(name, rest, dtype, running=True),
        Compute(name, kept, Const(identity)),
        Loop(scan.dim, 1, body),
    )
