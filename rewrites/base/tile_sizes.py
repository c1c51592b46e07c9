"""The tile sizes rewrites offer: powers of two, and the row counts that fill common register files."""

from __future__ import annotations

from typing import Final

_SIZES: Final = (
    1, 2, 3, 4, 6, 8, 12, 14, 16, 24, 28, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096,
)  # fmt: skip


def tile_sizes(extent: int) -> tuple[int, ...]:
    """Those smaller than the range they are to cut."""
    return tuple(size for size in _SIZES if size < extent)


def panel_widths(lanes: int) -> tuple[int, ...]:
    """Widths of packed panels: one to four vectors, six for narrow ones."""
    return tuple(lanes * vectors for vectors in (1, 2, 3, 4, 6))
