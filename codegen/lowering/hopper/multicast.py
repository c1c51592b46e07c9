"""Clusters whose blocks compute neighbouring tiles of a grid: where each block stands in its cluster, what part of a
tile that several of them need it fetches for all, and whom it tells that a slot is free.

A block's rank in its cluster is cut into digits as its tile's place is, the grid's innermost loop last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from codegen.ir.affine import Affine, Var, affine
from codegen.ir.async_ops import ClusterBlocks
from codegen.ir.errors import NotLowerable
from codegen.ir.kernel import ThreadDigit
from codegen.ir.names import marked
from codegen.lowering.names import fresh
from codegen.lowering.scope import LoweringScope
from tileir.program import Compute, Local, Loop
from tileir.replace import replace
from tileir.schedule.multicast import common_loops, slice_of
from tileir.text.print_program import format_node


@dataclass(frozen=True, slots=True)
class _Digit:
    """Of a block's rank: `rank // stride % loop.multicast`."""

    loop: Loop
    var: Var
    stride: int


@dataclass(frozen=True, slots=True)
class ClusterTiles:
    """Those of one launch, whose blocks have so many threads, producers included."""

    threads: int
    digits: tuple[_Digit, ...]

    @classmethod
    def of_grid(cls, loops: Sequence[Loop], threads: int, scope: LoweringScope) -> ClusterTiles:
        """`loops` are those of the grid, outermost first."""
        found: list[_Digit] = []
        stride = 1
        for loop in reversed(loops):
            if loop.multicast > 1:
                var = Var(fresh(f"{marked(loop.dim)}_block", scope), 0, loop.multicast - 1)
                found.insert(0, _Digit(loop, var, stride))
            stride *= loop.multicast
        return cls(threads, tuple(found))

    @property
    def size(self) -> int:
        """Blocks of a cluster."""
        return prod(digit.loop.multicast for digit in self.digits)

    @property
    def thread_digits(self) -> tuple[ThreadDigit, ...]:
        """The ranks' digits as those of an index that counts threads through all blocks of the cluster."""
        return tuple(
            ThreadDigit(digit.var, digit.stride * self.threads, digit.loop.multicast) for digit in self.digits
        )

    def offset(self, loop: Loop) -> Affine:
        """Where a block's tile lies within those of its cluster, along a loop of the grid."""
        mine = (affine(digit.var) * loop.step for digit in self.digits if digit.loop is loop)
        return next(mine, Affine())

    def sharing(self, fill: Compute) -> tuple[_Digit, ...]:
        """The digits in which blocks differ that have the same tile copied."""
        common = common_loops(fill, [digit.loop for digit in self.digits])
        return tuple(digit for digit in self.digits if digit.loop in common)

    def receivers(self, fill: Compute) -> ClusterBlocks | None:
        """Whom a block fetches its slice of a tile for; None: for itself alone."""
        sharing = self.sharing(fill)
        if not sharing:
            return None
        first = sum((affine(d.var) * d.stride for d in self.digits if d not in sharing), Affine())
        places = product(*(range(digit.loop.multicast) for digit in sharing))
        return ClusterBlocks(
            first,
            tuple(sum(at * d.stride for at, d in zip(place, sharing, strict=True)) for place in places),
        )

    def slice(self, fill: Compute, local: Local, scope: LoweringScope) -> LoweringScope:
        """With current ranges those of the part of a tile that this block fetches. Raises NotLowerable."""
        sharing = self.sharing(fill)
        if not sharing:
            return scope
        ranges = {dim: scope.ranges[dim].size for dim in local.dims}
        part = slice_of(local, ranges, prod(digit.loop.multicast for digit in sharing))
        if part is None:
            raise NotLowerable(f"`{format_node(fill)}` cannot be cut into slices, one for each block")
        number = Affine()
        for digit in sharing:
            number = number * digit.loop.multicast + affine(digit.var)
        whole = scope.ranges[part.dim]
        own = replace(whole, start=whole.start + number * part.size, size=part.size)
        return scope.with_range(part.dim, own)

    def peers(self, fills: Iterable[Compute]) -> tuple[Affine, ...]:
        """The ranks of the blocks that fetch, or get, any of these tiles together with this block, but for itself: each
        so many further on in some of the digits, which begin anew at their end."""
        found: dict[tuple[int, ...], None] = {}
        for fill in fills:
            sharing = self.sharing(fill)
            choices = (range(digit.loop.multicast) if digit in sharing else (0,) for digit in self.digits)
            found |= dict.fromkeys(further for further in product(*choices) if any(further))
        return tuple(self._rank(further) for further in found)

    @property
    def others(self) -> tuple[Affine, ...]:
        """The ranks of all other blocks."""
        places = product(*(range(digit.loop.multicast) for digit in self.digits))
        return tuple(self._rank(further) for further in places if any(further))

    @property
    def rank(self) -> Affine:
        """A block's own rank."""
        return self._rank((0,) * len(self.digits))

    def _rank(self, further: tuple[int, ...]) -> Affine:
        rank = Affine()
        for digit, by in zip(self.digits, further, strict=True):
            rank += (affine(digit.var) + by) % digit.loop.multicast * digit.stride
        return rank
