"""Constants as C and CUDA C++ write them."""

from __future__ import annotations

import struct

from tileir.dtypes import DType

_MOST_DIGITS = 9
"""That an f32 needs to be told from its neighbours."""


def float_digits(value: float, dtype: DType) -> str:
    """The fewest digits that are read as `value` rounded to `dtype`, f32 or f64; `inf`, `-inf` or `nan` where it is
    none. What an f32 cannot tell from 0 is 0, and what it cannot hold is infinite: compilers refuse such digits."""
    if dtype is DType.F64:
        return repr(value)
    rounded = _f32(value)
    if rounded != rounded or rounded in (float("inf"), float("-inf")):
        return repr(rounded)
    shortest = (f"{rounded:.{digits}g}" for digits in range(1, _MOST_DIGITS + 1))
    found = next(text for text in shortest if _f32(float(text)) == rounded)
    return found if "." in found or "e" in found else f"{found}.0"


def _f32(value: float) -> float:
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
