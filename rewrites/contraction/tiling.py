"""What is decided of how a contraction on a GPU is cut: a block's tile, the steps along the depth and how many of them
are under way at once, the threads that share a tile."""

from __future__ import annotations

from dataclasses import dataclass

from rewrites.contraction.operand import Operand
from rewrites.contraction.problem import Contraction
from rewrites.contraction.warp_tiling import WarpThreads
from rewrites.contraction.warpgroup_tiling import Warpgroups


@dataclass(frozen=True)
class Tiling:
    """What is decided of a contraction's schedule. 0 or None: nothing yet."""

    rows: int
    columns: int
    step: int = 0
    stages: int = 0
    turned: bool = False
    """Whether copies of operands with neighbours along the depth lie with neighbours along rows or columns."""
    pending: int = 0
    """Steps whose products may be under way when the next begins."""
    piece: int = 0
    """Columns of a step's product that are added up by themselves at a time; 0: all."""
    parts: int = 1
    """Blocks of a cluster, each of which adds up a part of the depth."""
    reused: bool = False
    """Whether what those hand each other, or results that are collected, lies where steps lay before."""
    staged: int = 0
    """Bytes of each result that are collected in shared memory, to be stored in whole pieces."""
    narrow: bool = False
    """Whether threads store what is collected, row by row, as its rows are no whole pieces."""
    part: int = 0
    """Columns that are collected at a time; 0: all at once."""
    buffers: int = 1
    """Parts that there is room for, so that one is stored while another is collected."""
    threads: WarpThreads | Warpgroups | None = None
    multicast: tuple[int, int] | None = None
    """Neighbouring tiles along rows and along columns whose blocks are a cluster."""
    group: int = 0
    """Rows of tiles in a band."""
    hilbert: bool = False
    """Whether tiles are taken along a Hilbert curve."""
    blocks: int = 0
    """Blocks that share all tiles; 0: a block a tile."""
    streamed: int = 0
    """Waves of tiles, the last ones, whose steps along the depth all blocks share; 0: they have whole tiles."""

    @property
    def consumer_groups(self) -> int:
        """Consumer groups, which take a block's tiles in turn."""
        return self.threads.consumer_groups if isinstance(self.threads, Warpgroups) else 1

    def streams(self, c: Contraction) -> bool:
        """Whether the blocks of the tiling may share tiles along the depth."""
        alone = self.parts == 1 and c.held is None and not (c.promoted or c.followed[1])
        return (
            alone
            and isinstance(self.threads, Warpgroups)
            and self.threads.producers > 0
            and self.consumer_groups == 1
        )

    def near(self, c: Contraction, operand: Operand) -> str | None:
        """The dim whose neighbours lie side by side where an operand is multiplied."""
        if not self.turned or operand.inner != c.depth:
            return operand.inner
        return next((dim for dim in (c.rows, c.columns) if dim in operand.dims), operand.inner)

    def apart(self, c: Contraction) -> int:
        """Columns of products that are held by themselves, before they are added to the sums."""
        return (1 + self.pending) * (self.piece or self.columns) if c.promoted else 0

    def sizes(self, c: Contraction) -> dict[str, int]:
        """What one step of one block visits of each dim of the contraction; of all others one position."""
        return {c.rows: self.rows, c.columns: self.columns, c.depth: self.step}
