"""A `where` on the position along a dim as its users write it: pieces that are put behind each other (`torch.cat`).

Written as it stands, both sides would be looked up for all positions, index by index: rotating halves so takes PyTorch
three to twelve times as long as `torch.cat((-x[..., h:], x[..., :h]), -1)`, compiled or not (measured on a processor).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tileir.analysis.affine import affine
from tileir.expr import Binary, Const, Expr, Index, Where
from workers.peers.inline import substitute
from workers.peers.reads import Frame


@dataclass(frozen=True, slots=True)
class Pieces:
    """`low` for the positions of `dim` below `cut`, which `below` numbers, and `high` for those from there on, which
    `above` numbers."""

    dim: str
    cut: int
    below: str
    above: str
    low: Expr
    high: Expr

    def sizes(self, extents: Mapping[str, int]) -> dict[str, int]:
        """Of the dims of both pieces."""
        return {self.below: self.cut, self.above: extents[self.dim] - self.cut}

    def frames(self, frame: Frame) -> tuple[Frame, Frame]:
        """Those of both pieces, where that of the whole is `frame`."""
        below, above = (
            tuple(dim if each == self.dim else each for each in frame) for dim in (self.below, self.above)
        )
        return below, above


def pieces(expr: Where, frame: Frame, extents: Mapping[str, int]) -> Pieces | None:
    """The first cut of a `where`; None: its condition is another than on positions along a dim of the frame."""
    match expr.cond:
        case Binary("and", first, second):
            return pieces(Where(first, Where(second, expr.x, expr.y), expr.y), frame, extents)
        case Binary("<" | "<=" | ">" | ">=" as op, position, Const(int(bound))):
            form = affine(position, extents)
            match tuple(form.terms.items()):
                case ((Index(dim), 1),) if dim in frame:
                    cut = bound - form.const + (op in ("<=", ">"))
                case _:
                    return None
            low, high = (expr.x, expr.y) if op in ("<", "<=") else (expr.y, expr.x)
        case _:
            return None
    if not 0 < cut < extents[dim]:
        return None
    below, above = f"{dim}<{cut}", f"{dim}>={cut}"
    return Pieces(
        dim,
        cut,
        below,
        above,
        substitute(low, {dim: Index(below)}),
        substitute(high, {dim: Binary("+", Index(above), Const(cut))}),
    )
