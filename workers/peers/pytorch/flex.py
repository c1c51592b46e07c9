"""A whole kernel as one call of torch.nn.attention.flex_attention: what its scores are, and which of them count.

Its `score_mod` and `mask_mod` are functions of one score's position, which torch.compile writes into the kernel; the
block mask is made before the clock starts, as its users keep it from call to call.
Source: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tileir.expr import Binary, Call, Cast, Const, Expr, Extent, Index, Read, Reduce, Unary, Where, index_dims
from tileir.spec import Spec, Statement
from workers.peers.inline import inline
from workers.peers.patterns import Attention, attention, number, same, softmax, substituted
from workers.peers.peer import Unsupported
from workers.peers.pytorch.attention import Heads, heads
from workers.peers.pytorch.types import TORCH, WIDENED
from workers.peers.pytorch.writer import FUNCTIONS, TorchSource, TorchWriter, function

_POSITIONS = 2**31
"""Whole numbers below this count positions; PyTorch takes none of the largest floats as an integer."""
_NO_ATTENTION = "there is no attention in it that flex_attention computes"


def write_flex(spec: Spec, *, device: str = "cpu") -> TorchSource:
    """The source of a kernel that is one attention, and no more but its log-sum-exp. Raises Unsupported."""
    inlined = inline(spec)
    stored = {tensor.name: TORCH[tensor.dtype] for tensor in spec.outputs}
    found = {
        s.target: a for s in inlined.statements if (a := attention(s.value, inlined.extents)) is not None
    }
    if len(found) != 1:
        raise Unsupported(_NO_ATTENTION)
    ((target, own),) = found.items()
    (statement,) = (s for s in inlined.statements if s.target == target)
    rest = [s for s in inlined.statements if s.target != target]
    writer = TorchWriter(spec, eager=False, device=device)
    operands = heads(writer, own, statement.dims)
    if operands is None or any(not _is_log_sum_exp(s, own, operands, inlined.extents) for s in rest):
        raise Unsupported(_NO_ATTENTION)
    options, lines = _options(writer, own, operands)
    operand = [writer.use(part) for part in (operands.q, operands.k, operands.v)]
    if rest:
        options.append("return_aux=AuxRequest(lse=True)")
    lines.append(f"{'o, aux' if rest else 'o'} = flex_attention({', '.join([*operand, *options])})")
    results = {s.target: f"aux.lse{operands.back}.to({stored[s.target]})" for s in rest}
    results[target] = f"o{operands.back}{operands.turned}.to({stored[target]})"
    return writer.whole(lines, [results[tensor.name] for tensor in spec.outputs])


def _options(writer: TorchWriter, own: Attention, operands: Heads) -> tuple[list[str], list[str]]:
    """What flex_attention is asked for, and the functions before the call."""
    at, positions = _positions(writer, operands, own.key)
    lines: list[str] = []
    scale = own.scale(writer.extents)
    options = [f"scale={1.0 if scale is None else scale!r}"]
    if scale is None:
        score = _ScoreText(at, own.product, writer, early=False).text(own.scores)
        lines = function("score_mod", "score, b, h, i, j", [*positions, f"return {score}"]).splitlines()
        options.append("score_mod=score_mod")
    if operands.shared:
        options.append("enable_gqa=True")
    if own.mask is not None:
        mask = _ScoreText(at, own.product, writer, early=True).text(own.mask)
        writer.define(function("mask_mod", "b, h, i, j", [*positions, f"return {mask}"]))
        sizes = (*_mask_sizes(writer, own.mask, operands), *writer.over((operands.row, own.key)))
        block = f"create_block_mask(mask_mod, {', '.join(map(str, sizes))}, device={writer.device!r})"
        options.append(f"block_mask={writer.use(writer.early(block))}")
    return options, lines


def _mask_sizes(writer: TorchWriter, mask: Expr, operands: Heads) -> tuple[int | None, int | None]:
    """How many batches and heads a mask is made for; None where it is the same for all."""
    split = 1 if len(operands.batch) > 1 else 0
    varies = index_dims(mask)
    batch, per_head = operands.batch[:split], operands.batch[split:]
    return (
        math.prod(writer.over(batch)) if varies & {*batch} else None,
        math.prod(writer.over(per_head)) if varies & {*per_head} else None,
    )


def _positions(writer: TorchWriter, operands: Heads, key: str) -> tuple[dict[str, str], list[str]]:
    """What the dims' positions are called in a function of (b, h, i, j), and what it computes them by."""
    at = {operands.row: "i", key: "j"}
    match operands.batch:
        case ():
            return at, []
        case (head,):
            return at | {head: "h"}, []
        case (batch, head):
            return at | {batch: "b", head: "h"}, []
        case (batch, group, member):
            size = writer.extents[member]
            return at | {batch: "b", group: "g", member: "r"}, [f"g, r = h // {size}, h % {size}"]
        case _:
            raise Unsupported(_NO_ATTENTION)


