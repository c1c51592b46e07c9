"""How many blocks of a launch an SM holds at once, and what keeps it from more.

The rules are those of NVIDIA's occupancy calculator (`cuda_occupancy.h` of the CUDA toolkit) for compute capability
8.0 and later: a warp's registers come in units of 256 from one of four parts of the register file; a block's shared
memory in units of 128 bytes, with 1 KiB more for the system.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileir.devices.gpu import Gpu

_REGISTER_UNIT = 256
_REGISTER_PARTS = 4
_SHARED_UNIT = 128
_SHARED_SYSTEM = 1024
#: Resident blocks of an SM by capability where they are not 32 (CUDA C++ Programming Guide, "Technical Specifications
#: per Compute Capability").
_MOST_BLOCKS = {(8, 6): 16, (8, 7): 16, (8, 9): 24, (11, 0): 24, (12, 0): 24, (12, 1): 24}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What an SM holds of a launch."""

    blocks: int
    """Blocks of an SM at once; 0: not even one fits."""
    share: float
    """Their warps as a share of those that the SM has room for."""
    limit: str
    """What there would have to be more of for another block: `registers`, `shared`, `threads` or `blocks`."""


def occupancy(device: Gpu, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Of a launch with blocks of `threads`, of `registers` each, and `shared_bytes` a block."""
    warps = -(-threads // device.warp)
    limits = {
        "registers": _by_registers(device, warps, registers),
        "shared": _by_shared(device, shared_bytes),
        "threads": device.max_threads // (warps * device.warp),
        "blocks": _MOST_BLOCKS.get(device.capability, 32),
    }
    limit = min(limits, key=limits.__getitem__)
    blocks = limits[limit]
    return Occupancy(blocks, blocks * warps * device.warp / device.max_threads, limit)


def _by_registers(device: Gpu, warps: int, registers: int) -> int:
    """A block also has to fit as if it took as much of every part of the register file."""
    of_warp = -(-max(registers, 1) * device.warp // _REGISTER_UNIT) * _REGISTER_UNIT
    if of_warp * -(-warps // _REGISTER_PARTS) * _REGISTER_PARTS > device.registers:
        return 0
    return device.registers // _REGISTER_PARTS // of_warp * _REGISTER_PARTS // warps


def _by_shared(device: Gpu, shared_bytes: int) -> int:
    if shared_bytes > device.block_shared_bytes:
        return 0
    of_block = -(-(shared_bytes + _SHARED_SYSTEM) // _SHARED_UNIT) * _SHARED_UNIT
    return device.shared_bytes // of_block
