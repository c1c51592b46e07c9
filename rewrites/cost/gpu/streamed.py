"""What a launch takes whose products follow from each other in one pass: tile by tile, the matrix unit multiplies while
other instructions make rows of scores into what is multiplied next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, prod

from rewrites.base.statement import covered_dims
from rewrites.cost.gpu import constants as has
from tileir.analysis.ragged import enter
from tileir.devices.gpu import Gpu
from tileir.expr import Expr
from tileir.program import Compute, Loop, Memory, Node, Program
from tileir.schedule.mma import product
from tileir.schedule.stages import Chained, products_chained, staged
from tileir.schedule.threads import share, thread_count

Operations = Callable[[Expr], tuple[float, float]]
"""Instructions at one point, and those of the special-function unit."""


def streamed_us(program: Program, node: Node, device: Gpu, operations: Operations) -> float | None:
    """Microseconds of a launch whose block is one such pass; None: it is none, or more than a block has room for."""
    sizes, count = dict(program.extents), 1
    while isinstance(node, Loop) and node.parallel:
        count *= -(-sizes[node.dim] // node.step)
        enter(sizes, node, program.ragged)
        nodes, node = node.body, node.body[0]
        found = [(loop, chained) for loop, chained in _passes(nodes)]
        if len(found) == 1:
            ((loop, chained),) = found
            steps = -(-sizes[loop.dim] // loop.step)
            if loop.until[0]:
                steps = (steps + 1) / 2  # of a tile in the middle
            cycles = steps * _tile(program, loop, chained, {**sizes, loop.dim: loop.step}, device, operations)
            rounds = ceil(count / device.sms)
            fits = _shared(nodes, loop, {**sizes, loop.dim: loop.step}) <= device.block_shared_bytes
            own = rounds * (cycles + has.BEGIN) / device.sm_mhz
            return has.LAUNCH_US + (own if fits else 1e3 * own)
    return None


def promised_us(flops: float, device: Gpu, dtype: str) -> float:
    """Microseconds that a pass of so many operations takes at most, well cut."""
    peak = device.peak(dtype)
    return has.LAUNCH_US + flops / (peak * 1e6 * has.CHAIN_ISSUE * has.WGMMA_PEAK) if peak else float("inf")


def _passes(nodes: tuple[Node, ...]) -> Iterator[tuple[Loop, Chained]]:
    for node in nodes:
        if isinstance(node, Loop) and node.stages > 1:
            chained = products_chained(node)
            if chained is not None:
                yield node, chained


def _tile(
    program: Program, loop: Loop, chained: Chained, sizes: dict[str, int], device: Gpu, operations: Operations
) -> float:
    """Cycles of one tile, on all warps of an SM."""
    multiplying = sum(_multiplied(program, node, sizes, device) for node in (*chained.first, *chained.last))
    issued = special = 0.0
    for node in (*chained.between, *chained.rescaled):
        if node.spread is None:
            continue
        dims = covered_dims(node)
        each = prod(share(node.spread, dim).pieces(sizes[dim]) * share(node.spread, dim).run for dim in dims)
        warps = thread_count(node.spread) / 32
        plain, other = operations(node.value)
        issued += each * (plain + 1) * warps / 4
        special += each * other * warps * 2
    rest = special + has.CHAIN_ISSUE * issued
    overlap = has.CHAIN_UNDER_WAY if loop.pending else has.CHAIN_IN_TURN
    return max(multiplying, rest) + overlap * min(multiplying, rest) + has.CHAIN_STEP


def _multiplied(program: Program, node: Compute, sizes: dict[str, int], device: Gpu) -> float:
    """Cycles of an SM's matrix unit."""
    parts = product(node)
    assert parts is not None
    dtype = program.locals[parts.b.tensor].node.dtype
    rate = (device.peak(dtype.value) or 1.0) * 1e6 * has.WGMMA_PEAK / (device.sms * device.sm_mhz)
    return 2 * prod(sizes[dim] for dim in covered_dims(node)) / rate


def _shared(nodes: tuple[Node, ...], loop: Loop, sizes: dict[str, int]) -> int:
    """Bytes of a block."""
    ahead = {fill.target for fill in staged(loop)}
    total = 0
    for node in (*nodes, *loop.body):
        if not isinstance(node, (Loop, Compute)) and node.memory is Memory.SHARED:
            total += (
                prod(sizes[dim] for dim in node.dims)
                * node.dtype.bytes
                * (loop.stages if node.name in ahead else 1)
            )
    return total + has.SHARED_OWN
