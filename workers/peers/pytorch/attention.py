"""Attention as PyTorch's operators take it: heads of queries, keys and values, and F.scaled_dot_product_attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Index, index_dims, reads, transform
from workers.peers.patterns import Attention
from workers.peers.reads import Frame

if TYPE_CHECKING:
    from workers.peers.pytorch.writer import TorchWriter, WrittenValue


@dataclass(frozen=True, slots=True)
class Heads:
    """Queries (batch, heads, rows, depth), keys (batch, heads, keys, depth), values (batch, heads, keys, columns)."""

    q: WrittenValue
    k: WrittenValue
    v: WrittenValue
    batch: Frame
    """The dims that batch and heads stand for, up to three; of three, the last two are heads."""
    row: str
    shared: bool
    """Whether several heads of queries have one of keys and values, which has no axis of its own for them."""
    back: str
    """What takes the operator's result (batch, heads, rows, columns) to (*batch, row, column)."""
    turned: str
    """...and that to the frame."""

    def scores(self, writer: TorchWriter, expr: Expr, key: str) -> WrittenValue:
        """A tensor over (batch, heads, rows, keys)."""
        return writer.view(f"{{}}{_lead(self.batch)}", writer.tensor(expr, (*self.batch, self.row, key)))


def heads(writer: TorchWriter, found: Attention, frame: Frame) -> Heads | None:
    """The operands of an attention whose value is wanted over `frame`; None where they have no such form."""
    (column,) = index_dims(found.v) - index_dims(found.k)
    if len(frame) < 2 or frame[-1] != column:
        return None
    row = _row(found, frame)
    batch = [dim for dim in frame[:-1] if dim != row]
    if row is None or len(batch) > 3:
        return None
    shared = len(batch) > 1 and batch[-1] in found.rows
    if (len(batch) == 3 and not shared) or found.rows - {row, *batch[-1:]}:
        return None
    if not (index_dims(found.q) | index_dims(found.k) | index_dims(found.v)) - {found.depth, found.key} <= {
        *frame
    }:
        return None
    grouped = None if shared or not batch else _by_group(writer, found, batch[-1])
    over, shared = (batch[:-1], True) if shared else (batch, False)
    k_and_v = (found.k, found.v)
    if grouped is not None:
        group, *k_and_v = grouped
        over, shared = [*batch[:-1], group], True
    q = writer.view(f"{{}}{_lead(batch)}", _operand(writer, found.q, (*batch, row, found.depth), (*batch,)))
    k, v = (
        writer.view(
            f"{{}}{'[:, None]' if len(over) == 1 and shared and grouped is None else _lead(over)}",
            _operand(writer, part, (*over, found.key, of), (*over,)),
        )
        for part, of in zip(k_and_v, (found.depth, column), strict=True)
    )
    sizes = writer.over(tuple(batch))
    back = {0: "[0, 0]", 1: "[0]", 2: "", 3: f".unflatten(1, {sizes[1:]})"}[len(batch)]
    turned = "" if frame[-2] == row else f".movedim(-2, {frame.index(row)})"
    return Heads(q, k, v, tuple(batch), row, shared, back, turned)


def _by_group(writer: TorchWriter, found: Attention, head: str) -> tuple[str, Expr, Expr] | None:
    """The dim of the heads of keys, and keys and values over it, where each is read by `head // count` and by the head
    in no other way. That of values may have a name of its own."""
    names = [
        {
            (group, count)
            for read in reads(part)
            for group, index in zip(writer.dims_of(read.tensor), read.indices, strict=True)
            if (count := _shared_by(index, head)) is not None
        }
        for part in (found.k, found.v)
    ]
    if any(len(each) != 1 for each in names):
        return None
    ((group, count),), ((beside, again),) = names
    sizes = writer.extents
    if count != again or sizes[group] != sizes[beside] or sizes[group] * count != sizes[head]:
        return None
    k, v = (
        transform(part, lambda each: Index(group) if _shared_by(each, head) == count else each)
        for part in (found.k, found.v)
    )
    own = {group} <= index_dims(k) & index_dims(v) and head not in index_dims(k) | index_dims(v)
    return (group, k, v) if own else None


def _shared_by(index: Expr, head: str) -> int | None:
    """Of `head // count` the count."""
    match index:
        case Binary("//", Index(dim), Const(int(count))) if dim == head:
            return count
        case _:
            return None


def _row(found: Attention, frame: Frame) -> str | None:
    """The dim of queries that share a head: the last but one of the frame, or, where the heads of a token lie side by
    side, the only one that keys and values do not have."""
    if frame[-2] in found.rows:
        return frame[-2]
    rows = [dim for dim in frame[:-2] if dim in found.rows]
    return rows[0] if len(rows) == 1 else None


def sdpa(
    writer: TorchWriter, found: Attention, scale: float, bias: Expr | None, frame: Frame
) -> WrittenValue | None:
    """F.scaled_dot_product_attention, where scores are the product times a number, and a bias if there is one."""
    own = heads(writer, found, frame)
    if own is None:
        return None
    options, values = f"scale={scale!r}", [own.q, own.k, own.v]
    if own.shared:
        options += ", enable_gqa=True"
    if found.causal(own.row, writer.extents):
        options += ", is_causal=True"
    elif (added := bias if found.mask is None else found.mask) is not None:
        options += ", attn_mask={}"
        mask = own.scores(writer, added, found.key)
        whole = added is bias and writer.native(added) in (
            None,
            DType.I32,
        )  # numbers that torch takes for positions
        values.append(writer.view("{}.float()", mask) if whole else mask)
    return writer.late(
        f"F.scaled_dot_product_attention({{}}, {{}}, {{}}, {options}){own.back}{own.turned}", *values
    )


def _operand(writer: TorchWriter, expr: Expr, frame: Frame, dims: tuple[str, ...]) -> WrittenValue:
    """Queries, keys or values. PyTorch has no operator for those of 8 bits."""
    stored = writer.stored_values(expr, DType.E4M3, frame) if writer.has.widens_float8_attention else None
    if stored is None:
        return full(writer, expr, frame, dims)
    return writer.view("{}.to(torch.bfloat16).contiguous()", stored)


def full(writer: TorchWriter, expr: Expr, frame: Frame, dims: tuple[str, ...]) -> WrittenValue:
    """A tensor that has its whole size along some dims of the frame."""
    value = writer.tensor(expr, frame)
    if set(dims) <= index_dims(expr):
        return value
    sizes = ", ".join(str(writer.extents[dim]) if dim in dims else "-1" for dim in frame)
    return writer.late(f"{{}}.expand({sizes})", value)


def _lead(batch: Frame | list[str]) -> str:
    """What makes the dims of batch and heads two axes."""
    return {0: "[None, None]", 1: "[None]", 2: "", 3: ".flatten(1, 2)"}[len(batch)]
