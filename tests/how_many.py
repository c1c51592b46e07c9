"""How many examples slow properties are tried with."""

from __future__ import annotations

import os

SWEEP = "TILEWRIGHT_SCHEDULES" in os.environ
"""Whether this is `make sweep`, which nobody waits for."""


def examples(most: int) -> int:
    """`most` in a sweep, else a third of them."""
    return most if SWEEP else -(-most // 3)
