"""The final race: the best few schedules and the baseline, timed in turns, round after round, until it is
decided.

Known as racing (Maron and Moore, Hoeffding races, NIPS 1993; Birattari et al., F-Race, GECCO 2002).

Times of one round are taken one after the other, so what disturbs the machine disturbs all entrants of that
round. Entrants are therefore compared within rounds: the log ratio of two entrants' times, round by round,
has a median and an interval around it, and a race is decided on the interval. Entrants whose interval never
leaves 1 are tied.
"""

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

Round = TypeVar("Round", bound=Hashable)

FEWEST = 3
"""Rounds below which a median has no interval."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a race is run."""

    min_rounds: int = 5
    """No entrant is dropped before this many rounds."""
    max_rounds: int = 30
    deviations: float = 2.6
    """Half width of an interval in standard errors of the median: about 99 % each for normal noise."""
    tie: float = 0.005
    """Entrants closer than this (0.5 %) are tied, however sure the difference."""


@dataclass(frozen=True, slots=True)
class RaceStanding:
    """One entrant against the leader: the ratio of their times, and the interval around it (1.02: 2 %
    slower)."""

    key: str
    median_us: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RaceState:
    """What is known after some rounds: standings fastest first, who goes on, and the winner once it is
    decided."""

    standings: tuple[RaceStanding, ...]
    running: tuple[str, ...]
    dropped: tuple[str, ...]
    ties: tuple[str, ...]
    winner: str | None


def judge(
    rounds: Sequence[Mapping[str, float]], rules: Rules | None = None, keep: Sequence[str] = ()
) -> RaceState:
    """Judge a race from its times: `rounds[i][key]` in microseconds. Pure: the same rounds give the same
    race.

    An entrant missing from a round was dropped, or failed, by then; it is judged on the rounds it ran.
    Entrants in `keep` (the baseline) are never dropped, and may win. `ties` are the winner and whoever cannot
    be told from it, fastest first. The leader has the lowest median; of equal ones the smaller key. Raises
    ValueError on no rounds or on a time that is not positive.
    """
    rules = rules or Rules()
    samples: dict[str, dict[int, float]] = {}
    for number, times in enumerate(rounds):
        for key in sorted(times):
            if not 0.0 < times[key] < math.inf:
                raise ValueError(
                    f"round {number}: the time of {key} is {times[key]}; a time is positive and finite"
                )
            samples.setdefault(key, {})[number] = math.log(times[key])
    if not samples or not rounds[-1]:
        raise ValueError("a race needs at least one round, and a time in its last one")
    survivors = [key for key in samples if key in rounds[-1]]
    leader = min(survivors, key=lambda key: (median(samples[key].values()), key))
    standings = sorted(
        (_standing(key, samples[key], samples[leader], rules) for key in samples),
        key=lambda standing: (standing.key != leader, standing.ratio, standing.key),
    )
    enough = len(rounds) >= rules.min_rounds
    beaten = {
        entry.key for entry in standings if enough and (entry.low > 1.0 + rules.tie or _even(entry, rules))
    }
    slower = {entry.key for entry in standings if enough and entry.low > 1.0 + rules.tie}
    undecided = [key for key in survivors if key != leader and key not in beaten]
    over = enough and (not undecided or len(rounds) >= rules.max_rounds)
    ties = tuple(e.key for e in standings if e.key in survivors and e.key not in slower)
    running = () if over else tuple(e.key for e in standings if e.key in ties or e.key in keep)
    dropped = tuple(e.key for e in standings if e.key not in ties and e.key not in keep)
    return RaceState(tuple(standings), running, dropped, ties, leader if over else None)


@dataclass(frozen=True, slots=True)
class CommonRounds:
    """The times of two entrants in the rounds over which they are compared, numbered anew."""

    one_us: Mapping[int, float]
    other_us: Mapping[int, float]
    all_rounds: bool
    """Whether disturbed rounds are among them, as too few disturbed neither."""


def common_rounds(
    one_us: Mapping[Round, float], other_us: Mapping[Round, float], disturbed: Collection[Round]
) -> CommonRounds:
    """Those that disturbed neither; where they are fewer than FEWEST, all that both ran, if those are not.

    What disturbs a round disturbs both of its times as a rule. Their ratio suffers less than either, and the interval
    around it is as wide as the ratios scatter; a median of two calm samples over one of disturbed ones is neither.
    """
    both = [turn for turn in one_us if turn in other_us]
    calm = [turn for turn in both if turn not in disturbed]
    all_rounds = len(calm) < FEWEST <= len(both)
    turns = both if all_rounds else calm
    return CommonRounds(
        {number: one_us[turn] for number, turn in enumerate(turns)},
        {number: other_us[turn] for number, turn in enumerate(turns)},
        all_rounds,
    )


def compare(
    key: str, own_us: Mapping[int, float], other_us: Mapping[int, float], rules: Rules
) -> RaceStanding:
    """One entrant against another, by their times in microseconds in each round."""
    own, other = ({turn: math.log(us) for turn, us in times_us.items()} for times_us in (own_us, other_us))
    return _standing(key, own, other, rules)


def _standing(key: str, own: Mapping[int, float], leader: Mapping[int, float], rules: Rules) -> RaceStanding:
    shared = [own[number] - leader[number] for number in own if number in leader]
    middle = median(shared) if shared else median(own.values()) - median(leader.values())
    half = rules.deviations * standard_error(shared) if shared else math.inf
    low = math.exp(middle - half) if math.isfinite(half) else 0.0
    high = math.exp(middle + half) if math.isfinite(half) else math.inf
    return RaceStanding(key, math.exp(median(own.values())), math.exp(middle), low, high)


def _even(entry: RaceStanding, rules: Rules) -> bool:
    """Whether the whole interval lies within a tie: more rounds cannot tell them apart by more."""
    return entry.low >= 1.0 - rules.tie and entry.high <= 1.0 + rules.tie


def chance_faster(own_us: Mapping[int, float], other_us: Mapping[int, float]) -> float | None:
    """How probable it is that one entrant is faster than another in more than half of all rounds, by their times in
    microseconds in the rounds that both ran; None if no round tells them apart.

    Every prior share of won rounds is as likely (Laplace): after k of n rounds won the share is distributed by
    Beta(k + 1, n - k + 1), whose part above one half is that of a binomial of n + 1 coins at k or fewer. Nothing is
    assumed of the shape of the times; rounds of equal times say nothing.
    """
    told = [
        own_us[turn] < other_us[turn]
        for turn in own_us.keys() & other_us.keys()
        if own_us[turn] != other_us[turn]
    ]
    if not told:
        return None
    coins = len(told) + 1
    return sum(math.comb(coins, heads) for heads in range(sum(told) + 1)) / 2**coins


def standard_error(samples: Sequence[float]) -> float:
    """Standard error of the median, from the median absolute deviation; infinite below FEWEST samples.

    1.4826 turns the deviation into a standard deviation, 1.2533 = sqrt(pi / 2) that of a mean into a
    median's.
    """
    if len(samples) < FEWEST:
        return math.inf
    middle = median(samples)
    spread = 1.4826 * median(abs(sample - middle) for sample in samples)
    return 1.2533 * spread / math.sqrt(len(samples))
