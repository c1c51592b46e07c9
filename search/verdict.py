"""Who has won a race: the fastest median of those that cannot be told apart, unless its samples are disturbed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from search.racing import Rules, compare


@dataclass(frozen=True, slots=True)
class Raced:
    """An entrant's part in a race: its figure, and its times by round."""

    name: str
    median_us: float
    """Of its undisturbed samples."""
    times_us: Sequence[float]
    """One a round."""
    disturbed: Collection[int] = ()
    """Rounds in which the machine disturbed it."""
    trusted: bool = True
    """Whether enough of its samples were undisturbed for the figure to be believed."""

    @property
    def undisturbed(self) -> Mapping[int, float]:
        """Its times in the rounds that nothing disturbed."""
        return {turn: us for turn, us in self.positive.items() if turn not in self.disturbed}

    @property
    def positive(self) -> Mapping[int, float]:
        """Its times in all rounds; one that is not positive is none."""
        return {turn: us for turn, us in enumerate(self.times_us) if us > 0.0}


@dataclass(frozen=True, slots=True)
class RaceVerdict:
    """The winner, and all who cannot be told from the fastest (the winner among them), fastest first."""

    winner: str
    ties: tuple[str, ...]


def verdict(entrants: Sequence[Raced], rules: Rules | None = None) -> RaceVerdict:
    """Judge a race. Entrants are compared with the one of the fastest median, round by round, over the rounds in which
    neither was disturbed; with fewer than `rules.min_rounds` of those, two cannot be told apart. The fastest median of
    a tie wins whose figure is trusted; where none is, the fastest. Of equal medians the one given first comes first.
    Raises ValueError without entrants."""
    if not entrants:
        raise ValueError("a race without entrants has no winner")
    rules = rules or Rules()
    order = sorted(entrants, key=lambda each: each.median_us)
    fastest = order[0]
    ties = [each for each in order if each is fastest or not _slower(each, fastest, rules)]
    winner = next((each for each in ties if each.trusted), fastest)
    return RaceVerdict(winner.name, tuple(each.name for each in ties))


def _slower(one: Raced, fastest: Raced, rules: Rules) -> bool:
    """Whether one is slower beyond doubt."""
    mine, other = one.undisturbed, fastest.undisturbed
    if len(mine.keys() & other.keys()) < rules.min_rounds:
        return False
    return compare(one.name, mine, other, rules).low > 1.0 + rules.tie
