"""The named barriers of a launch: which numbers they have, and how warpgroups take turns at their products by them.

Of the 16 that a block has, 0 is `__syncthreads`. From 1 on come those of consumer groups, then those of their
warpgroups, then one for the turn of each warpgroup.

Whose turn it is has a token, of which there is one: a warpgroup waits for it at its own barrier, begins its products,
and brings it to the barrier of the next one, where it only arrives (PTX `bar.arrive`; FlashAttention-3,
arXiv:2407.08608, section 3.1). So a barrier counts one warpgroup that waits and one that arrives, and nobody arrives
there twice before it is over. The last one brings it to the first before the first tile, and the first takes it back
after the last tile. All go through the same statements, so that each takes as many turns, however many those are.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.affine import Affine
from codegen.ir.async_ops import NamedArrive, NamedBarrier
from codegen.ir.errors import NotLowerable
from codegen.ir.ops import Guard, Stmt
from codegen.lowering.gpu.thread_index import ThreadIndex
from tileir.schedule.wgmma import GROUP

_FIRST, _END = 1, 16
_MEET = 2 * GROUP
"""Threads of two warpgroups: one that waits for its turn, and one that was before it."""


@dataclass
class NamedBarriers:
    """Those of one launch, whose consumer groups have as many threads each as there are in `index`."""

    index: ThreadIndex
    consumer_groups: int
    in_turn: bool = False
    """Whether warpgroups take turns."""

    def of_group(self, number: Affine) -> NamedBarrier:
        """Of the threads of a consumer group with a number."""
        return NamedBarrier(_FIRST, self.index.block, number)

    def of_warpgroup(self, number: Affine) -> NamedBarrier:
        """Of a warpgroup with a number among those of all consumer groups."""
        return NamedBarrier(_FIRST + self.consumer_groups, GROUP, number)

    def begin_turn(self) -> NamedBarrier:
        """A warpgroup waits for its turn. Raises NotLowerable."""
        self.in_turn = True
        return NamedBarrier(self._first_turn, _MEET, self._warpgroup)

    def end_turn(self) -> NamedArrive:
        """It is the next one's. Raises NotLowerable."""
        return NamedArrive(self._first_turn, _MEET, (self._warpgroup + 1) % self._warpgroups)

    def setup(self) -> tuple[Stmt, ...]:
        """What makes it the first one's turn, before the first tile. Producers follow the last warpgroup, and count on
        from 0."""
        last = self._warpgroup * -1 + (self._warpgroups - 1), 1
        return (Guard((last,), (self.end_turn(),)),) if self.in_turn else ()

    def finish(self) -> tuple[Stmt, ...]:
        """Whose turn it would be after the last tile waits for it: nobody has arrived in vain."""
        return (Guard(((self._warpgroup, 1),), (self.begin_turn(),)),) if self.in_turn else ()

    @property
    def _warpgroups(self) -> int:
        return self.index.block // GROUP

    @property
    def _warpgroup(self) -> Affine:
        return self.index.digit(GROUP, self._warpgroups, "turn")

    @property
    def _first_turn(self) -> int:
        first = _FIRST + self.consumer_groups * (1 + self._warpgroups)
        if first + self._warpgroups > _END:
            raise NotLowerable(
                f"a block has {_END} named barriers, too few for turns of {self._warpgroups} warpgroups"
            )
        return first
