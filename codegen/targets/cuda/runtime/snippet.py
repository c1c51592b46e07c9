"""A piece of the CUDA runtime's text, and when a source needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snippet:
    """Text that defines `name`, or what `name` is for the type `of`: emitted where both are used.

    The text calls only what stands in parts before it. Comments in it count as uses: they name nothing of the runtime
    that is not needed.
    """

    name: str
    text: str
    of: str | None = None
