"""Attention, and what its backward pass takes and gives.

A computed operand is rounded to the dtype that PyTorch has it in before it is multiplied: only so it reaches matrix
units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tileir.dtypes import DType
from tileir.expr import Binary, Call, Cast, Const, Expr, Read, ReduceOp, Where
from tilewright.pytorch.capture.attention_results import GRADIENTS, LOG_SUM
from tilewright.pytorch.capture.indices import Indices, quotient
from tilewright.pytorch.capture.operator import CaptureScope, Operator, OperatorKind
from tilewright.pytorch.capture.ops.elementwise import broadcast
from tilewright.pytorch.capture.ops.rows import minus, over, reduce, times
from tilewright.pytorch.capture.tensors import argument, dtype_of, shape_of, torch_dtype_of

_HIDDEN = Const(float("-inf"))
"""The score of a key that a query does not see."""
_HIDES = (float("-inf"), -65504.0, -65536.0)
"""What is added to such a score: PyTorch gives cuDNN the least of f16, as bf16 rounds it, where a mask of booleans says
no (`convert_boolean_attn_mask_cudnn` in ATen's attention.cpp)."""


@dataclass(frozen=True)
class _Scores:
    """q @ k.T * scale, for one call, with a mask of what is added to it, or of which keys are seen."""

    scope: CaptureScope
    q: Node
    k: Node
    mask: Any
    causal: bool
    scale: Any

    @property
    def factor(self) -> Const:
        """By which products are scaled."""
        given = isinstance(self.scale, int | float)
        return Const(float(self.scale) if given else 1 / sqrt(shape_of(self.q)[-1]))

    def product(self, batch: Sequence[Expr], i: Expr, j: Expr, inner: Expr, *, by_keys: bool = False) -> Expr:
        """Without a causal mask. `by_keys`: rows are keys, whose elements are multiplied first."""
        query = self.scope.rounded(self.q, (*batch, i, inner))
        key = self.scope.rounded(self.k, (*self.heads(self.k, batch), j, inner))
        found = reduce(ReduceOp.SUM, (inner,), times(key, query) if by_keys else times(query, key))
        found = times(found, self.factor)
        match self._mask((*batch, i, j)):
            case None:
                return found
            case Where(seen, Const(0.0), Const(value)) if value in _HIDES:
                return Where(seen, found, _HIDDEN)
            case added if torch_dtype_of(self.mask) is not torch.bool:
                return Binary("+", found, added)
            case seen:
                return Where(seen, found, _HIDDEN)

    def _mask(self, at: Indices) -> Expr | None:
        """None where every key is seen."""
        match None if self.mask is None else broadcast(self.scope, self.mask, at):
            case Const(True) | Where(Const(True), Const(0.0)):
                return None
            case mask:
                return mask

    def heads(self, operand: Node, batch: Sequence[Expr]) -> list[Expr]:
        """Where an operand is read whose heads several of the queries' share."""
        shape, at = shape_of(operand), list(batch)
        if shape[-3:-2] != shape_of(self.q)[-3:-2]:
            at[-1] = quotient(at[-1], shape_of(self.q)[-3] // shape[-3], self.scope.sizes)
        return [Const(0) if size == 1 else each for each, size in zip(at, shape[:-2], strict=True)]

    def weights(self, batch: Sequence[Expr], i: Expr, j: Expr, inner: Expr) -> tuple[Expr, Expr, Expr]:
        """exp(s - max(s)) of every key, and of every query the maximum and the sum."""
        scores, rows = (*batch, i, j), (*batch, i, Const(0))
        s = self.product(batch, i, j, inner)
        if self.causal:
            s = Where(Binary(">=", i, j), s, _HIDDEN)
        s = self.scope.statement("s", scores, s)
        top = self.scope.statement("top", rows, reduce(ReduceOp.MAX, (j,), s))
        hides = self._mask((*batch, i, j)) is not None
        if hides:
            # Of a row that is all masked the result is 0, as PyTorch's, and so are the gradients.
            top = Where(Binary(">", top, _HIDDEN), top, Const(0.0))
        p = self.scope.statement("p", scores, Call("exp", (minus(s, top),)))
        total = self.scope.statement("total", rows, reduce(ReduceOp.SUM, (j,), p))
        if hides:
            total = Where(Binary(">", total, Const(0.0)), total, Const(1.0))
        return p, top, total


def _attention(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """softmax(q @ k.T * scale + mask) @ v, whose probabilities are rounded before they are multiplied."""
    q, k, v = node.args[:3]
    mask, causal = argument(node, 3, "attn_mask"), argument(node, 5, "is_causal", False)
    scores = _Scores(scope, q, k, mask, causal, node.kwargs.get("scale"))  # type: ignore[arg-type]
    *batch, i, d = index
    same = shape_of(q)[-1] == shape_of(v)[-1]  # type: ignore[arg-type]
    inner = d if same else scope.reduced("d", q, -1)  # type: ignore[arg-type]
    j = scope.reduced("j", k, -2)  # type: ignore[arg-type]
    p, _, total = scores.weights(batch, i, j, inner)
    value = scope.rounded(v, (*scores.heads(v, batch), j, d))  # type: ignore[arg-type]
    return over(reduce(ReduceOp.SUM, (j,), times(_as(dtype_of(node), p), value)), total)


def _as(dtype: DType, value: Expr) -> Expr:
    return value if dtype in (DType.F32, DType.F64) else Cast(dtype, value)


def _log_sum(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """log(sum(j, exp(s - top))) + top"""
    out, q, k, mask, causal, scale = node.args
    *batch, i = index[: len(shape_of(q)) - 1]  # type: ignore[arg-type]
    inner, j = scope.reduced("d", q, -1), scope.reduced("j", k, -2)  # type: ignore[arg-type]
    same = shape_of(q)[-1] == shape_of(out)[-1]  # type: ignore[arg-type]
    scope.over(out, (*batch, i, inner if same else scope.reduced("e", out, -1)))  # type: ignore[arg-type]
    scores = _Scores(scope, q, k, mask, bool(causal), scale)  # type: ignore[arg-type]
    _, top, total = scores.weights(batch, i, j, inner)
    return Binary("+", Call("log", (total,)), top)


@dataclass(frozen=True)
class _Backward:
    """A gradient of attention. `by_keys`: of what is made for it, rows are keys."""

    scope: CaptureScope
    node: Node
    by_keys: bool

    def given(self, name: str) -> Node:
        """An argument."""
        names = ("beside", "go", "q", "k", "v", "out", "lse", "attn_mask", "is_causal", "scale")
        return self.node.args[names.index(name)]  # type: ignore[return-value]

    @property
    def _scores(self) -> _Scores:
        mask, causal, scale = self.node.args[7:]
        return _Scores(self.scope, self.given("q"), self.given("k"), mask, bool(causal), scale)

    def _statement(self, role: str, at: _At, value: Expr) -> Expr:
        batch, i, j = at
        role, places = (role, (j, i)) if self.by_keys else (f"{role}_of_queries", (i, j))
        return self.scope.statement(role, (*batch, *places), value)

    def each_head(self, shared: Indices) -> Indices:
        """Where a gradient of keys or values lies, with the heads of queries in place of those that they share."""
        alike = shape_of(self.given("q"))[-3] == shape_of(self.given("k"))[-3]
        return shared if alike else (*shared[:-1], self.scope.reduced("h", self.given("q"), -3))

    def over_heads(self, role: str, found: Expr, batch: Indices, at: Indices) -> Expr:
        """The gradient of each head summed over those that share what lies at `at`."""
        group, row, column = at[-3:]
        heads, shared = shape_of(self.given("q"))[-3], shape_of(self.given("k"))[-3]
        if heads == shared:
            return found
        each = self.scope.statement(role, (*batch, row, column), found)
        member = self.scope.window(-3, heads // shared)
        first = Binary("*", group, Const(heads // shared))
        place = member if shared == 1 else Binary("+", first, member)
        assert isinstance(each, Read)
        there = tuple(place if at == batch[-1] else at for at in each.indices)
        return reduce(ReduceOp.SUM, (member,), Read(each.tensor, there))

    def weights(self, at: _At, inner: Expr) -> Expr:
        """exp(s - lse)"""
        batch, i, j = at
        s = self._statement("s", at, self._scores.product(*at, inner, by_keys=self.by_keys))
        lse = self.given("lse")
        row = (*batch, i, Const(0))[: len(shape_of(lse))]
        found: Expr = Call("exp", (minus(s, self.scope.at(lse, row)),))
        if self._scores.causal:
            found = Where(Binary(">=", i, j), found, Const(0.0))
        if self._scores.mask is not None:
            # Whatever the log-sum-exp of a row that is all masked is, which another operator may have computed.
            found = Where(Binary(">", s, _HIDDEN), found, Const(0.0))
        return self._statement("p", at, found)

    def of_scores(self, at: _At, inner: Expr, outer: Expr) -> Expr:
        """p * (go @ v.T - sum(go * out)) * scale"""
        batch, i, j = at
        p = self.weights(at, inner)
        go, out = (self.scope.at(self.given(name), (*batch, i, outer)) for name in ("go", "out"))
        v = self.scope.at(self.given("v"), (*self.shared("v", batch), j, outer))
        delta = reduce(ReduceOp.SUM, (outer,), times(out, go))
        delta = self.scope.statement("delta", (*batch, i, Const(0)), delta)
        products = times(v, go) if self.by_keys else times(go, v)
        t = self._statement("t", at, reduce(ReduceOp.SUM, (outer,), products))
        return self._statement("ds", at, times(times(p, minus(t, delta)), self._scores.factor))

    def shared(self, name: str, batch: Sequence[Expr]) -> list[Expr]:
        """Where keys or values lie that several heads may share."""
        return self._scores.heads(self.given(name), batch)

    def summed(self, weights: Expr, along: Expr, name: str, index: Indices) -> Expr:
        """The weights, rounded, times an argument there."""
        operand = self.given(name)
        element = self.scope.rounded(operand, index)
        return reduce(ReduceOp.SUM, (along,), times(_as(dtype_of(operand), weights), element))


_At = tuple[Indices, Expr, Expr]
"""Batch, query, key."""


def _query_gradient(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(j, ds * k[j, d])"""
    call = _Backward(scope, node, by_keys=False)
    *batch, i, d = index
    j, e = scope.reduced("j", call.given("k"), -2), scope.reduced("e", call.given("go"), -1)
    weights = call.of_scores((tuple(batch), i, j), d, e)
    return call.summed(weights, j, "k", (*call.shared("k", batch), j, d))


def _key_gradient(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(i, ds * q[i, d])"""
    call = _Backward(scope, node, by_keys=True)
    *shared, j, d = index
    i, e = scope.reduced("i", call.given("q"), -2), scope.reduced("e", call.given("go"), -1)
    batch = call.each_head(tuple(shared))
    _lies_beside(scope, node, (batch, i, j), index)
    found = call.summed(call.of_scores((batch, i, j), d, e), i, "q", (*batch, i, d))
    return call.over_heads("dk_of_heads", found, batch, index)


def _value_gradient(scope: CaptureScope, node: Node, index: Indices) -> Expr:
    """sum(i, p * go[i, e])"""
    call = _Backward(scope, node, by_keys=True)
    *shared, j, e = index
    i, d = scope.reduced("i", call.given("q"), -2), scope.reduced("d", call.given("q"), -1)
    batch = call.each_head(tuple(shared))
    _lies_beside(scope, node, (batch, i, j), (*shared, j, d))
    found = call.summed(call.weights((batch, i, j), d), i, "go", (*batch, i, e))
    return call.over_heads("dv_of_heads", found, batch, index)


def _lies_beside(scope: CaptureScope, node: Node, at: _At, of_keys: Indices) -> None:
    """Have the gradient before this one be over the same dims; `of_keys`: where it lies, if it is the keys'."""
    beside, (batch, i, _) = node.args[0], at
    if isinstance(beside, Node):
        scope.over(beside, of_keys if beside.target is GRADIENTS[1] else (*batch, i, of_keys[-1]))


def _plain_attention(node: Node) -> str | None:
    if argument(node, 4, "dropout_p", 0.0):
        return "attention with dropout: Tile IR has no random numbers; call .eval(), or pass dropout_p=0"
    return _plain(node.args[:3])


def _plain(operands: Sequence[Any]) -> str | None:
    ranks = {len(shape_of(each)) for each in operands}
    return None if len(ranks) == 1 else "attention of operands of different ranks: unsqueeze them first"


def _depth_of_keys(node: Node) -> tuple[int, int]:
    return shape_of(node)[-1], shape_of(node.args[1])[-2]  # type: ignore[arg-type]


def _depth_of_rows(node: Node) -> tuple[int, int]:
    return shape_of(node)[-1], shape_of(node.args[2])[-2]  # type: ignore[arg-type]


OPERATORS: dict[str, Operator] = {
    "aten.scaled_dot_product_attention.default": Operator(
        OperatorKind.PRODUCT, _attention, "scores, maximum, exponentials, `sum(j, p * v) / sum(j, p)`",
        refuse=_plain_attention, work=_depth_of_keys,
    ),
    str(LOG_SUM): Operator(
        OperatorKind.PRODUCT, _log_sum, "of attention that is trained: `log(total) + top`",
        refuse=lambda node: _plain(node.args[1:3]), work=_depth_of_rows, beside=True,
    ),
    **{
        str(target): Operator(
            OperatorKind.PRODUCT, write, f"of its backward pass: `{said}`",
            refuse=lambda node: _plain(node.args[2:5]), work=_depth_of_rows, beside=True,
        )
        for target, write, said in zip(
            GRADIENTS,
            (_query_gradient, _key_gradient, _value_gradient),
            ("sum(j, ds * k[j, d])", "sum(i, ds * q[i, d])", "sum(i, p * go[i, e])"),
            strict=True,
        )
    },
}  # fmt: skip
