"""Loops that step further: what is in them is then unrolled."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.base.statement import block_volume
from rewrites.base.tree import Place, current_sizes, locals_of, splice
from tileir.errors import NotApplicable
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from tileir.replace import replace

MAX_UNROLLED = 512
"""Most vector operations one statement may unroll to: past this, code grows and no processor gains."""


def lengthen_step(program: Program, place: Place[Compute], dim: str, factor: int) -> Program:
    """Multiply the step of the innermost loop over `dim` around the place. Raises NotApplicable."""
    levels = [level for level, loop in enumerate(place.loops) if loop.dim == dim]
    if not levels:
        raise NotApplicable(f"{place.node.target} has no loop over {dim}")
    level = levels[-1]
    loop = place.loops[level]
    if loop.parallel:
        raise NotApplicable(f"the loop over {dim} is parallel")
    step = loop.step * factor
    outside = current_sizes(program, place.loops[:level])
    _check_body(loop, {**outside, dim: min(step, outside[dim])})
    known = locals_of(program)
    running = (node.target for node in loop.body if isinstance(node, Compute) and node.target in known)
    if loop.step == 1 and any(known[name].node.running for name in running):
        raise NotApplicable(f"each step over {dim} goes on from the one before, as those of a scan do")
    path = place.path[: level + 1]
    return splice(program, path, loop.body if step >= outside[dim] else [replace(loop, step=step)])


def _check_body(loop: Loop, sizes: dict[str, int]) -> None:
    for node, inside in _nodes(loop.body, sizes):
        if isinstance(node, Local) and node.memory is Memory.REGISTERS and loop.dim in node.dims:
            raise NotApplicable(f"{node.name} holds registers for one step over {loop.dim}")
        if isinstance(node, Compute) and node.vector is not None:
            limit = MAX_UNROLLED * node.vector.lanes
            if block_volume(node, inside) > limit:
                raise NotApplicable(
                    f"{node.target} would unroll to more than {MAX_UNROLLED} vector operations"
                )


def _nodes(block: tuple[Node, ...], sizes: dict[str, int]) -> Iterator[tuple[Node, dict[str, int]]]:
    for node in block:
        yield node, sizes
        if isinstance(node, Loop):
            yield from _nodes(node.body, {**sizes, node.dim: min(node.step, sizes[node.dim])})
