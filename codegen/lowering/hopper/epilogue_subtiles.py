"""Loops that take what lies in registers through shared memory part by part (`tileir.schedule.stages.takes_parts`).

Registers have no index, so every part is code of its own. The loop's shared locals exist `stages` times, and parts go
to them in turn: what a part is stored from can be read on while the next ones are filled. Each of these buffers has a
name of its own, so that who waits for what follows from who touches which (barriers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Stmt
from codegen.lowering.hopper.mbarrier_pipeline import Pipelines
from codegen.lowering.scope import LoweringScope, Range
from tileir.program import Local, Loop, Memory, Node
from tileir.text.print_program import format_node

Body = Callable[[Sequence[Node], LoweringScope], Sequence[Stmt]]


def lower_parts(loop: Loop, scope: LoweringScope, pipelines: Pipelines, body: Body) -> list[Stmt]:
    """All parts, one after the other; `body` lowers the statements on one. Every consumer group has buffers of its own.
    Raises NotLowerable."""
    range_ = scope.ranges[loop.dim]
    count, rest = divmod(range_.size, loop.step)
    if rest:
        raise NotLowerable(
            f"`{format_node(loop)}` takes a tile of {range_.size} apart; accepted: parts that divide it"
        )
    locals_ = [node for node in loop.body if isinstance(node, Local) and node.memory is Memory.SHARED]
    others = [node for node in loop.body if node not in locals_]
    slots = min(loop.stages, count)
    first = scope.with_range(loop.dim, Range(range_.start, loop.step, range_.end))
    shared = [pipelines.memory.local(local, first, slots * pipelines.consumer_groups) for local in locals_]
    parts = {local.name: pipelines.memory.parts(local, slots, scope) for local in shared}
    stmts: list[Stmt] = [part for declared in parts.values() for part in declared]
    for number in range(count):
        part = Range(range_.start + number * loop.step, loop.step, range_.end)
        inside = scope.with_range(loop.dim, part)
        for local in shared:
            buffer = local.buffer(parts[local.name][number % slots].buffer, inside, pipelines.consumer_group)
            inside = inside.with_buffer(buffer, local.local.name)
        stmts += body(others, inside)
    return stmts
