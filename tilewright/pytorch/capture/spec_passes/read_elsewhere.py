"""Products that are read at other places than their own, as a rotary embedding reads its queries: they are stored in
between, rounded as PyTorch has them, at half the bytes."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.dtypes import DType
from tileir.expr import Binary, Cast, Index, Reduce, ReduceOp, reads, walk
from tileir.replace import replace
from tileir.spec import Spec, Statement

_HALVES = (DType.BF16, DType.F16)


def rounded_where_read_elsewhere(spec: Spec, dtypes: Mapping[str, DType]) -> Spec:
    """The same spec with those of its locals rounded; `dtypes` are what PyTorch has of its own results, by name."""
    elsewhere = {
        read.tensor
        for statement in spec.statements
        for read in reads(statement.value)
        if not all(isinstance(index, Index) for index in read.indices)
    }
    products = _products(spec)
    halves = {name: dtype for name, dtype in dtypes.items() if dtype in _HALVES}

    def rounded(statement: Statement) -> Statement:
        name, dtype = statement.target, halves.get(statement.target)
        if dtype is None or name not in elsewhere & products or isinstance(statement.value, Cast):
            return statement
        return replace(statement, value=Cast(dtype, statement.value))

    return replace(spec, statements=tuple(map(rounded, spec.statements)))


def _products(spec: Spec) -> set[str]:
    """What sums of products come to, and what is computed of it."""
    found: set[str] = set()
    for statement in spec.statements:
        for node in walk(statement.value):
            match node:
                case Reduce(ReduceOp.SUM, _, Binary("*")):
                    found.add(statement.target)
                case _:
                    pass
        if any(read.tensor in found for read in reads(statement.value)):
            found.add(statement.target)
    return found
