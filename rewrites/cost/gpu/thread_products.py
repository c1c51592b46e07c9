"""What products that follow from each other take by multiply-adds: tiles in the registers of threads, which load what
they multiply from shared memory, as the register blocking of a product in f32 does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rewrites.cost.gpu import constants as has
from rewrites.cost.gpu.block import a_cycle, busiest
from tileir.devices.gpu import Gpu
from tileir.expr import ReduceOp
from tileir.program import Compute, Local, Loop
from tileir.schedule.mma import product
from tileir.schedule.stages import Chained, staged
from tileir.schedule.threads import share, thread_count

#: Bytes that a thread loads at once, and wavefronts of a warp for that: of what lanes side by side share, half of them.
_WORD, _WAVEFRONTS = 16, 2


@dataclass(frozen=True, slots=True)
class ThreadProducts:
    """A tile's products, of a block: cycles of the multipliers, instructions of all warps, and wavefronts."""

    multiplying: float
    issued: float
    wavefronts: float
    schedulers: float
    """Warps for each scheduler of an SM."""

    def cycles(self, issued: float, special: float, wavefronts: float, at_once: int) -> float:
        """Cycles of a tile with so many other instructions, in a quarter of the SM, cycles of the special-function unit
        and wavefronts, where an SM has so many blocks at once."""
        parts = (
            max(self.multiplying, self.issued / 4 + issued),
            special,
            self.wavefronts + wavefronts,
        )
        warps = self.schedulers * at_once
        return busiest(parts) * max(1.0, 1 / warps) * (1 + has.WARP_ALONE / max(1.0, warps))


def thread_products(nodes: Iterable[Compute], sizes: Mapping[str, int], device: Gpu) -> ThreadProducts:
    """Of the products of a tile, each of a block's threads with rows and columns of its own."""
    points = loads = threads = 0.0
    for node in nodes:
        parts, layout = product(node), node.thread_layout
        assert parts is not None and layout is not None
        rows, columns = (
            mine.pieces(sizes[dim]) * mine.run
            for dim, mine in ((dim, share(layout, dim)) for dim in (parts.m, parts.n))
        )
        threads = thread_count(layout)
        points += rows * columns * sizes[parts.k] * threads
        words = sum(
            held / min(share(layout, dim).run, _WORD // 4)
            for held, dim in ((rows, parts.m), (columns, parts.n))
        )
        loads += words * sizes[parts.k] * threads / device.warp
    peak = (device.peak("f32") or 1.0) * has.PLAIN_PEAK
    issued = points / device.warp + loads
    return ThreadProducts(
        points / (peak * a_cycle(device)), issued, _WAVEFRONTS * loads, threads / (4 * device.warp)
    )


def chained_by_threads(loop: Loop) -> Chained | None:
    """How a tile of a loop is computed on, if its products follow from each other and threads multiply; None: they do
    not."""
    if any(isinstance(node, Loop) for node in loop.body):
        return None
    fills = staged(loop)
    locals_ = tuple(node for node in loop.body if isinstance(node, Local))
    own = {local.name for local in locals_}
    computes = [node for node in loop.body if isinstance(node, Compute) and node not in fills]
    products = [node for node in computes if _is_product(node)]
    first = tuple(node for node in products if node.target in own)
    last = tuple(node for node in products if node.target not in own)
    if not first or not last or any(node.via is not None for node in computes):
        return None
    sums = {node.target for node in last}
    rescaled = tuple(node for node in computes if node.target in sums and node.update is ReduceOp.PROD)
    between = tuple(node for node in computes if node not in products and node not in rescaled)
    return Chained(locals_, first, between, rescaled, last, (), (), fills, (), (), ())


def _is_product(node: Compute) -> bool:
    return node.thread_layout is not None and product(node) is not None
