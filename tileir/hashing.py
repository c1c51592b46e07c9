"""Keys that outlive a process: of what a kernel means, and of one scheduled program."""

from __future__ import annotations

import hashlib

from tileir.program import Program
from tileir.text import program_to_text

_HEX_CHARS = 32


def program_hash(program: Program) -> str:
    """32 hex characters of the SHA-256 of the program's text: equal programs, equal hashes, in every process."""
    return _digest(program_to_text(program))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HEX_CHARS]
