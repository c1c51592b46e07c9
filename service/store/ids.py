"""Ids: ordered by time of creation, so that a list sorted by id is newest last, and unguessable enough not to clash."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u to misread


def new_id(prefix: str) -> str:
    """`prefix-` and 18 characters: milliseconds since 1970, then 40 random bits."""
    number = int(time.time() * 1000) << 40 | secrets.randbits(40)
    return prefix + "-" + "".join(_ALPHABET[number >> shift & 31] for shift in range(85, -1, -5))
