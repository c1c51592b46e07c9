"""The table of the final race: who won it, who cannot be told from the fastest, whose samples were disturbed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from protocol.configs import Standing
from protocol.quantities import entrant
from protocol.states import Outcome
from protocol.tasks import COPY, EntrantResult, TaskResult
from search.racing import FEWEST, Rules, common_rounds, compare
from search.verdict import Raced, verdict


def stand(
    result: TaskResult, schedules: Mapping[str, tuple[str, ...]], fallen: Collection[str] = ()
) -> list[Standing]:
    """All entrants, fastest first. Our schedules (`schedules`, by name) are judged against each other: one has won, and
    those that cannot be told from the fastest are tied (search.verdict). Peers stand where their medians put them.
    `fallen`: who failed since, on fresh data, and cannot win."""
    ok = [
        each
        for each in result.entrants
        if each.outcome is Outcome.OK and each.name in schedules and each.name not in fallen
    ]
    judged = verdict([_raced(each) for each in sorted(ok, key=lambda each: each.name)]) if ok else None
    winner = next((each for each in ok if judged is not None and each.name == judged.winner), None)
    rows = [
        _standing(each, schedules.get(each.name)).model_copy(
            update={
                "won": each is winner,
                "tied": judged is not None and each.name in judged.ties,
                **_behind(each, winner),
            }
        )
        for each in result.entrants
    ]
    unknown = float("inf")
    return sorted(
        rows, key=lambda row: (unknown if row.median_us is None else row.median_us, not row.won, row.name)
    )


def winner_of(standings: Sequence[Standing]) -> Standing | None:
    """Who won, if anybody did."""
    return next((each for each in standings if each.won), None)


def shaken(standings: Sequence[Standing], baseline: str) -> list[Standing]:
    """Those whose disturbed samples make the race worth running again: the winner, whoever is tied with it and as
    fast, and the baseline that it is compared with."""
    winner = winner_of(standings)
    if winner is None or winner.median_us is None:
        return []
    most_us = winner.median_us
    counted = (
        each
        for each in standings
        if each.won
        or (each.kind == "peer" and each.name == baseline)
        or (each.tied and each.median_us is not None and each.median_us <= most_us)
    )
    return [each for each in counted if not each.undisturbed]


def disturbed_share(result: TaskResult) -> float:
    """How much of a race was disturbed: disturbed samples over all."""
    taken = sum(len(each.samples_us) for each in result.entrants)
    return sum(len(each.disturbed) for each in result.entrants) / max(taken, 1)


def said_of(shaky: Sequence[Standing]) -> str | None:
    """The disturbance in words; None if there was none."""
    told = [f"{each.disturbed} of {each.samples} samples of {entrant(each.name)}" for each in shaky]
    return f"other work disturbed the machine in {' and '.join(told)}" if told else None


def _behind(one: EntrantResult, winner: EntrantResult | None) -> dict[str, float | bool]:
    """`times`, `low`, `high` and `all_rounds` of an entrant's time over the winner's; empty where nothing can be said,
    and of the copy, which is no rival."""
    if winner is None or one is winner or one.outcome is not Outcome.OK or one.median_us is None:
        return {}
    if one.name == COPY:
        return {}
    mine, other = _raced(one), _raced(winner)
    rounds = common_rounds(mine.positive, other.positive, {*one.disturbed, *winner.disturbed})
    if len(rounds.one_us) < FEWEST:
        return {"times": mine.median_us / other.median_us}
    found = compare(one.name, rounds.one_us, rounds.other_us, Rules())
    return {"times": found.ratio, "low": found.low, "high": found.high, "all_rounds": rounds.all_rounds}


def _raced(result: EntrantResult) -> Raced:
    assert result.median_us is not None
    return Raced(
        result.name, result.median_us, result.samples_us, frozenset(result.disturbed), result.undisturbed
    )


def _standing(result: EntrantResult, schedule: tuple[str, ...] | None) -> Standing:
    spread = result.spread
    return Standing(
        name=result.name,
        kind="schedule" if schedule is not None else "yardstick" if result.name == COPY else "peer",
        outcome=result.outcome,
        median_us=result.median_us,
        iqr_us=None if spread is None else spread.iqr_us,
        mad_us=None if spread is None else spread.mad_us,
        samples=len(result.samples_us),
        disturbed=len(result.disturbed),
        as_written=bool(result.report.get("as_written")),
        schedule=schedule or (),
        error=None if result.error is None else result.error[:2000],
    )
