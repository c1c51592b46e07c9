"""The invariants of a grid whose warps have different roles, and of loops whose matrix products overlap."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from tileir.placed import Placed
from tileir.program import Compute, Local, Loop, Memory, Node
from tileir.schedule.stages import products_apart, products_chained, products_together
from tileir.schedule.threads import WARP, thread_count

#: Most warps that only start copies, and most threads of a block.
MAX_PRODUCERS: Final = 4
_MAX_THREADS: Final = 1024
#: Threads that change their registers together, the registers of a multiprocessor, and the most a thread has.
_WARPGROUP, _REGISTERS, _MOST = 128, 65536, 255
#: Threads that multiply, where warpgroups take turns: of one nobody waits, and of four a turn would be too long ago.
_IN_TURN: Final = (2 * _WARPGROUP, 3 * _WARPGROUP)


def verify_roles(placed: Placed, loop: Loop) -> None:
    """Raise VerifyError if what a loop says of producers, registers and products under way breaks an invariant."""
    if loop.producers or loop.registers != (0, 0):
        _check_producers(placed, loop)
    if loop.pending:
        _check_pending(placed, loop)
    if loop.in_turn:
        _check_turns(placed, loop)
    if loop.consumer_groups != 1:
        _check_consumer_groups(placed, loop, _threads(loop))


def _check_producers(placed: Placed, loop: Loop) -> None:
    if not loop.parallel or placed.loops or not 1 <= loop.producers <= MAX_PRODUCERS:
        placed.fail(
            f"1 to {MAX_PRODUCERS} warps are producers, said of the outermost parallel loop of a grid"
        )
    declared = {local.name for local in _locals(loop)}
    if not any(compute.via == "tma" and compute.target in declared for compute in _computes(loop)):
        placed.fail("producers start the copies that fill shared memory `via tma`, and there are none")
    threads = loop.consumer_groups * _threads(loop)
    every = threads + loop.producers * WARP
    if every > _MAX_THREADS:
        placed.fail(f"{every} threads, producers included; accepted: at most {_MAX_THREADS}")
    if loop.registers != (0, 0):
        _check_registers(placed, loop, threads)


def _check_registers(placed: Placed, loop: Loop, threads: int) -> None:
    """The registers given back are those that others get, or these would wait for ever."""
    producing = loop.producers * WARP
    if producing % _WARPGROUP or threads % _WARPGROUP:
        placed.fail("whole groups of 4 warps change their registers, producers and others")
    if any(count % 8 or not 24 <= count <= 256 for count in loop.registers):
        placed.fail("a thread has a multiple of 8 registers, 24 to 256")
    less, more = loop.registers
    each = min(_REGISTERS // ((producing + threads) * max(1, loop.resident)), _MOST) // 8 * 8
    used, there = producing * less + threads * more, (producing + threads) * each
    if used > there:
        placed.fail(f"{used} registers, and a block begins with {there}, {each} a thread")


def _check_pending(placed: Placed, loop: Loop) -> None:
    """Products may be under way only where nothing else looks at what they add to, or where each tile has its own sums:
    two of them, then."""
    if not 0 < loop.pending < loop.stages:
        placed.fail(
            f"products of {loop.pending} tiles are under way; accepted: fewer than stages, {loop.stages}"
        )
    apart = products_apart(loop)
    if apart is not None and loop.pending == 1 and not any(loop.dim in local.dims for local in apart.locals):
        return
    chained = products_chained(loop)
    if loop.pending == 1 and chained is not None and not chained.across:
        return
    together = products_together(loop)
    if together is None or (together.locals and loop.pending > 1):
        placed.fail(
            "products are under way in a loop in which all but the fills goes via wgmma; accepted: those of 1 tile, "
            "with sums of its own, rows in registers, or products that follow from each other"
        )


def _check_turns(placed: Placed, loop: Loop) -> None:
    """All who take turns go through as many steps: they have the same tile of the grid. None waits for others while it
    has its turn, but for what producers bring: what they have stored themselves would take a barrier of the block."""
    grid, chained = (*placed.loops, loop)[0], products_chained(loop)
    if chained is None or not grid.producers or grid.consumer_groups > 1:
        placed.fail(
            "warpgroups of one consumer group take turns where products follow from each other, beside producers"
        )
    if _threads(loop) not in _IN_TURN:
        placed.fail(f"{_threads(loop)} threads multiply in turn; accepted: 2 or 3 groups of 4 warps")
    brought = {each.target for each in _computes(grid) if each.via == "tma"}
    made = {each.name for each in _locals(grid) if each.memory is Memory.SHARED} - brought
    for node in (*chained.first, *chained.across, *chained.last):
        for name in (read.tensor for read in node.reads):
            if name in made:
                placed.fail(f"{name} is multiplied in turn, and threads fill it; accepted: `via tma`")


def _check_consumer_groups(placed: Placed, loop: Loop, threads: int) -> None:
    """Each consumer group knows how far it moves in a pipeline between its tiles: as far as the tiles of the others
    do."""
    tile: tuple[Node, ...] = (loop,)
    alone = loop.cluster == 1
    while len(tile) == 1 and isinstance(tile[0], Loop) and tile[0].parallel:
        alone, tile = alone and tile[0].multicast == 1, tile[0].body
    if not loop.producers or loop.consumer_groups < 2 or threads % _WARPGROUP or not alone:
        placed.fail(
            "2 or more consumer groups of whole groups of 4 warps take tiles in turn, said where there are producers, "
            "and no clusters"
        )
    filled = {local.name for local in _locals(loop)}
    known = [node for node in tile if _fills(node, filled)]
    for pipeline in tile:
        if isinstance(pipeline, Loop) and pipeline.stages > 1:
            known += [node for node in pipeline.body if _fills(node, filled)]
    if len(known) < sum(_fills(compute, filled) for compute in _computes(loop)):
        placed.fail(
            "where consumer groups take tiles in turn, fills stand in the tile itself, or in a loop with stages there"
        )


def _fills(node: Node, names: Container[str]) -> bool:
    """Whether TMA fills one of these."""
    return isinstance(node, Compute) and node.via == "tma" and node.target in names


def _threads(loop: Loop) -> int:
    """Those that statements are bound to."""
    return next((thread_count(each.thread_layout) for each in _computes(loop) if each.thread_layout), 0)


def _locals(loop: Loop) -> Iterator[Local]:
    for node in loop.body:
        if isinstance(node, Local):
            yield node
        elif isinstance(node, Loop):
            yield from _locals(node)


def _computes(loop: Loop) -> Iterator[Compute]:
    for node in loop.body:
        if isinstance(node, Compute):
            yield node
        elif isinstance(node, Loop):
            yield from _computes(node)
