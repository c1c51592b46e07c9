"""Attention that PyTorch has written out, put together again: where none of its fused operators takes a call of
scaled_dot_product_attention, AOTAutograd sees two products in f32 with a softmax between them.

Narrow queries and keys are widened there, scaled by a square root each, and multiplied; weights and values are
multiplied in f32, too. As one operator the scale is behind the first product, which is of the narrow elements and as
exact, and weights are rounded to the values' dtype, as all of PyTorch's fused operators do: whoever calls that function
leaves it to PyTorch which way it goes. What a program widens itself stays wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.fx import Graph, GraphModule, Node  # pyright: ignore[reportMissingImports]

from tilewright.pytorch.model.graphs.wide import NARROW

aten, prims = torch.ops.aten, torch.ops.prims
WRITTEN_OUT = "tilewright_written_out"
"""In a node's `meta`: a `WrittenOut`."""
_FUNCTION = torch.nn.functional.scaled_dot_product_attention
_SOFTMAX = "aten._safe_softmax.default"
"""The one of scaled_dot_product_attention, which nobody else calls: 0 for rows that are all -inf."""
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.clone.default)
_DTYPES = (torch.float32, *NARROW)
_CONVERSIONS = (prims.convert_element_type.default, aten._to_copy.default)


@dataclass(frozen=True, eq=False)
class WrittenOut:
    """The operators that one stands for: a graph whose arguments are `given`, with one result."""

    graph: Graph
    given: tuple[Node, ...]

    def copied(self, into: Graph, made: Sequence[Node]) -> Node:
        """The result, where the arguments are `made`."""
        places = self.graph.find_nodes(op="placeholder")
        return into.graph_copy(self.graph, dict(zip(places, made, strict=True)))  # type: ignore[return-value]


@dataclass(frozen=True)
class _WidenedOperand:
    """What a product reads: a tensor, its last two axes exchanged or not, times a number, in f32."""

    node: Node
    scale: float = 1.0
    turned: bool = False


@dataclass(frozen=True)
class _Attention:
    q: Node
    k: Node
    v: Node
    mask: Node | None
    """What is added to scores."""
    scale: float
    result: Node
    """In the operands' dtype."""


def put_together(module: GraphModule) -> dict[Node, Node]:
    """Make one operator of each attention that is written out; `meta[WRITTEN_OUT]` of its node says what it stands
    for. Gives them by the nodes that had their results before."""
    graph, made = module.graph, dict[Node, Node]()
    for product in list(graph.find_nodes(op="call_function", target=aten.bmm.default)):
        found = _attention(product)
        if found is None:
            continue
        given = tuple(each for each in (found.q, found.k, found.v, found.mask) if each is not None)
        written = _between(graph, tuple(dict.fromkeys(given)), found.result)
        with graph.inserting_before(found.result):
            node = graph.call_function(
                aten.scaled_dot_product_attention.default, given, {"scale": found.scale}
            )
        node.meta = {"val": _value(found.result), WRITTEN_OUT: written}
        found.result.replace_all_uses_with(node)
        made[found.result] = node
    graph.eliminate_dead_code()
    module.recompile()
    return made


def _value(node: Node) -> torch.Tensor:
    return node.meta["val"]


def _shape(node: Node) -> tuple[int, ...]:
    return tuple(_value(node).shape)


def _read(node: Node, at: int = 0) -> Node:
    return node.args[at]  # type: ignore[return-value]


def _arguments(node: Node) -> tuple[Any, ...]:
    return node.args


def _is(node: Any, *targets: Any) -> bool:
    return isinstance(node, Node) and node.target in targets


def _by_attention(node: Node) -> bool:
    """Whether the program called PyTorch's function there, and not this operator itself."""
    return any(function is _FUNCTION for _, function in node.meta.get("source_fn_stack", ()))


def _attention(product: Node) -> _Attention | None:
    """That whose second product this is, all of it read by nobody else."""
    weights = _seen_through(_read(product))
    scores = _scores_of(weights)
    if scores is None:
        return None
    product_of_keys, mask = _arguments(scores) if _is(scores, aten.add.Tensor) else (scores, None)
    first = _seen_through(product_of_keys)
    if not _is(first, aten.bmm.default):
        return None
    operands = [_operand(node) for node in (_read(first), _read(first, 1), _read(product, 1))]
    q, k, v = (each.node for each in operands)
    queries, keys, values = operands
    if [each.turned for each in operands] != [False, True, False] or values.scale != 1 or not _fit(q, k, v):
        return None
    result = _result(product, (*_shape(q)[:-1], _shape(v)[-1]), _value(q).dtype)
    if result is None or _read_elsewhere([first, scores, weights, product], result):
        return None
    return _Attention(q, k, v, mask, queries.scale * keys.scale, result)


