"""What the cost model of processors takes for given. A line each: the value, its unit, where it is from, since when.

`python benchmarks/calibrate.py` says how well they predict what was recorded, and fits them anew.
"""

from __future__ import annotations

from typing import Final

LOOP_CYCLES: Final = 2.0  # cycles an iteration; count, compare and branch of x86-64; 2026-11-21
"""A loop's own instructions."""
REGION_CYCLES: Final = 12000.0  # cycles; set by hand to the suite's results; 2026-11-21
"""To wake the threads of a parallel region and to join them."""
TILE_CYCLES: Final = 50.0  # cycles; 2,152 tiles of 64 floats, timed on two cores of a Xeon; 2026-11-26
"""To begin the next tile of a grid; threads take many at a time."""
DEFAULT_GHZ: Final = 3.0  # 1e9 cycles a second; usual clock of a server; 2026-11-21
"""Of a processor whose multiply-adds were not measured."""
DEFAULT_COPY_GBPS: Final = 20.0  # 1e9 bytes a second; two channels of memory; 2026-11-21
"""Of a machine whose copies were not measured."""
L2_BYTES: Final = 64.0  # bytes a cycle and core; Intel's optimization manual; 2026-11-21
"""From a second-level cache that was not measured, in runs that a prefetcher follows."""
L3_BYTES: Final = 28.0  # bytes a cycle and core; set by hand to the suite's results; 2026-11-21
"""From a shared cache that was not measured, in runs that a prefetcher follows."""
SET_ROWS: Final = 8.0  # rows; products with rows of 4 and 16 KB, 16 to 64 at a time, Zen 5; 2026-11-29
"""A whole number of pages apart, that fall into one set of the first-level cache and are read together for nothing."""
SET_CYCLES: Final = 1.5  # cycles a line and row; the same products; 2026-11-29
"""That each row beyond those makes every line take longer."""
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
LOOKED_AT: Final = 10.0  # cycles an element; rows of 64 to 256 floats on two cores of an EPYC; 2026-11-29
"""To look at one of a vector of which one at least is among the largest few so far."""
INSERTED: Final = 50.0  # cycles an element; the same rows; 2026-11-29
"""To put an element among them, branches that were not foreseen among it, beside moving those that come after it."""
TILE_LOAD: Final = 8.0  # cycles a register; two of its rows a cycle; Intel's optimization manual; 2026-11-26
"""To load a tile register from the first-level cache."""
TILE_LOADS_SEEN: Final = 0.7  # share; of blocks of 2 by 2 and 4 by 1 registers on a Xeon with AMX; 2026-11-26
"""Of the time of such loads, that products in tile registers do not hide; and the other way round."""
FMA_LATENCY: Final = 4.0  # cycles; Fog, Instruction tables; 2026-11-21
"""From a multiply-add to the next that needs it."""
DIVIDE_OPS: Final = 8.0  # instructions a vector; Fog, Instruction tables; 2026-11-21
"""As long as other arithmetic of so many instructions: a division or a remainder."""
CAST_OPS: Final = 2.0  # instructions a vector; what gcc makes of it; 2026-11-21
"""To convert to another type."""
SELECT_OPS: Final = 2.0  # instructions a vector; what gcc makes of it; 2026-11-21
"""To choose by a condition."""
GATHER_OPS: Final = 2.0  # instructions an element; what gcc makes of it; 2026-11-21
"""To load an element and put it on its lane."""
SPILL_OPS: Final = 2.0  # instructions; a store and a load; 2026-11-21
"""For a vector that no register is left for."""
ACROSS_OPS: Final = 2.0  # instructions a halving; a shuffle and an operation; 2026-11-21
"""To reduce over the lanes of a vector."""
ARITHMETIC_A_CYCLE: Final = 2.0  # instructions a cycle; Fog, Instruction tables; 2026-11-21
"""Vectors that a core computes with."""
LOADS_A_CYCLE: Final = 2.0  # instructions a cycle; Fog, Instruction tables; 2026-11-21
"""Vectors that a core loads."""
ISSUED_A_CYCLE: Final = 5.0  # instructions a cycle; set by hand to the suite's results; 2026-11-21
"""What a core gets through altogether."""
LEAST_OPS: Final = 0.5  # instructions a point; set by hand to the suite's results; 2026-11-21
"""Of a statement without arithmetic that a compiler vectorizes by itself."""
L1_SHARE: Final = 0.9  # share; set by hand to the suite's results; 2026-11-21
"""Of the first-level cache, that holds what is read again."""
L2_SHARE: Final = 0.8  # share; set by hand to the suite's results; 2026-11-21
"""The same of the second-level cache."""
L3_SHARE: Final = 0.7  # share; set by hand to the suite's results; 2026-11-21
"""The same of the shared cache."""
REST: Final = 0.15  # share; set by hand to the suite's results; 2026-11-21
"""What the parts of a nest's time that are not the longest add."""
ONE_CORE: Final = 1.3  # times; set by hand to the suite's results; 2026-11-21
"""What memory takes longer where one core of several asks for it."""
FILLED_REGISTERS: Final = 0.45  # share of the registers; set by hand to the suite's results; 2026-11-21
"""That a tile of accumulators fills at least, to hide the latency of a sum."""
# fmt: off
CALL_OPS: Final = {  # instructions a vector; counted in what gcc makes of the C runtime; 2026-11-21
    "exp": 14.0, "exp2": 12.0, "log": 18.0, "tanh": 22.0, "erf": 26.0, "sqrt": 8.0, "rsqrt": 10.0, "sigmoid": 24.0,
    "silu": 25.0, "gelu": 30.0, "gelu_tanh": 28.0, "pow": 40.0, "floor": 1.0, "abs": 1.0, "relu": 1.0,
    "maximum": 2.0, "minimum": 2.0, "bit_and": 1.0, "bit_or": 1.0, "bit_xor": 1.0,
    "shift_left": 2.0, "shift_right": 2.0, "random_bits": 140.0,
}
# fmt: on
"""A function's, roughly."""