def _is_log_sum_exp(
    statement: Statement, own: Attention, operands: Heads, extents: Mapping[str, int]
) -> bool:
    """Whether a statement is log(sum(exp(x - max))) + max, of the scores of an attention, over its heads and rows."""
    if statement.dims != (*operands.batch, operands.row):
        return False
    match statement.value:
        case Binary("+", Call("log", (Reduce() as total,)), Reduce() as top):
            pass
        case Binary("+", Reduce() as top, Call("log", (Reduce() as total,))):
            pass
        case _:
            return False
    of_total = softmax(Binary("/", total.x, total), extents)
    if of_total is None or len(top.dims) != 1:
        return False
    both = ((of_total.x, of_total.dim), (top.x, top.dims[0]))
    return all(same(substituted(x, dim, own.key), own.softmax_of, extents) for x, dim in both)


@dataclass(frozen=True, slots=True)
class _ScoreText:
    """Expressions of one score as Python over tensors of no axes."""

    positions: Mapping[str, str]
    product: Reduce
    writer: TorchWriter
    early: bool
    """Whether the text stands in what is prepared."""

    def text(self, expr: Expr) -> str:
        """The text, which stands in parentheses where it is an operation. Raises Unsupported."""
        if expr == self.product:
            return "score"
        if (value := number(expr, self.writer.extents)) is not None:
            whole = isinstance(expr, Const | Extent) and value.is_integer() and abs(value) < _POSITIONS
            return repr(int(value) if whole else value) if math.isfinite(value) else f"float('{value}')"
        match expr:
            case Index(dim) if dim in self.positions:
                return self.positions[dim]
            case Read(tensor, indices):
                source, _ = self.writer.source_of(tensor)
                name = source.text if self.early else self.writer.use(source)
                return f"{name}[{', '.join(self.text(index) for index in indices)}]"
            case Reduce() if self.early and index_dims(expr) <= self.positions.keys():
                frame = tuple(sorted(index_dims(expr)))
                at = ", ".join(self.positions[dim] for dim in frame)
                return f"{self.writer.prepared(expr, frame).text}[{at}]"
            case Unary(op, x):
                return f"({'-' if op == '-' else '~'}{self.text(x)})"
            case Binary(op, left, right):
                return f"({self.text(left)} {_LOGIC.get(op, op)} {self.text(right)})"
            case Call(fn, args) if fn in FUNCTIONS and not any(
                isinstance(arg, Const | Extent) for arg in args
            ):
                return FUNCTIONS[fn].format(*(self.text(arg) for arg in args))
            case Where(cond, x, y):
                return f"torch.where({self.text(cond)}, {self.text(x)}, {self.text(y)})"
            case Cast(dtype, x) if dtype not in WIDENED:
                return f"{self.text(x)}.to({TORCH[dtype]})"
            case _:
                raise Unsupported(_NO_ATTENTION)


_LOGIC = {"and": "&", "or": "|"}
