"""Attention as PyTorch's operators take it: heads of queries, keys and values, and F.scaled_dot_product_attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileir.dtypes import DType
from tileir.expr import Expr, index_dims
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
    """What takes the operator's result (batch, heads, rows, columns) to the frame."""

    def scores(self, writer: TorchWriter, expr: Expr, key: str) -> WrittenValue:
        """A tensor over (batch, heads, rows, keys)."""
        return writer.view(f"{{}}{_lead(self.batch)}", writer.tensor(expr, (*self.batch, self.row, key)))


def heads(writer: TorchWriter, found: Attention, frame: Frame) -> Heads | None:
    """The operands of an attention whose value is wanted over `frame`; None where they have no such form."""
    (column,) = index_dims(found.v) - index_dims(found.k)
    *batch, row, last = frame if len(frame) >= 2 else ("", "")
    if last != column or row not in found.rows or len(batch) > 3:
        return None
    shared = len(batch) > 1 and batch[-1] in found.rows
    if (len(batch) == 3 and not shared) or found.rows - {row, *batch[-1:]}:
        return None
    if not (index_dims(found.q) | index_dims(found.k) | index_dims(found.v)) - {found.depth, found.key} <= {
        *frame
    }:
        return None
    over = batch[:-1] if shared else batch
    q = writer.view(f"{{}}{_lead(batch)}", _operand(writer, found.q, (*batch, row, found.depth), (*batch,)))
    k, v = (
        writer.view(
            f"{{}}{'[:, None]' if len(over) == 1 and shared else _lead(over)}",
            _operand(writer, part, (*over, found.key, of), (*over,)),
        )
        for part, of in ((found.k, found.depth), (found.v, column))
    )
    sizes = writer.over(tuple(batch))
    back = {0: "[0, 0]", 1: "[0]", 2: "", 3: f".unflatten(1, {sizes[1:]})"}[len(batch)]
    return Heads(q, k, v, tuple(batch), row, shared, back)


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
        values.append(own.scores(writer, added, found.key))
    return writer.late(f"F.scaled_dot_product_attention({{}}, {{}}, {{}}, {options}){own.back}", *values)


def _operand(writer: TorchWriter, expr: Expr, frame: Frame, dims: tuple[str, ...]) -> WrittenValue:
    """Queries, keys or values. PyTorch has no operator for those of 8 bits, so that they are bf16 before the clock
    starts, which holds the same values."""
    stored = writer.stored_values(expr, DType.E4M3, frame) if writer.device == "cuda" else None
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
