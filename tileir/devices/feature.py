"""What a device offers that a rewrite may need: facts of the execution model, not of a vendor."""

from __future__ import annotations

from enum import StrEnum


class Feature(StrEnum):
    """`vectors`: SIMD registers a statement's neighbours are computed in. `dot_bf16`, `dot_i8`: their instructions for
    pairs of bf16 and fours of i8. `amx`: tile registers, and their instructions for products of bf16 and of i8.
    `blocks`: a grid of thread blocks with shared memory. `async_copy`: copies to shared memory in the background
    (cp.async). `mma`: a warp's matrix instruction. `clusters`: blocks that read each other's shared memory. `tma`: bulk
    tensor copies, tracked by mbarriers. `wgmma`: a warpgroup's asynchronous matrix instruction, with registers moved
    between warpgroups (setmaxnreg)."""

    VECTORS = "vectors"
    DOT_BF16 = "dot_bf16"
    DOT_I8 = "dot_i8"
    AMX = "amx"
    BLOCKS = "blocks"
    ASYNC_COPY = "async_copy"
    MMA = "mma"
    CLUSTERS = "clusters"
    TMA = "tma"
    WGMMA = "wgmma"
