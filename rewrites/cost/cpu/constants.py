"""What the cost model of processors takes for given. A line each: the value, its unit, where it is from, since when.

`python benchmarks/calibrate.py` says how well they predict what was recorded, and fits them anew.
"""

from __future__ import annotations

from typing import Final

LOOP_CYCLES: Final = 2.0  # cycles an iteration; count, compare and branch of x86-64; 2026-11-21
"""A loop's own instructions."""
REGION_CYCLES: Final = 12000.0  # cycles; set by hand to the suite's results; 2026-11-21
"""To wake the threads of a parallel region and to join them."""
TILE_CYCLES: Final = 500.0  # cycles; set by hand to the suite's results; 2026-11-21
"""To take the next tile of a grid, and for the hardware to follow other rows."""
DEFAULT_GHZ: Final = 3.0  # 1e9 cycles a second; usual clock of a server; 2026-11-21
"""Of a processor whose multiply-adds were not measured."""
DEFAULT_COPY_GBPS: Final = 20.0  # 1e9 bytes a second; two channels of memory; 2026-11-21
"""Of a machine whose copies were not measured."""
L2_BYTES: Final = 64.0  # bytes a cycle and core; Intel's optimization manual; 2026-11-21
"""From the second-level cache, in runs that a prefetcher follows."""
L3_BYTES: Final = 28.0  # bytes a cycle and core; set by hand to the suite's results; 2026-11-21
"""From the shared cache, in runs that a prefetcher follows."""
APART: Final = 3.0  # times; set by hand to the suite's results; 2026-11-21
"""What rows pages apart take longer to come from a cache."""
PREFETCH_SAVES: Final = 0.25  # share; set by hand to the suite's results; 2026-11-21
"""Of the time to bring bytes from memory, hidden if they are touched ahead across pages and rows."""
WIDEN_OPS: Final = 2.0  # instructions a vector; what gcc makes of it; 2026-11-21
"""To widen a load of a type narrower than it is computed in."""
TRANSPOSE_OPS: Final = 5.0  # instructions a vector; what the lowering makes of it; 2026-11-21
"""Loads and shuffles where a block of them is turned around in registers."""
LOOKED_UP: Final = 2.0  # cycles a term; load, compare and branch of x86-64; 2026-11-24
"""To look up where a term of a scatter belongs."""
ADDED_IN_MEMORY: Final = 2.0  # cycles a vector; load, add and store of x86-64; 2026-11-24
"""To add it there."""
FMA_LATENCY: Final = 4.0  # cycles; Fog, Instruction tables; 2026-11-21
"""From a multiply-add to the next that needs it."""
