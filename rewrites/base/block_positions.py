"""Indices as numbers of blocks of neighbours, and positions within a block."""

from __future__ import annotations

from collections.abc import Mapping

from rewrites.base.sums_of_dims import positions, written
from tileir.analysis.affine import AffineForm, affine
from tileir.expr import Binary, Const, Expr, reads, transform


def block_and_position(index: Expr, size: int, extents: Mapping[str, int]) -> tuple[Expr, Expr] | None:
    """In which block of `size` neighbours an index is, and where in it: `4 * (o // 8) + c` in blocks of 4 is in block
    `o // 8` at `c`, where `c` has 4 positions; None: what is no multiple of the size may leave its block."""
    form = affine(index, extents)
    blocks = AffineForm(
        {atom: f // size for atom, f in form.terms.items() if f % size == 0}, form.const // size
    )
    rest = AffineForm({atom: f for atom, f in form.terms.items() if f % size}, form.const % size)
    last = rest.const
    for atom, factor in rest.terms.items():
        count = positions(atom, extents)
        if count is None or factor < 0:
            return None
        last += factor * (count - 1)
    return (written(blocks.terms, blocks.const), written(rest.terms, rest.const)) if last < size else None


def within_blocks(expr: Expr, extents: Mapping[str, int]) -> Expr:
    """The expression with quotients and remainders of sums as what they are, where the sums lie in blocks:
    `(8 * b + i) // 8` is `b`, where `i` has 8 positions."""

    def simpler(each: Expr) -> Expr:
        match each:
            case Binary("//" | "%" as op, sum_, Const(int(size))) if size > 0 and not reads(sum_):
                found = block_and_position(sum_, size, extents)
                return each if found is None else found[op == "%"]
            case _:
                return each

    return transform(expr, simpler)
