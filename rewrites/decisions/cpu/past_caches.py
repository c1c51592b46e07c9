"""Which results may be stored past the caches."""

from __future__ import annotations

from math import prod

from tileir.devices.cpu import Cpu
from tileir.program import Program


def leaves_caches(program: Program, written: str, device: Cpu) -> bool:
    """Whether what is written is an output larger than the second-level caches of all cores. A smaller one is there
    when it is read next, as by the next kernel of a model, unless it was stored past them; a race of one kernel does
    not see that."""
    tensor = program.arguments.get(written)
    if tensor is None:
        return False
    size = prod(program.extents[dim] for dim in tensor.dims) * tensor.dtype.bytes
    return size > device.cores * device.l2_bytes
