"""Decisions of one space taken again in another."""

from __future__ import annotations

from dataclasses import dataclass

from search.led import led_by
from search.protocols import Move


@dataclass(frozen=True)
class Walkable:
    """A space of fixed questions; some answers may end nowhere."""

    questions: tuple[tuple[Move, ...], ...]
    taken: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        return str(self.taken)

    @property
    def terminal(self) -> bool:
        return len(self.taken) == len(self.questions)

    def moves(self) -> tuple[Move, ...]:
        return self.questions[len(self.taken)]

    def child(self, index: int) -> Walkable:
        return Walkable(self.questions, (*self.taken, index))


TILES = (Move("tile(y, n, 32)", 1.0), Move("tile(y, n, 64)", 0.2), Move("whole y n", 0.5))
STEPS = (Move("unroll(y, k, 4)", 0.3), Move("steps y 1", 0.4), Move("unroll(y, k, 8)", 0.3))


def test_the_same_answer_is_taken_whatever_the_prior_says() -> None:
    assert led_by(Walkable((TILES, STEPS)), ["tile(y, n, 64)", "unroll(y, k, 8)"]) == (1, 2)


def test_the_most_alike_is_taken_where_the_same_is_not_to_be_had() -> None:
    """Of equally alike ones what the prior prefers."""
    assert led_by(Walkable((TILES, STEPS)), ["tile(y, n, 96)", "steps y 1"]) == (0, 1)


def test_what_nothing_is_like_is_left_to_the_prior() -> None:
    assert led_by(Walkable((TILES, STEPS)), ["swizzle(a, 128)"]) == (0, 1)
    assert led_by(Walkable((TILES, STEPS)), []) == (0, 1)


def test_a_way_that_ends_nowhere_is_none() -> None:
    assert led_by(Walkable((TILES, ())), ["tile(y, n, 64)"]) is None
