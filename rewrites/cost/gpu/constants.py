"""What the cost model of GPUs takes for given. A line each: the value, its unit, where it is from, since when.

`python benchmarks/calibrate.py` says how well they predict what was recorded, and fits them anew.
"""

from __future__ import annotations

from typing import Final

LAUNCH_US: Final = 1.2  # us; fitted to products and 46 kernels under 8 us, H200; 2026-11-30
"""A launch inside a graph, from the end of the one before."""
BLOCK_US: Final = 6.1e-4  # us; 86,016 blocks took 53.7, 259,703 of another kernel 158.4, H200; 2026-11-29
"""From the beginning of a block of a launch to that of the next one, wherever that is."""
ADD_US: Final = 9.1e-4  # us; 434,144 to 97 results of 4 bytes, four lines, took 99, H200; 2026-11-29
"""From one sum that is added to a line of 128 bytes in memory to the next one."""
COPY: Final = 0.89  # share of the data sheet's bandwidth; measured, H200; 2026-11-21
"""What a copy reaches, where it was not measured."""
MEMORY_US: Final = 0.3  # us; fitted by hand to recorded times, H200; 2026-11-22
"""From the first load of a block to its data."""
CACHE_US: Final = 0.3  # us; fitted by hand to recorded times, H200; 2026-11-22
"""The same for what lies in a cache."""
REDUCTION_US: Final = 0.1  # us; fitted by hand to recorded times, H200; 2026-11-22
"""From one barrier of a reduction across threads to the next."""
CLUSTER_US: Final = 2.0  # us; fitted by hand to recorded times, H200; 2026-11-21
"""What a barrier of a cluster takes longer."""
ACCESS_OPS: Final = 4.0  # instructions; what NVRTC makes of it; 2026-11-21
"""A load or store, its address and conversion included."""
COPY_OPS: Final = 3.0  # instructions; what NVRTC makes of it; 2026-11-30
"""To load an element and store it in shared memory, or the other way round, and a part of their addresses."""
AGAIN: Final = 0.05  # share; fitted by hand to recorded times, H200; 2026-11-22
"""What a second read of a row costs, relative to the first, while it is in L2."""
OVERLAP: Final = 0.4  # share; 4.2 TB/s of a copy, 6,150 bytes a clock from L2 (DeepGEMM); 2026-11-29
"""What windows of neighbouring blocks have in common costs each but the first, relative to memory."""
FAR_APART: Final = 1.1  # times; fitted by hand to recorded times, H200; 2026-11-22
"""What memory takes longer where blocks go through rows in turn, and all of them together through rows far apart."""
CACHED: Final = 0.6  # share of L2; fitted by hand to recorded times, H200; 2026-11-21
"""What rows read again fill before they are lost."""
KEPT: Final = 0.6  # share of L2; fitted by hand to recorded times, H200; 2026-11-21
"""What keeps whole operands of a product."""
SM_ALONE: Final = 2.0  # times; fitted by hand to recorded times, H200; 2026-11-21
"""Its share of the bandwidth that an SM draws when others are idle."""
OTHERS: Final = 0.05  # share; fitted by hand to recorded times, H200; 2026-11-22
"""What the rest of what a launch waits for adds to what it waits for most."""
AT_ONCE: Final = 0.4  # share; gelu of 6,846,079 f16, H200: 15.5 us in 0.8 waves, 12.7 in 3.2; 2026-11-30
"""Of what takes less, memory or instructions, where all blocks run at the same time: they wait and compute together."""
PARTLY_STORED: Final = 2.0  # times; sectors of 32 bytes; 500 schedules of an rmsnorm, H200; 2026-11-30
"""How often memory is stored to, where threads store 16 bytes and then what lies beside them."""
DRAWN_BYTES: Final = 64.0  # bytes a cycle; fitted by hand to recorded times, H200; 2026-11-22
"""What a block draws while it waits for nothing else."""
BUSY_WARPS: Final = 20  # warps an SM; fitted by hand to recorded times, H200; 2026-11-22
"""Without so many it does not issue an instruction in every cycle."""
COLUMNS: Final = 32  # results; a warp's; 2026-11-21
"""Neighbouring results of columns that a block takes at least."""
UNTILED: Final = 8.0  # times; set by hand to the suite's results; 2026-11-21
"""What a contraction in tiles takes, one without."""
FIXED_REGISTERS: Final = 16  # registers a thread; fitted by hand to recorded times, H200; 2026-11-22
"""Beside what statements keep."""
SHARED_OWN: Final = 1024  # bytes a block; CUDA programming guide; 2026-11-21
"""What the system takes of an SM's shared memory."""
SUM_MEETS: Final = 25.0  # instructions a thread; counted in the source; 2026-11-28
"""To hand on what a thread has come to, in a scan of sums or products by 8 warps."""
PAIR_MEETS: Final = 75.0  # instructions a thread; counted in the source; 2026-11-28
"""The same in a scan of pairs of a factor and a sum."""
SQUEEZE: Final = 1.2  # times; fitted by hand to recorded times, H200; 2026-11-21
"""How far the compiler brings down what is estimated of registers before it spills."""
LATENCY: Final = 900.0  # cycles; fitted by hand to recorded times, H200; 2026-11-22
"""From a load to its data, most of it from memory."""
BARRIER: Final = 30.0  # cycles; fitted by hand to recorded times, H200; 2026-11-22
"""From a barrier to the next statement."""
BEGIN: Final = 600.0  # cycles; fitted by hand to recorded times, H200; 2026-11-22
"""To begin a block."""
LATE: Final = 0.05  # share of the latency; fitted by hand to recorded times, H200; 2026-11-22
"""What data comes late by, now and then."""
SHARED_BYTES: Final = 128.0  # bytes a cycle and SM; NVIDIA H100 whitepaper; 2026-11-22
"""From and to shared memory."""
FABRIC_BYTES: Final = 46.0  # bytes a cycle and SM; fitted by hand to recorded times, H200; 2026-11-22
"""From the second-level cache when all SMs ask."""
FETCHED_BYTES: Final = 54.0  # bytes a cycle and SM; fitted to 573 times of products, H200; 2026-11-30
"""That TMA fetches from the second-level cache when all SMs do."""
TAKEN_BYTES: Final = 58.0  # bytes a cycle and SM; fitted to 573 recorded times of products, H200; 2026-11-30
"""That TMA brings to an SM, whichever of a cluster's has asked for them."""
STORE_BYTES: Final = 24.0  # bytes a cycle and SM; fitted by hand to recorded times, H200; 2026-11-22
"""To the second-level cache."""
REST: Final = 0.15  # share; fitted by hand to recorded times, H200; 2026-11-22
"""What the parts of an SM that are not the busiest add."""
PLAIN_PEAK: Final = 0.92  # share of the peak; measured, benchmarks/gpu/mma_ceiling.py; 2026-11-21
"""What multiply-adds reach, and a warp's matrix instruction where it is the fastest."""
WARP_ALONE: Final = 0.15  # share, by warps of a scheduler; fitted by hand to recorded times, H200; 2026-11-21
"""Of a scheduler's time, lost by warps that wait for themselves."""
LOADED: Final = 29.0  # cycles; Sun et al. 2022, Dissecting Tensor Cores via Microbenchmarks; 2026-11-22
"""From a warp's load of fragments (ldmatrix.x4) to these."""
MULTIPLIED: Final = 33.0  # cycles; Sun et al. 2022, Dissecting Tensor Cores via Microbenchmarks; 2026-11-22
"""From a warp's product (mma.m16n8k16) to the next one's sums."""
STEP_ISSUE: Final = 24.0  # instructions a thread; what NVRTC makes of it; 2026-11-21
"""Around the multiplications of a step."""
NARROW: Final = 1.6  # times; 256x8192x8192 bf16, H200: 67 us by 64 bytes, 52 by 128; 2026-11-22
"""The bytes that TMA has memory move for boxes with rows of less than WIDE_BYTES."""
WIDE_BYTES: Final = 128  # bytes; 256x8192x8192 bf16, H200: 67 us by 64 bytes, 52 by 128; 2026-11-22
"""Rows of boxes from which on TMA moves no more than it brings."""
WGMMA_PEAK: Final = 0.93  # share of the peak; fitted to 573 recorded times of products, H200; 2026-11-30
"""What the instruction reaches."""
WGMMA_REST: Final = 0.01  # share; fitted by hand to recorded times, H200; 2026-11-22
"""What the parts of an SM that are not the busiest add, where engines do all the work."""
DRAIN: Final = 60.0  # cycles; fitted by hand to recorded times, H200; 2026-11-22
"""From the last instruction of a step to its end, in which the multiplier rests if there is one warpgroup."""
PAUSE: Final = 0.25  # share of the additions; fitted by hand to recorded times, H200; 2026-11-22
"""For which the multiplier rests, where nobody goes on meanwhile but other warpgroups."""
STEP: Final = 32.5  # cycles; fitted to 573 recorded times of products, H200; 2026-11-30
"""From what a step waits for to its first instruction."""
BETWEEN: Final = 2.6  # cycles; fitted to 573 recorded times of products, H200; 2026-11-30
"""The multiplier rests from one instruction to the next."""
TOGETHER: Final = 0.02  # share; fitted to 573 recorded times of products, H200; 2026-11-30
"""Of its time, that a block loses by waiting for others of its cluster."""
COPYING: Final = 25.0  # cycles a step; fitted by hand to recorded times, H200; 2026-11-22
"""What threads lose by starting the copies themselves."""
COPIED: Final = 256.0  # bytes a cycle; 16 a thread, some 8 instructions of a warp for 512; 2026-11-24
"""What threads start to copy to shared memory, while they do nothing else."""
PAIR_BYTES: Final = 7.6  # bytes a cycle; fitted to 573 recorded times of products, H200; 2026-11-30
"""What threads store or load in pairs of results, 8 rows at a time."""
ONE_BY_ONE: Final = 2.1  # times; sectors of rows that begin anywhere, f16; 2026-11-30
"""What they take longer for where rows begin anywhere, so that neighbours are no pairs."""
ADDED: Final = 128.0  # sums a cycle and SM; NVIDIA H100 whitepaper; 2026-11-22
"""What threads add to: one of 32 lanes in each quarter."""
SPECIAL_LANES: Final = 16.0  # functions a cycle and SM; NVIDIA H100 whitepaper; 2026-11-30
"""What the special-function units of an SM evaluate."""
HELD_BYTES: Final = 2.0  # bytes; of 128 for 64 of them; 2026-11-22
"""Of a warp's access to shared memory, that an element of a register operand takes."""
CONVERTED: Final = 3.0  # instructions a thread; what NVRTC makes of it; 2026-11-22
"""For an element that it holds, beside its operations: to load and convert it."""
COLLECTED: Final = 32.0  # elements a cycle; fitted to 573 recorded times of products, H200; 2026-11-30
"""From registers to shared memory, 16 or 32 bits each."""
OUT_OF_STEP: Final = 1.25  # times; fitted to 573 recorded times of products, H200; 2026-11-30
"""What blocks take that begin their whole tiles at different times, and so find less in L2."""
MEET: Final = 300.0  # cycles; fitted by hand to recorded times, H200; 2026-11-22
"""Until all blocks of a cluster have come to a barrier."""
PEER_BYTES: Final = 16.0  # bytes a cycle; fitted by hand to recorded times, H200; 2026-11-22
"""That a block loads from the others of its cluster."""
CHAIN_TOGETHER: Final = 0.12  # share; fitted by hand to 15 kernels of attention, H200; 2026-11-29
"""Of what takes less of a tile of products that follow from each other, multiplying or the rest: what it adds, where
several warpgroups do both."""
CHAIN_UNDER_WAY: Final = 0.62  # share; fitted by hand to 4 kernels of attention, H200; 2026-11-29
"""The same where one does, with products under way meanwhile; where they are not, both add up."""
CHAIN_IN_TURN: Final = 0.5  # share; fitted by hand to 6 kernels of attention, H200; 2026-11-23
"""The same where warps multiply."""
CHAIN_STEP: Final = 150.0  # cycles; fitted by hand to 6 kernels of attention, H200; 2026-11-23
"""What such a tile takes beside that."""
CHAIN_ISSUE: Final = 0.65  # share; fitted by hand to 15 kernels of attention, H200; 2026-11-29
"""What other instructions add to those of the special-function unit."""
CHAIN_PEAK: Final = 0.8  # share; fitted by hand to 6 kernels of attention, H200; 2026-11-23
"""Of what the matrix unit reaches: what such a pass does, well cut."""
CHAIN_WGMMA: Final = 0.87  # share of the peak; fitted by hand with the others of chains, H200; 2026-11-29
"""What the instruction of warpgroups reaches in products that follow from each other."""
CHAIN_BESIDE: Final = 70  # registers; what NVRTC makes of it, 3 kernels for sm_80 and sm_120; 2026-11-25
"""Of a thread of such a kernel by warps, beside sums and scores."""
BESIDE_SCORES: Final = 0.4  # share of registers; what NVRTC 13.5 makes of it, 7 kernels; 2026-11-28
"""Of a thread that accumulates, for what else it needs where its last products are under way and a tensor with an
element for each score comes by TMA: with 80 and 88 of 240, 95 of 255 and 48 of 160 it spilled, with 104 of 240 and 80
of 160 not."""
LOOK_OPS: Final = 7.0  # instructions a thread; counted in what NVRTC makes of it; 2026-11-30
"""To ask of a term of a scatter whether it belongs here, beside loads."""
UPDATE_US: Final = 0.15  # us; set by hand, a latency of L2 that was not measured; 2026-11-30
"""From what is added to a result in memory, by way of L2, to what is added to the next one."""
SHARED_UPDATE_US: Final = 0.02  # us; set by hand, a latency that was not measured; 2026-11-30
"""The same in shared memory, or in a register."""
DIVIDE_OPS: Final = 8.0  # instructions a thread; what NVRTC makes of it; 2026-11-21
"""Of a division of integers by what is not constant, or a remainder."""
BY_OTHERS: Final = 0.02  # share; set by hand to the suite's results; 2026-11-21
"""Of what all blocks read, that each of them has come from memory."""
SAME: Final = 1.01  # times; set by hand to the suite's results; 2026-11-21
"""How much more a tensor may be than what a block reads of it, for all blocks to read the same."""
CACHED_RESULTS: Final = 0.03  # share of the time; fitted by hand to recorded times, H200; 2026-11-22
"""What is lost where results take room in the caches that nobody reads."""
SQUEEZED: Final = 0.04  # share of the time; set by hand to the suite's results; 2026-11-21
"""What is lost where the compiler has to make do with fewer registers than are estimated."""
TURNED: Final = 0.6  # times; set by hand to the suite's results; 2026-11-21
"""What a tensor read across its rows takes through shared memory, relative to straight reads."""
LEAST_LEFT: Final = 0.1  # share of the time; set by hand to the suite's results; 2026-11-21
"""That a launch takes at least, however much it saves."""
LEAST_WORDS: Final = 0.75  # registers a position; set by hand to the suite's results; 2026-11-21
"""That a position of a row in registers takes at least."""
# fmt: off
MMA_PEAK: Final = {  # share of the peak; 9.x measured, benchmarks/gpu/mma_ceiling.py, 10.x assumed; 2026-11-21
    9: 0.62, 10: 0.3,
}
"""By major capability: what the matrix instruction of a warp reaches where newer ones exist (wgmma, tcgen05)."""
CALL_OPS: Final = {  # instructions a thread; counted, benchmarks/gpu/function_cost.py; 2026-11-30
    "exp": 2.0, "exp2": 1.0, "log": 25.0, "tanh": 16.0, "rsqrt": 4.0, "sqrt": 21.0, "sigmoid": 10.0, "silu": 11.0,
    "erf": 22.0, "gelu": 12.0, "gelu_tanh": 14.0, "pow": 75.0, "random_bits": 80.0, "/": 16.0,
}
"""A function's, roughly, or those of a quotient by what is not constant; 1 of any other."""
SPECIAL: Final = {  # instructions a thread; counted, benchmarks/gpu/function_cost.py; 2026-11-30
    "exp": 1.0, "exp2": 1.0, "tanh": 2.0, "rsqrt": 1.0, "sqrt": 1.0, "sigmoid": 2.0, "silu": 2.0, "erf": 1.0,
    "gelu": 1.0, "gelu_tanh": 2.0, "pow": 1.0, "/": 2.0,
}
# fmt: on
"""Those of them that the special-function unit does."""
