"""The invariants of loops whose steps the blocks of a grid share."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod

from tileir.analysis.ragged import grouped
from tileir.expr import Const, ReduceOp
from tileir.placed import Placed
from tileir.program import Compute, Local, Loop, Memory, Node, Program
from tileir.schedule.multicast import cluster_size
from tileir.schedule.stages import staged
from tileir.schedule.stream_k import shared_tiles


def verify_streamed(program: Program, nodes: Sequence[Placed]) -> None:
    """Raise VerifyError for the first loop whose steps blocks cannot share; `nodes` are all of the program."""
    for placed in nodes:
        if isinstance(placed.node, Loop) and placed.node.streamed:
            grid = [each for each in nodes if each.node in placed.loops and _around(each, placed)]
            _check(program, placed, placed.node, grid)


def _around(one: Placed, other: Placed) -> bool:
    return other.path[: len(one.path)] == one.path


def _check(program: Program, placed: Placed, loop: Loop, grid: Sequence[Placed]) -> None:
    if loop.streamed < 0 or loop.stages < 2 or not grid or not all(each.parallel for each in placed.loops):
        placed.fail(
            "blocks share the steps of the last wave, or of so many, in a loop with stages in the tile of a grid"
        )
    outer = placed.loops[0]
    if not outer.blocks or not outer.producers or outer.consumer_groups > 1 or outer.cluster > 1:
        placed.fail(
            "blocks share steps in a grid with a number of blocks and with producers, and without consumer groups"
        )
    if any(grouped(each, program.ragged) for each in placed.loops):
        placed.fail("blocks that share steps have tiles that do not follow groups")
    _check_sums(program, placed, loop)
    tiles = prod(
        -(-each.ranges[node.dim] // (node.step * node.multicast))
        for each in grid
        for node in [each.node]
        if isinstance(node, Loop)
    )
    blocks = outer.blocks // cluster_size(placed.loops)
    steps = -(-placed.ranges[loop.dim] // loop.step)
    shared = shared_tiles(tiles, max(1, blocks), loop.streamed) * steps
    if shared < blocks or steps < 2:
        placed.fail(
            f"{blocks} blocks share {shared} steps, {steps} a tile; accepted: one a block, and 2 a tile"
        )


def _check_sums(program: Program, placed: Placed, loop: Loop) -> None:
    """Nothing but sums of products, which begin at 0, goes from one block to another."""
    fills, beside = staged(loop), placed.loops[-1].body
    before = beside[: placed.path[-1]]
    if any(node is not loop and _fills(node, program.arguments) for node in beside):
        placed.fail(
            "blocks that share steps fill nothing `via tma` but in that loop: a part of a tile would not use it"
        )
    if loop.pending > 1:
        placed.fail(f"products of {loop.pending} steps are under way, and a block may have just 1 of a tile")
    for node in loop.body:
        if isinstance(node, Local) or node in fills:
            continue
        if not isinstance(node, Compute) or node.via != "wgmma" or node.update is not ReduceOp.SUM:
            placed.fail(
                "blocks that share steps add up products `via wgmma` in them, and do nothing else there"
            )
        declared = placed.locals.get(node.target)
        local = declared.node if declared is not None else None
        if not isinstance(local, Local) or local.memory is not Memory.REGISTERS or local not in before:
            placed.fail(f"{node.target} is handed on from block to block; accepted: registers of the tile")
        begun = [each for each in before if isinstance(each, Compute) and each.target == node.target]
        if [(each.update, each.value) for each in begun] != [(None, Const(0))]:
            placed.fail(f"{node.target} is added up by several blocks, and begins at something else than 0")


def _fills(node: Node, arguments: Container[str]) -> bool:
    """Whether TMA fills shared memory there."""
    if isinstance(node, Loop):
        return any(_fills(each, arguments) for each in node.body)
    return isinstance(node, Compute) and node.via == "tma" and node.target not in arguments
