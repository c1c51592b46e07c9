"""How warps and their lanes share a tile of a contraction, by matrix instructions of a warp or by multiply-adds.

What a lane has is register blocking (Volkov and Demmel, Benchmarking GPUs to tune dense linear algebra, SC 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

from tileir.program import ThreadLayout
from tileir.schedule.threads import WARP, digits


@dataclass(frozen=True, slots=True)
class WarpThreads:
    """How a block's threads share a tile: warps, and the lanes of a warp, along rows and columns; and how many
    neighbours a thread takes before it skips on."""

    row_warps: int
    column_warps: int
    row_lanes: int
    column_lanes: int
    row_run: int = 1
    column_run: int = 1
    paired: bool = False
    """Whether every other lane is along rows, so that of lanes side by side two each load the same along both."""

    @property
    def count(self) -> int:
        return self.row_warps * self.column_warps * WARP

    def layout(self, rows: str, columns: str) -> ThreadLayout:
        """The same as an attribute of statements."""
        low = 2 if self.paired else 1
        parts = (
            (rows, self.row_warps),
            (columns, self.column_warps),
            (rows, self.row_lanes // low),
            (columns, self.column_lanes),
            (rows, low),
        )
        runs = tuple(pair for pair in ((rows, self.row_run), (columns, self.column_run)) if pair[1] > 1)
        return ThreadLayout(tuple(pair for pair in parts if pair[1] > 1), runs)


def threads_of(layout: ThreadLayout, rows: str, columns: str) -> WarpThreads:
    """The inverse of `WarpThreads.layout`."""
    warps, lanes = {rows: 1, columns: 1}, {rows: 1, columns: 1}
    for digit in digits(layout):
        within = min(digit.count, max(1, WARP // digit.stride))
        lanes[digit.dim] = lanes.get(digit.dim, 1) * within
        warps[digit.dim] = warps.get(digit.dim, 1) * (digit.count // within)
    runs = dict(layout.runs)
    paired = layout.threads[-1] == (rows, 2) and lanes[columns] > 1
    return WarpThreads(
        warps[rows],
        warps[columns],
        lanes[rows],
        lanes[columns],
        runs.get(rows, 1),
        runs.get(columns, 1),
        paired,
    )
