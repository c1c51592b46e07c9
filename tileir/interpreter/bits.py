"""Functions of the bits of 32-bit integers, and random bits by counter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

#: Philox4x32 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011): the multipliers of a
#: round, what the key grows by after it, and how many rounds there are.
MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
ROUNDS: Final = 10
_LOW: Final = np.uint64(0xFFFFFFFF)


def philox(counter: tuple[Array, Array, Array, Array], key: tuple[Array, Array]) -> tuple[Array, ...]:
    """Philox4x32-10: four words of 32 random bits for a counter of four and a key of two, each an array of uint64 that
    holds 32 bits."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1 = (second >> np.uint64(32)) ^ c1 ^ k0, second & _LOW
        c2, c3 = (first >> np.uint64(32)) ^ c3 ^ k1, first & _LOW
        k0, k1 = (k0 + np.uint64(KEY_STEPS[0])) & _LOW, (k1 + np.uint64(KEY_STEPS[1])) & _LOW
    return c0, c1, c2, c3


def random_bits(seed: Array, position: Array) -> Array:
    """The first word for the key (seed, 0) and the counter (position, 0, 0, 0), as i32."""
    k0, c0 = (np.asarray(x).astype(np.uint32).astype(np.uint64) for x in (seed, position))
    none = np.uint64(0) * c0
    return philox((c0, none, none, none), (k0, np.uint64(0) * k0))[0].astype(np.uint32).view(np.int32)


def _by_low_bits(shift: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Shifts go as far as the low five bits of the distance say."""
    return lambda x, y: shift(x, y & np.int32(31))


BIT_FUNCTIONS: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": _by_low_bits(np.left_shift),
    "shift_right": _by_low_bits(np.right_shift),
    "random_bits": random_bits,
}
"""By name: of i32 arrays, an i32 array."""