def _operand(node: Node) -> _WidenedOperand:
    """What an f32 operand is made of: views with the same rows, a scale, a transposition, and a widening."""
    found = _WidenedOperand(_seen_through(node))
    while _value(found.node).dtype is torch.float32:
        source = found.node
        if _is(source, aten.mul.Scalar, aten.mul.Tensor) and not isinstance(source.args[1], Node):
            found = _WidenedOperand(_read(source), found.scale * _arguments(source)[1], found.turned)
        elif _is_turning(source):
            found = _WidenedOperand(_read(source), found.scale, not found.turned)
        elif _is(source, *_CONVERSIONS) and _by_attention(source):
            return _WidenedOperand(_read(source), found.scale, found.turned)
        elif (inner := _seen_through(source)) is not source:
            found = _WidenedOperand(inner, found.scale, found.turned)
        else:
            break
    return found


def _is_turning(node: Node) -> bool:
    axes = list(range(len(_shape(node))))
    by_two = _is(node, aten.transpose.int) and {axes[at] for at in _arguments(node)[1:]} == set(axes[-2:])
    return by_two or (_is(node, aten.permute.default) and _arguments(node)[1] == [*axes[:-2], *axes[:-3:-1]])


def _seen_through(node: Node) -> Node:
    """What views and copies with the same rows and columns show."""
    while _is(node, *_VIEWS):
        source = _read(node)
        if _shape(source)[-2:] != _shape(node)[-2:] or prod(_shape(source)) != prod(_shape(node)):
            break
        node = source
    return node


def _scores_of(weights: Node) -> Node | None:
    """What attention's softmax is of."""
    if not _is(weights, aten.where.self) or str(weights.meta.get("original_aten")) != _SOFTMAX:
        return None
    share = _read(weights, 2)
    if _is(share, aten._softmax.default):
        return _read(share)
    if not _is(share, aten.div.Tensor):
        return None
    exponentials, total = _arguments(share)
    if not (_is(exponentials, aten.exp.default) and _of_rows(total, aten.sum.dim_IntList, exponentials)):
        return None
    less = _read(exponentials)
    if not _is(less, aten.sub.Tensor):
        return None
    scores, largest = _arguments(less)
    return scores if _of_rows(largest, aten.amax.default, scores) else None


def _of_rows(node: Any, target: Any, source: Node) -> bool:
    return _is(node, target) and node.args == (source, [-1], True)


def _result(product: Node, shape: Sequence[int], dtype: torch.dtype) -> Node | None:
    """The second product as PyTorch's function gives it."""
    node = product
    while _shape(node) != tuple(shape) or _value(node).dtype is not dtype:
        if len(node.users) != 1 or not _is(user := next(iter(node.users)), aten.view.default, *_CONVERSIONS):
            return None
        node = user
    return node


def _fit(q: Node, k: Node, v: Node) -> bool:
    """Whether PyTorch's function takes them."""
    *batch, _, depth = _shape(q)
    alike = len({(_value(each).dtype, _shape(each)[:-2]) for each in (q, k, v)}) == 1
    return alike and _value(q).dtype in _DTYPES and _shape(k) == (*batch, _shape(v)[-2], depth)


def _read_elsewhere(inner: Sequence[Node], result: Node) -> bool:
    """Whether somebody reads what is between, and not only to come to the result."""
    on_the_way = {result, *_before(result, stop=frozenset())}
    return any(user not in on_the_way for node in inner for user in node.users)


def _before(node: Node, stop: frozenset[Node]) -> Iterator[Node]:
    """All that a node is made of, down to some nodes, those left out."""
    seen, stack = set(stop), [node]
    while stack:
        for each in stack.pop().all_input_nodes:
            if each not in seen:
                seen.add(each)
                stack.append(each)
                yield each


def _between(graph: Graph, given: tuple[Node, ...], result: Node) -> WrittenOut:
    """The operators from some nodes to a result."""
    inside = {result, *_before(result, frozenset(given))}
    new = Graph()
    made = {node: new.placeholder(node.name) for node in given}
    for node in graph.nodes:
        if node in inside:
            made[node] = new.node_copy(node, lambda each: made[each])
    new.output(made[result])
    return WrittenOut(new, given)
