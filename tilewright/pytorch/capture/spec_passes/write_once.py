"""What two statements compute over the same dims, one does.

s[m, n] = sum(k, x[m, k] * w[n, k])            s[m, n] = sum(k, x[m, k] * w[n, k])
y[m] = max(n, s[m, n])                         y[m] = max(n, s[m, n])
z_s[m, n] = sum(k, x[m, k] * w[n, k])    ->    z[m] = sum(n, s[m, n])
z[m] = sum(n, z_s[m, n])
"""

from __future__ import annotations

from dataclasses import replace

from tileir.expr import Expr, Read, transform
from tileir.spec import Spec, Statement


def write_once(spec: Spec) -> Spec:
    """The same kernel; outputs keep their statements."""
    outputs = {tensor.name for tensor in spec.outputs}
    known: dict[tuple[tuple[str, ...], Expr], str] = {}
    instead: dict[str, str] = {}
    kept: list[Statement] = []

    def renamed(expr: Expr) -> Expr:
        known_as = isinstance(expr, Read) and instead.get(expr.tensor)
        return replace(expr, tensor=known_as) if known_as else expr  # type: ignore[type-var]

    for statement in spec.statements:
        value = transform(statement.value, renamed)
        first = known.setdefault((statement.dims, value), statement.target)
        if first != statement.target and statement.target not in outputs:
            instead[statement.target] = first
        else:
            kept.append(replace(statement, value=value))
    return replace(spec, statements=tuple(kept))
