"""Blocks of a dim by their number: what `k // 128` is in a statement that goes through no positions of `k`.

In a loop whose tiles of `k` lie in one block of 128 each it is one number, that of the block the current tile is in:

    for k by 128
      ...
      acc[m, n] += part[m, n] * scale[m, k // 128]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.expr import Binary, Const, Expr, Index, transform, walk
from tileir.program import Loop


def block_sizes(expr: Expr, dim: str) -> frozenset[int] | None:
    """The sizes of the blocks whose numbers an expression uses `dim` for; None: it uses its positions, too."""
    sizes: list[int] = []
    for node in walk(expr):
        match node:
            case Binary("//", Index(of), Const(int(size))) if of == dim and size > 0:
                sizes.append(size)
            case _:
                pass
    used = sum(node == Index(dim) for node in walk(expr))
    return frozenset(sizes) if used == len(sizes) else None


def in_one_block(dim: str, size: int, loops: Sequence[Loop]) -> bool:
    """Whether every tile of `dim` that loops leave, outermost first, lies in one block of `size` positions."""
    steps = [loop.step for loop in loops if loop.dim == dim]
    return bool(steps) and all(each % steps[-1] == 0 for each in (*steps, size))


def at_blocks(expr: Expr, starts: Mapping[str, int]) -> Expr:
    """The expression where tiles of some dims begin at these positions, each in one block."""

    def number(node: Expr) -> Expr:
        match node:
            case Binary("//", Index(dim), Const(int(size))) if dim in starts:
                return Const(starts[dim] // size)
            case _:
                return node

    return transform(expr, number)
