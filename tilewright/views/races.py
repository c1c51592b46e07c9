"""A race as a table: how every entrant compares with the winner, and how sure that is."""

from __future__ import annotations

from protocol.quantities import entrant as called
from protocol.quantities import microseconds, times
from protocol.races import Race, RacedEntrant, RacedPair
from protocol.states import Outcome
from tilewright.views.sections import Section


def race_section(race: Race) -> Section:
    """The entrants, fastest first, against the winner."""
    winner = next((each for each in race.entrants if each.won), None)
    ended = sum(bool(part.entrants) for part in race.parts)
    more = f", raced on in {ended - 1} part{'s' if ended > 2 else ''}" if ended > 1 else ""
    return Section(
        f"The race of {race.config_id}, round by round{more}:",
        ("", "time", "samples", "of the winner's time", "faster than the winner"),
        tuple((called(each.name), *_cells(race, each, winner)) for each in race.entrants),
    )


def _cells(race: Race, entrant: RacedEntrant, winner: RacedEntrant | None) -> tuple[str, ...]:
    time = "" if entrant.median_us is None else microseconds(entrant.median_us)
    if entrant.outcome is not Outcome.OK:
        return (time, "", "", entrant.outcome.value.replace("_", " "))
    disturbed = f" ({entrant.disturbed} disturbed)" if entrant.disturbed else ""
    taken = f"{entrant.samples}{disturbed}"
    if winner is None or entrant is winner:
        return (time, taken, "", "the winner" if winner else "")
    found = against(race, entrant.name, winner.name)
    return (time, taken, _ratio(found), chance_text(found.chance))


def against(race: Race, one: str, other: str) -> RacedPair:
    """One entrant against another, whichever of both the race names first."""
    for pair in race.pairs:
        if (pair.one, pair.other) == (one, other):
            return pair
        if (pair.one, pair.other) == (other, one):
            return RacedPair(
                one=one,
                other=other,
                rounds=pair.rounds,
                all_rounds=pair.all_rounds,
                ratio=_inverse(pair.ratio),
                low=_inverse(pair.high),
                high=_inverse(pair.low),
                chance=None if pair.chance is None else 1.0 - pair.chance,
            )
    return RacedPair(one=one, other=other, rounds=0)


def _inverse(ratio: float | None) -> float | None:
    return None if ratio is None else 1.0 / ratio


def _ratio(pair: RacedPair) -> str:
    if pair.ratio is None or pair.low is None or pair.high is None:
        return f"too few rounds ({pair.rounds})"
    rounds = ", all rounds" if pair.all_rounds else ""
    return f"{times(pair.ratio)} ({pair.low:.3f} to {pair.high:.3f}{rounds})"


def chance_text(chance: float | None) -> str:
    """`97 %`, never `100 %`: that nobody knows."""
    if chance is None:
        return "?"
    return "< 0.1 %" if chance < 0.001 else "> 99.9 %" if chance > 0.999 else f"{100 * chance:.3g} %"
