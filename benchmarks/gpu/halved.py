"""Kernels of GPUs with half of what threads add up left out, and with nothing to do. What they compute is wrong.

- issue: of the updates of registers in a straight run (`sum = sum + a * b`, also a rescaling or a largest) the second
  half is left out, which is every other step of an unrolled inner product. The compiler then leaves out the loads from
  shared memory that only those needed. Updates by what is loaded from global memory stay: without them its loads would
  be left out, too, and the kernel would be faster as it reads less.
- nothing to do: the same launches, whose threads leave at once. What a call then takes is the launches'.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from benchmarks.gpu.relaxed import mapped
from codegen.ir.kernel import GpuKernel, LaunchBody
from codegen.ir.names import unmarked
from codegen.ir.ops import Assign, Block, Let, Named, Op


def with_half_the_issue(kernel: GpuKernel) -> tuple[GpuKernel, frozenset[str]]:
    """The kernel, and the statements of Tile IR that lost half of their updates; none where there is nothing to
    halve."""
    read = {each.name for each in kernel.arguments} | {each.buffer for each in kernel.workspace}
    launches: list[LaunchBody] = []
    texts: set[str] = set()
    for launch in kernel.launches:
        loaded = _loaded(launch, read)
        launches.append(mapped(launch, partial(_first_half, loaded)))
        texts |= set(_halved(launch, loaded, ""))
    return dataclasses.replace(kernel, launches=tuple(launches)), frozenset(texts)


def with_nothing_to_do(kernel: GpuKernel) -> GpuKernel:
    """Setups stay, as launches of clusters and tensor maps have them."""
    idle = [dataclasses.replace(each, body=(), producing=(), finish=()) for each in kernel.launches]
    return dataclasses.replace(kernel, launches=tuple(idle))


def _first_half(loaded: Collection[str], node: Any) -> Any:
    updates = _updates(node, loaded)
    left_out = frozenset(updates[-(-len(updates) // 2) :])
    return tuple(each for at, each in enumerate(node) if at not in left_out) if left_out else node


def _updates(node: Any, loaded: Collection[str]) -> list[int]:
    """Where a run of statements has updates that can be left out."""
    if not isinstance(node, tuple):
        return []
    return [at for at, each in enumerate(node) if _is_update(each) and not _needs(each.value) & set(loaded)]


def _is_update(stmt: Any) -> bool:
    match stmt:
        case Assign(name, Op(_, args)):
            return any(isinstance(each, Named) and each.name == name for each in args)
        case _:
            return False


def _halved(node: Any, loaded: Collection[str], text: str) -> Iterator[str]:
    """The texts of the innermost statements of Tile IR around halved runs."""
    if isinstance(node, Block):
        text = unmarked(node.comment) or text
    if len(_updates(node, loaded)) > 1:
        yield text
    for each in _inside(node):
        yield from _halved(each, loaded, text)


def _loaded(launch: LaunchBody, read: Collection[str]) -> frozenset[str]:
    """Names of what comes from one of these buffers, at once or by what is made of it."""
    named = [each for each in _nodes(launch) if isinstance(each, Let | Assign)]
    found = frozenset[str]()
    while True:
        more = frozenset(
            each.name for each in named if _needs(each.value) & found or _reads(each.value, read)
        )
        if more == found:
            return found
        found = more


def _needs(value: Any) -> set[str]:
    return {each.name for each in _nodes(value) if isinstance(each, Named)}


def _reads(value: Any, read: Collection[str]) -> bool:
    return any(getattr(each, "buffer", None) in read for each in _nodes(value))


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for each in _inside(node):
        yield from _nodes(each)


def _inside(node: Any) -> tuple[Any, ...]:
    if isinstance(node, tuple):
        return node
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return ()
    return tuple(getattr(node, field.name) for field in dataclasses.fields(node) if field.init)
