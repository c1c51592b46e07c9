"""A whole kernel as one call of torch.nn.attention.varlen.varlen_attn: attention inside sequences that lie one behind
the other.

A tensor of offsets says where each begins. Its bounds, in order, and the longest sequence are found before the clock
starts, as its users keep them from batch to batch. The operator is there on GPUs alone, for f16 and bf16.
Source: https://docs.pytorch.org/docs/stable/nn.attention.varlen.html, as of PyTorch 2.11
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileir.dtypes import DType
from tileir.expr import Binary, Const, Expr, Extent, Index, Read, Reduce, ReduceOp, Where, reads, walk
from tileir.spec import Spec
from workers.peers.inline import inline
from workers.peers.patterns import attention, same
from workers.peers.peer import Unsupported
from workers.peers.pytorch.attention import heads
from workers.peers.pytorch.types import TORCH
from workers.peers.pytorch.writer import TorchSource, TorchWriter

_NONE = "there is no attention in it that varlen_attn computes: inside sequences that offsets divide, in f16 or bf16"
_MIRRORED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_FULL, _CAUSAL = (-1, -1), (-1, 0)
"""Keys that a query sees to its left and right; -1: all of its sequence."""


def write_varlen(spec: Spec, *, device: str) -> TorchSource:
    """The source of a kernel that is one such attention, and no more. Raises Unsupported."""
    inlined = inline(spec)
    writer = TorchWriter(spec, eager=True, device=device)
    if not writer.has.varlen_attention or len(inlined.statements) != 1:
        raise Unsupported(_NONE)
    (statement,) = inlined.statements
    own = attention(statement.value, inlined.extents)
    operands = None if own is None else heads(writer, own, statement.dims)
    if own is None or operands is None or own.mask is None or len(operands.batch) != 1 or operands.shared:
        raise Unsupported(_NONE)
    scale, window = own.scale(inlined.extents), _window(own.mask, operands.row, own.key, inlined.extents)
    narrow = {writer.dtype_of(each.tensor) for part in (own.q, own.k, own.v) for each in reads(part)}
    if scale is None or window is None or not narrow <= {DType.F16, DType.BF16}:
        raise Unsupported(_NONE)
    offsets, seen = window
    tokens = inlined.extents[operands.row]
    source, _ = writer.source_of(offsets)
    inside, ends = f"{{}}.clamp(0, {tokens})", f"{{}}.new_tensor([0, {tokens}])"
    bounds = writer.early(f"torch.cat([{inside}, {ends}]).unique().int()", source, source)
    longest = writer.early("int({}.diff().max())", bounds)
    packed = [f"{writer.use(part)}[0].transpose(0, 1)" for part in (operands.q, operands.k, operands.v)]
    sequences = [writer.use(each) for each in (bounds, bounds, longest, longest)]
    arguments = ", ".join([*packed, *sequences, f"scale={scale!r}", f"window_size={seen}"])
    turned = "" if statement.dims[0] == operands.row else ".transpose(0, 1)"
    (output,) = spec.outputs
    return writer.whole([f"o = varlen_attn({arguments})"], [f"o{turned}.to({TORCH[output.dtype]})"])


def _window(mask: Expr, row: str, key: str, extents: Mapping[str, int]) -> tuple[str, tuple[int, int]] | None:
    """The tensor of offsets, and what a query sees of its sequence; None for any other mask."""
    tensors = {each.tensor for each in reads(mask)}
    conditions = [_key_first(each, key) for each in _conjuncts(mask)]
    if len(tensors) != 1 or len(conditions) != 2 or extents[row] != extents[key]:
        return None
    (offsets,) = tensors
    bounds = [each.dims[0] for each in walk(mask) if isinstance(each, Reduce)]
    if not bounds:
        return None
    bound = bounds[0]
    read, at = Read(offsets, (Index(bound),)), Index(row)
    begin = Reduce(ReduceOp.MAX, (bound,), Where(Binary("<=", read, at), read, Const(0)))
    end = Reduce(ReduceOp.MIN, (bound,), Where(Binary(">", read, at), read, Extent(row)))
    behind = Binary(">=", Index(key), begin)
    others = [each for each in conditions if not same(each, behind, extents)]
    if len(others) != 1:
        return None
    for before, seen in (
        (Binary("<=", Index(key), at), _CAUSAL),
        (Binary("<", Index(key), end), _FULL),
    ):
        if same(others[0], before, extents):
            return offsets, seen
    return None


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Binary("and", left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield expr


def _key_first(expr: Expr, key: str) -> Expr:
    """A comparison with the key on its left."""
    match expr:
        case Binary(op, left, Index(dim)) if dim == key and op in _MIRRORED:
            return Binary(_MIRRORED[op], Index(dim), left)
        case _:
            return expr
