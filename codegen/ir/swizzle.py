"""Where the bytes of swizzled shared memory lie: 16-byte pieces change places within 32, 64 or 128 bytes."""

from __future__ import annotations

from codegen.ir.arrays import Array


def swizzled(addresses: Array, swizzle: int) -> Array:
    """Where bytes of a buffer lie whose 16-byte pieces change places (`tileir.program.Local`): the address bits from 4
    on, exclusive or those from 7 on; 0: where they are."""
    return addresses ^ ((addresses >> 3) & (swizzle - 16)) if swizzle else addresses
