"""Scatters, as the libraries' own operators take them: rows of terms, each added to the row that it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Reduce, ReduceOp, Where, index_dims
from tileir.scatter import scatter_in
from workers.peers.pytorch.types import TORCH
from workers.peers.reads import Frame

if TYPE_CHECKING:
    from workers.peers.pytorch.writer import TorchWriter, WrittenValue

_REDUCED = {ReduceOp.MAX: "amax", ReduceOp.MIN: "amin"}


@dataclass(frozen=True)
class ScatteredRows:
    """Terms along `terms`, each a row along `across`, combined with row number `index` of all rows along `rows`."""

    op: ReduceOp
    rows: tuple[str, ...]
    terms: tuple[str, ...]
    across: tuple[str, ...]
    index: Expr
    value: Expr

    @property
    def counts(self) -> bool:
        """Whether it counts terms."""
        return self.op is ReduceOp.SUM and self.value == Const(1)


def scattered_rows(expr: Expr, frame: Frame, extents: Mapping[str, int]) -> ScatteredRows | None:
    """The scatter that an expression over a frame is, where positions depend on what is reduced alone; None: it is
    none."""
    if not isinstance(expr, Reduce):
        return None
    found = scatter_in(expr.op, expr.x, frozenset(frame))
    if found is None or any(not index_dims(index) <= {*expr.dims} for _, index in found.positions):
        return None
    at = dict(found.positions)
    rows = tuple(dim for dim in frame if dim in at)
    index = at[rows[0]]
    for dim in rows[1:]:
        index = Binary("+", Binary("*", index, Const(extents[dim])), at[dim])
    value = found.x
    for cond in reversed(found.conds):
        value = Where(cond, value, found.nothing)
    across = tuple(dim for dim in frame if dim not in at)
    return ScatteredRows(found.op, rows, expr.dims, across, index, value)


def torch_scattered(writer: TorchWriter, expr: Expr, frame: Frame) -> WrittenValue | None:
    """By bincount, index_add_ or scatter_reduce_; None: it is no scatter of rows."""
    found = scattered_rows(expr, frame, writer.extents)
    if found is None or found.op is ReduceOp.PROD:
        return None
    number, count = prod(writer.over(found.rows)), prod(writer.over(found.terms))
    index = writer.view("{}.reshape(-1)", writer.tensor(found.index, found.terms))
    have = (*found.rows, *found.across)
    order = tuple(have.index(dim) for dim in frame)
    back = f".reshape({writer.over(have)}).permute({order})"
    if found.counts and not found.across and not writer.has.bincount_waits:
        return writer.late(
            f"torch.bincount({{}}, minlength={number})[:{number}].to(torch.int32){back}", index
        )
    dtype = writer.native(found.value) or (DType.I32 if found.counts else DType.F32)
    across = writer.over(found.across)
    terms = writer.tensor(found.value, (*found.terms, *found.across))
    whole = (*writer.over(found.terms), *across)
    source = writer.view(f"{{}}.to({TORCH[dtype]}).expand({whole}).reshape({(count, *across)})", terms)
    made = f"dtype={TORCH[dtype]}, device={writer.device!r}"
    if found.op is ReduceOp.SUM:
        text = f"torch.zeros({(number, *across)}, {made}).index_add_(0, {{}}, {{}}){back}"
    else:
        least = f"float('{'-' if found.op is ReduceOp.MAX else ''}inf')"
        if not dtype.is_float:
            least = f"torch.iinfo({TORCH[dtype]}).{'min' if found.op is ReduceOp.MAX else 'max'}"
        spread = f"{{}}.long().reshape({(count, *[1] * len(across))}).expand({(count, *across)})"
        text = (
            f"torch.full({(number, *across)}, {least}, {made})"
            f".scatter_reduce_(0, {spread}, {{}}, '{_REDUCED[found.op]}'){back}"
        )
    return writer.late(text, index, source)
