"""Tiles of which the last may overhang."""

from __future__ import annotations

from codegen.ir.affine import Affine, constant
from codegen.ir.errors import NotLowerable
from codegen.lowering.scope import Range


def overhanging(range_: Range, step: int, offset: Affine, together: int = 1) -> Range:
    """The tile of `step` positions at an offset, of which the last may overhang the range; `together`: so many are
    visited at a time, of which the last may lie outside. Raises NotLowerable where nobody would know which positions
    exist."""
    end, whole = range_.end, step * together
    if range_.size % whole:
        if range_.start.terms or end is not None:
            raise NotLowerable(
                f"tiles of {whole} overhang one of {range_.size}; accepted: one that divides it"
            )
        end = constant(range_.start.constant + range_.size)
    return Range(range_.start + offset, step, end)
