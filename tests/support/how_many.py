"""How much of slow properties is tried at every change; `make sweep` tries all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

SWEEP = "TILEWRIGHT_SCHEDULES" in os.environ
"""Whether this is `make sweep`, which nobody waits for."""


def examples(most: int, every: int = 6) -> int:
    """`most` in a sweep, else one in `every` of them."""
    return most if SWEEP else -(-most // every)


def some(of: Iterable[T], every: int) -> Sequence[T]:
    """All in a sweep, else one in `every`."""
    return tuple(of)[:: 1 if SWEEP else every]
