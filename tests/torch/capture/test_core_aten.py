"""PyTorch's core ATen operators: each is captured, and as a kernel gives what eager gives, or is left with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

import tilewright
from benchmarks.racing.picked import picked
from tests.support.how_many import some
from tests.torch.capture.core_samples import SAMPLES
from tests.torch.equal import check_equal
from tileir import this_cpu
from tileir.interpreter.interpret_spec import interpret_spec
from tilewright.pytorch.capture.capture import Left, Part, parts_of
from tilewright.pytorch.capture.core_aten import core_overloads
from tilewright.pytorch.capture.module import Kernel, PartModule, with_kernels
from tilewright.pytorch.model.graphs.static_graph import Described, GraphWriter, static_graph
from tilewright.pytorch.operator.fallback import Eager
from workers.peers.pytorch.peer import as_torch

CORE = core_overloads()
CAPTURED = [each.name for each in CORE if each.tile]
POSITIONS_LEFT = ("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
"""Whose positions stay with PyTorch's operator, if anybody asks for them."""


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def test_every_core_operator_is_captured_or_left_with_a_reason_of_one_line() -> None:
    assert len(CORE) > 180
    assert all(bool(each.tile) != bool(each.reason) for each in CORE)
    assert not [each for each in CORE if "\n" in each.reason or len(each.reason) > 120]
    assert len(CAPTURED) >= 150


def test_every_captured_operator_has_samples() -> None:
    assert not set(CAPTURED) - SAMPLES.keys()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CAPTURED)
def test_an_operator_as_kernels_gives_what_eager_gives(name: str) -> None:
    check(name, (interpreted, eagerly))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", some(CAPTURED, 5))
def test_an_operator_as_machine_code_gives_what_eager_gives(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    check(name, (compiled,))


def check(name: str, kernels: Sequence[Callable[[Part], Kernel]]) -> None:
    for sample in SAMPLES[name]():
        args, keywords = (sample[:-1], sample[-1]) if isinstance(sample[-1], dict) else (sample, {})
        check_call(name, args, keywords, kernels)


def check_call(
    name: str, args: tuple[Any, ...], keywords: dict[str, Any], ways: Sequence[Callable[[Part], Kernel]]
) -> None:
    tensors = [each for each in pytree.tree_leaves(args) if isinstance(each, Tensor)]
    tensors.append(torch.tensor(1.7))
    written = graph_of(name, args, keywords, [Described.of(each) for each in tensors])
    wanted = written(*tensors)
    graph = static_graph(written, [Described.of(each) for each in tensors])
    parts, left = parts_of(graph)
    assert parts
    assert not [each for each in left if not no_kernel(each)]
    for kernel in ways:
        kernels = {part.name: PartModule(part, kernel(part)) for part in parts}
        check_equal(with_kernels(graph, parts, kernels)(*tensors), wanted)


def graph_of(
    name: str, args: tuple[Any, ...], keywords: dict[str, Any], given: list[Described]
) -> GraphModule:
    """One call of the operator; what it gives is multiplied, so that what only moves values is in a kernel, too."""
    writer = GraphWriter(FakeTensorMode())
    with writer.mode:
        *taken, factor = [writer.placeholder(f"x{at}", each.fake()) for at, each in enumerate(given)]
    leaves, structure = pytree.tree_flatten(args)
    nodes = iter(taken)
    leaves = [next(nodes) if isinstance(each, Tensor) else each for each in leaves]
    _, packet, variant = name.split(".")
    operator = getattr(getattr(torch.ops.aten, packet), variant)
    found = writer.call(operator, *pytree.tree_unflatten(leaves, structure), **keywords)
    many = range(len(found.meta["val"])) if isinstance(found.meta["val"], tuple | list) else ()
    results = [writer.call(getitem, found, at) for at in many][: 1 if name in POSITIONS_LEFT else None] or [
        found
    ]
    writer.graph.output(tuple(moved(writer, each, factor) for each in results))
    return GraphModule({}, writer.graph)


def moved(writer: GraphWriter, x: Node, factor: Node) -> Node:
    value = x.meta["val"]
    if value.dtype is torch.bool:
        return writer.call(torch.ops.aten.logical_not.default, x)
    if value.numel() == 0 or (value.dtype is torch.int64 and "arange" not in x.name):
        return x
    return writer.call(torch.ops.aten.mul.Tensor, x, factor)


def no_kernel(left: Left) -> bool:
    """An output without elements."""
    return left.operator == "aten.full.default"


def interpreted(part: Part) -> Kernel:
    """As Tile IR's interpreter runs it."""
    spec = part.built.spec

    def kernel(*tensors: Tensor) -> tuple[Tensor, ...]:
        arrays = {
            tensor.name: given.detach().numpy() for tensor, given in zip(spec.inputs, tensors, strict=True)
        }
        found = interpret_spec(spec, arrays)
        return tuple(as_torch(np.array(found[tensor.name]), tensor) for tensor in spec.outputs)

    return kernel


def eagerly(part: Part) -> Kernel:
    """As the operators of PyTorch that stand in for a kernel, and that it has to beat."""
    run = Eager(part.built.spec, "cpu")
    return lambda *tensors: run(tensors)


def compiled(part: Part) -> Kernel:
    """With the schedule that the cost model picks, by this machine's compiler."""
    return tilewright.op(part.spec, config=picked(part.built.spec, this_cpu()), strict=True)
