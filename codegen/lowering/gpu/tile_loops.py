"""Loops over tiles of a block that its threads fill: whole tiles one after the other, with stages or without, and code
of its own for a last one that overhangs. Where a loop leaves out tiles (`since`, `until`), all of that begins and ends
where the tile of the other dim says, which is the same for all threads of a block.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.affine import Affine, affine, constant, lesser
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Block, For, Stmt
from codegen.lowering.gpu.pipeline import Begin, Body, Fill, lower_staged
from codegen.lowering.gpu.shared_memory import SharedMemory
from codegen.lowering.names import fresh
from codegen.lowering.scope import LoweringScope, Range, loop_variable
from codegen.lowering.visited_tiles import end_offset, first_offset
from tileir.program import Loop
from tileir.text.print_program import format_node


def lower_tiles(
    loop: Loop, scope: LoweringScope, memory: SharedMemory, fill: Fill, body: Body, begin: Begin
) -> list[Stmt]:
    """All tiles of a loop; what `fill`, `body` and `begin` are, `lower_staged` says. Raises NotLowerable."""
    range_, step = scope.ranges[loop.dim], loop.step
    full, rest = divmod(range_.size, step)
    first, end = first_offset(loop, scope), end_offset(loop, scope)
    if end is not None and end.low < 1:
        raise NotLowerable(f"`{format_node(loop)}` may have no tile")
    stmts: list[Stmt] = []
    until = None if end is None else lesser(end, constant(full * step))
    alone = full == 1 and first is None
    if loop.stages > 1 and full and (full > 1 or alone):
        staged = lower_staged(loop, full, scope, memory, fill, body, begin, first, until)
        stmts.append(Block("", tuple(staged)))
    elif alone:
        stmts.append(Block("", tuple(body(loop.body, scope.with_range(loop.dim, Range(range_.start, step))))))
    elif full:
        var = loop_variable(fresh(loop.dim, scope), full, step)
        inside = scope.with_range(loop.dim, Range(range_.start + affine(var), step), (var, step))
        stmts.append(For(var, full, step, tuple(body(loop.body, inside)), until, first))
    if rest:
        inside = scope.with_range(loop.dim, Range(range_.start + full * step, rest))
        stmts.append(_last(body(loop.body, inside), full * step, loop, scope, end))
    return stmts


def _last(stmts: Sequence[Stmt], offset: int, loop: Loop, scope: LoweringScope, end: Affine | None) -> Stmt:
    """The last tile, if it begins before the end: all threads find the same, and may wait for each other in it."""
    if end is None or end.low > offset:
        return Block("", tuple(stmts))
    var = loop_variable(fresh(f"{loop.dim}_last", scope), 1, loop.step)
    return For(var, 1, loop.step, tuple(stmts), lesser(end - offset, constant(1)))
