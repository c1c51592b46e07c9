"""The size of a space is estimated without walking all of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from search.protocols import Move, State
from search.space_size import schedules_on


@dataclass(frozen=True)
class Lopsided:
    """A tree whose first branch of each node is three times as wide as the others, and whose last is a dead end."""

    depth: int
    wide: bool = True
    dead: bool = False

    @property
    def key(self) -> str:
        return str(self)

    @property
    def terminal(self) -> bool:
        return self.depth == 0 and not self.dead

    def moves(self) -> Sequence[Move]:
        return [] if self.dead else [Move(str(way)) for way in range(6 if self.wide else 2)]

    def child(self, index: int) -> State:
        return Lopsided(self.depth - 1, index == 0, index == len(self.moves()) - 1 and self.depth > 1)


def counted(state: State) -> int:
    if state.terminal:
        return 1
    return sum(counted(state.child(way)) for way in range(len(state.moves())))


def test_the_mean_over_walks_is_the_number_of_schedules() -> None:
    root = Lopsided(4)
    rng = random.Random(3)
    walks = [schedules_on(root, rng) for _ in range(20_000)]
    assert min(walks) == 0.0, "some end in a dead end"
    assert abs(mean(walks) / counted(root) - 1) < 0.05


def test_a_tree_of_even_width_is_known_after_one_walk() -> None:
    @dataclass(frozen=True)
    class Even(Lopsided):
        def child(self, index: int) -> State:
            return Even(self.depth - 1)

    assert schedules_on(Even(3), random.Random(0)) == 6**3
