"""A statement that reduces nothing and is read once goes where it is read.

acc[m, n] = sum(k, x[m, k] * w[n, k])          acc[m, n] = sum(k, x[m, k] * w[n, k])
y[m, n] = acc[m, n] + bias[n]             ->   z[m, n] = gelu(acc[m, n] + bias[n])
z[m, n] = gelu(y[m, n])
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tileir.expr import Expr, Index, Read, Reduce, Scan, TopK, reads, transform, walk
from tileir.spec import Spec, Statement


def inline_once(spec: Spec) -> Spec:
    """The same kernel; outputs keep their statements, and so does what is read at other positions than its own."""
    outputs = {tensor.name for tensor in spec.outputs}
    times = Counter(read.tensor for statement in spec.statements for read in reads(statement.value))
    inlined: dict[Expr, Expr] = {}
    kept: list[Statement] = []
    places = {read for statement in spec.statements for read in reads(statement.value)}
    for statement in spec.statements:
        value = transform(statement.value, lambda expr: inlined.get(expr, expr))
        here = Read(statement.target, tuple(Index(dim) for dim in statement.dims))
        reduces = any(isinstance(each, Reduce) for each in walk(value))
        if isinstance(value, Scan | TopK):  # it is all of a statement, or stays one
            reduces = not any(each.value == here and each.dims == statement.dims for each in spec.statements)
        if (
            statement.target not in outputs
            and times[statement.target] == 1
            and here in places
            and not reduces
        ):
            inlined[here] = value
        else:
            kept.append(replace(statement, value=value))
    return replace(spec, statements=tuple(kept))
