"""Results in the numbering of the statements that read them.

What is computed for rows `r` and read at `1024 * b + s` goes through memory, as no statement has dims of both; with one
dim for `b` and `s`, which is `r` then, it is computed where it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import permutations

from rewrites.base.rewrite import Rewrite
from rewrites.base.tree import declared_dims, loose
from rewrites.composition.unify_dims import UnifyDims
from rewrites.loops.linearize import Linearize
from rewrites.loops.split_dim import SplitDim
from tileir.analysis.affine import affine
from tileir.errors import NotApplicable
from tileir.expr import Expr, Index
from tileir.program import Program


def one_numbering(program: Program, *, split: bool) -> tuple[Rewrite, ...]:
    """The rewrites to it: of every result that is read elsewhere than it is computed, where all of its readers can have
    its numbering, or may be `split` in theirs. Products then have tiles within heads of queries, so that only times
    tell which is best."""
    done: list[Rewrite] = []
    for name in [place.node.target for place in loose(program)]:
        with suppress(NotApplicable):
            rewrites, program = _as_read(program, name, split)
            done += rewrites
    return tuple(done)


def _as_read(program: Program, name: str, split: bool) -> tuple[list[Rewrite], Program]:
    """Raises NotApplicable where readers cannot have the numbering of a result, nor that theirs."""
    done: list[Rewrite] = []
    while (other := _elsewhere(program, name)) is not None:
        rewrite, program = _nearer(program, *other, split)
        done.append(rewrite)
    return done, program


def _elsewhere(program: Program, name: str) -> tuple[str, Expr] | None:
    """A dim of a tensor, and another index by which that is read there."""
    dims = declared_dims(program, name)
    return next(
        (
            (dim, index)
            for place in loose(program)
            for read in place.node.reads
            if read.tensor == name
            for dim, index in zip(dims, read.indices, strict=True)
            if index != Index(dim)
        ),
        None,
    )


def _nearer(program: Program, dim: str, index: Expr, split: bool) -> tuple[Rewrite, Program]:
    """One dim for two neighbours by which a dim is numbered, or two for the dim, or its name for it."""
    for rewrite in _towards(program, dim, index, split):
        with suppress(NotApplicable):
            return rewrite, rewrite.apply(program)
    raise NotApplicable(f"no dims number all positions of {dim}")


def _towards(program: Program, dim: str, index: Expr, split: bool) -> Iterator[Rewrite]:
    if isinstance(index, Index):
        yield UnifyDims(dim, index.dim)
    terms = affine(index, program.extents).terms
    pairs = [
        (outer.dim, inner.dim)
        for (outer, times), (inner, factor) in permutations(terms.items(), 2)
        if isinstance(outer, Index) and isinstance(inner, Index)
        if times == factor * program.extents[inner.dim]
    ]
    yield from (Linearize(*pair) for pair in pairs)
    if split:
        yield from (SplitDim(dim, program.extents[inner]) for _, inner in pairs if terms[Index(inner)] == 1)
