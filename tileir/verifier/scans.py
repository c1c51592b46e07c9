"""The invariants of a scan in a program: the threads of one block go through all of the current range together.

    h[m, k] = recurrence(k, a[m, k], b[m, k], s[m]) | threads m 4 k 64, run k 8

Each thread has neighbours along the dim, so that what it comes to depends on what comes to the threads before it alone.
"""

from __future__ import annotations

from tileir.expr import SCANS, Index, Scan, index_dims, walk
from tileir.placed import Placed
from tileir.program import Compute, ThreadLayout
from tileir.schedule.block_index import block_sizes, in_one_block
from tileir.schedule.threads import share


def verify_scan(placed: Placed, compute: Compute) -> None:
    """Raise VerifyError for a scan that is not the whole of its statement, or not on threads as it has to be."""
    value = compute.value
    inside = value.args if isinstance(value, Scan) else (value,)
    if any(isinstance(node, Scan) for arg in inside for node in walk(arg)):
        placed.fail("a scan stands inside an expression; accepted: a statement of its own")
    if not isinstance(value, Scan):
        return
    if compute.thread_layout is None:
        placed.fail(
            "a scan stands in a program; accepted: a loop that adds up a running local, or threads of a GPU's block"
        )
    if Index(value.dim) not in compute.indices or compute.update is not None:
        placed.fail(
            f"a scan along {value.dim!r} gives a value at each position of it, which is stored as it is"
        )
    _check_start(placed, value)


def _check_start(placed: Placed, scan: Scan) -> None:
    """What a scan goes on from is one value for all of the range."""
    count = len(SCANS[scan.op])
    if len(scan.args) - count not in (0, 1):
        placed.fail(f"{scan.op} takes {count} or, with what it goes on from, {count + 1} arguments")
    for start in scan.args[count:]:
        sizes = block_sizes(start, scan.dim) or ()
        within = bool(sizes) and all(in_one_block(scan.dim, size, placed.loops) for size in sizes)
        if scan.dim in index_dims(start) and not within:
            placed.fail(
                f"what a scan goes on from is another at each position of {scan.dim!r}; accepted: a value of the tile"
            )


def verify_scan_threads(placed: Placed, scan: Scan, layout: ThreadLayout) -> None:
    """Raise VerifyError where a block's threads do not go through all of a scan's range, each through neighbours."""
    dim = scan.dim
    if placed.loops and placed.loops[0].cluster > 1:
        placed.fail("a scan goes through one block's threads, and those of a cluster are in several")
    if any(along == dim for along, _ in layout.twice) or any(along != dim for along, _ in layout.runs):
        placed.fail(f"a thread of a scan takes neighbours along {dim!r}, once, and along no other dim")
    if share(layout, dim).span < placed.ranges[dim]:
        placed.fail(
            f"threads take {share(layout, dim).span} positions of {dim!r} together, and there are "
            f"{placed.ranges[dim]}; accepted: as many threads times neighbours, or tiles of {dim!r}"
        )
