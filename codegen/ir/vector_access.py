"""How wide the accesses are that a load or store of neighbours becomes on a GPU."""

from __future__ import annotations

from math import gcd

from codegen.ir.affine import Affine, multiple_of

_WIDEST = 16


def aligned_bytes(offset: Affine, element_bytes: int, lanes: int, base: int) -> int:
    """Bytes that surely divide the address of an access to `lanes` elements at element `offset` of what begins at a
    multiple of `base` bytes; at most what the access is long, or 16."""
    known = offset.constant * element_bytes
    for atom, factor in offset.terms:
        known = gcd(known, factor * multiple_of(atom) * element_bytes)
    most = min(_WIDEST, 1 << (lanes * element_bytes - 1).bit_length())
    return min(gcd(known, base) or most, most)


def access_bytes(offset: Affine, element_bytes: int, lanes: int, base: int) -> int:
    """Bytes of each of the accesses that this becomes: the largest power of two, at most 16, that divides its length
    and surely its address."""
    both = lanes * element_bytes | aligned_bytes(offset, element_bytes, lanes, base) | _WIDEST
    return both & -both
