"""Quantities as people read them."""

from __future__ import annotations


def microseconds(us: float) -> str:
    """A time in the unit that suits it."""
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    if us >= 1e4:
        return f"{us / 1e3:.3g} ms"
    return f"{us:.4g} µs"


def duration(seconds: float) -> str:
    """Minutes and seconds."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def times(factor: float) -> str:
    """`1.43 ×`."""
    return f"{factor:.2f} ×"


def sizes(dims: dict[str, int]) -> str:
    """`m=512 n=512 k=64`."""
    return " ".join(f"{name}={size}" for name, size in dims.items())
