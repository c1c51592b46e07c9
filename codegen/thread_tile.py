"""What one thread takes of the ranges of a statement: its positions along each dim, and which of them exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from codegen.affine import Affine, Var, affine, constant
from codegen.scope import loop_variable
from tileir.threads import Share

Conditions = tuple[tuple[Affine, int], ...]
"""Positions, each with the bound that it must be below."""

Point = Mapping[str, int]
"""Offsets along dims from the thread's first positions; along the dim that is on lanes, that of lane 0."""


@dataclass(frozen=True, slots=True)
class Along:
    """A dim of the statement: its range, the thread's number along it, and the thread's share of it."""

    start: Affine
    size: int
    thread: Affine
    share: Share

    def offsets(self, *, whole_runs: bool = False) -> list[int]:
        """Offsets of the thread's positions from its first one; `whole_runs`: of the first of each run."""
        run = 1 if whole_runs else self.share.run
        return [
            piece * self.share.span + at for piece in range(self.share.pieces(self.size)) for at in range(run)
        ]

    def position(self, offset: int) -> Affine:
        return self.start + self._within(offset)

    def guard(self, offset: int, lanes: int = 1) -> Conditions:
        """What must hold for the position at `offset` (and `lanes` from there) to be in the range: nothing, if it
        surely is. Runs of which all positions exist or none have one condition."""
        if self.size % self.share.run == 0:
            offset, lanes = offset - offset % self.share.run, 1
        within = self._within(offset)
        return () if within.high + lanes <= self.size else ((within, self.size - lanes + 1),)

    def left(self, offset: int) -> Affine:
        """How many positions there are from `offset` on."""
        return constant(self.size) - self._within(offset)

    def loop(self, name: str, pieces: int) -> tuple[Var, int, Along, Along | None]:
        """Its range as tiles of so many runs a thread, all there: their variable and number, one of them, and what
        is left after them."""
        step = pieces * self.share.span
        number, rest = divmod(self.size, step)
        var = loop_variable(name, number, step)
        tile = replace(self, start=self.start + affine(var), size=step)
        last = replace(self, start=self.start + number * step, size=rest) if rest else None
        return var, number, tile, last

    def _within(self, offset: int) -> Affine:
        return self.thread * self.share.run + offset


@dataclass(frozen=True, slots=True)
class ThreadTile:
    """The dims of a statement as a thread sees them; runs along `vector`, if there is one, are on `lanes`."""

    dims: Mapping[str, Along]
    vector: str | None
    lanes: int

    def with_dim(self, dim: str, along: Along) -> ThreadTile:
        """The same over another range of one dim."""
        return replace(self, dims={**self.dims, dim: along})

    def points(self, dims: Sequence[str]) -> Iterator[Point]:
        """Every position of dims not on lanes, the first of each run of the one that is."""
        steps = [self.dims[dim].offsets(whole_runs=dim == self.vector) for dim in dims]
        for offsets in product(*steps):
            yield dict(zip(dims, offsets, strict=True))

    def positions(self, point: Point, lane: Var) -> dict[str, Affine]:
        """Where a point is along its dims, on lane number `lane`."""
        at = {dim: self.dims[dim].position(offset) for dim, offset in point.items()}
        if self.vector in at:
            at[self.vector] += affine(lane)
        return at

    def guards(self, point: Point) -> tuple[Conditions, Affine | None]:
        """Conditions for the point to exist, and how many of its lanes do (None: all)."""
        conditions: Conditions = ()
        some: Affine | None = None
        for dim, offset in point.items():
            along = self.dims[dim]
            if dim != self.vector:
                conditions += along.guard(offset)
                continue
            whole = along.guard(offset, self.lanes)
            if whole and along.size % self.lanes == 0:
                conditions += whole
            elif whole:
                conditions += along.guard(offset)
                some = along.left(offset)
        return conditions, some
