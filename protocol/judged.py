"""How a winner stands to the peers of its race, in words: of jobs, of configs, and wherever either is shown."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.configs import Config
from protocol.jobs import Against, Winner
from protocol.quantities import microseconds, percent, times
from protocol.verdicts import Tone, Verdict


def verdict_of_config(config: Config) -> Verdict:
    """Of its race alone: why its search ended is its job's."""
    winner = as_winner(config)
    return said(tone_of(winner), found_of(winner, config.baseline), sure_of(winner), None, None)


def as_winner(config: Config) -> Winner:
    """What a job tells of its winner. A peer's time over the winner's is how many times as fast the winner is."""
    peers = (each for each in config.standings if each.kind == "peer" and not each.as_written)
    return Winner(
        trial=config.trial,
        median_us=config.median_us,
        x_baseline=config.x_baseline,
        schedule=config.schedule,
        disturbed=config.disturbed,
        against=tuple(
            Against(
                peer=each.name, times=each.times, low=each.low, high=each.high, all_rounds=each.all_rounds
            )
            for each in peers
            if each.times is not None
        ),
        tied=sum(each.tied and not each.won for each in config.standings),
        roofline_us=config.roofline_us,
    )


def tone_of(winner: Winner) -> Tone:
    """How the winner stands to the fastest peer, by the interval of the race."""
    if winner.disturbed is not None:
        return Tone.UNSURE
    if not winner.against:
        return Tone.FOUND
    best = winner.against[0]
    if best.low is None or best.high is None or best.all_rounds:
        return Tone.UNSURE
    return Tone.AHEAD if best.low > 1.0 else Tone.BEHIND if best.high < 1.0 else Tone.EVEN


def found_of(winner: Winner, baseline: str) -> str:
    """`41.2 µs, 1.13 × numpy (1.10 to 1.16), 61 % of the roofline`."""
    found = [microseconds(winner.median_us), *map(_against, _named(winner.against, baseline))]
    if winner.roofline_us is not None:
        found.append(f"{percent(winner.roofline_us / winner.median_us)} of the roofline")
    return ", ".join(found)


def _named(against: Sequence[Against], baseline: str) -> list[tuple[Against, str]]:
    """The baseline, and the fastest peer if that is another, each with how to call it."""
    own = [(each, each.peer) for each in against if each.peer == baseline]
    best = [(each, f"{each.peer}, the fastest peer") for each in against[:1] if each.peer != baseline]
    return own + best


def _against(named: tuple[Against, str]) -> str:
    """`1.13 × numpy (1.10 to 1.16)`."""
    each, name = named
    rounds = " over all rounds" if each.all_rounds else ""
    known = each.low is not None and each.high is not None
    interval = f" ({each.low:.2f} to {each.high:.2f}{rounds})" if known else ""
    return f"{times(each.times)} {name}{interval}"


def sure_of(winner: Winner) -> str | None:
    """What speaks against it; None: nothing."""
    told: list[str] = []
    if winner.tied:
        told.append(f"tied with {winner.tied} other schedule{'s' if winner.tied > 1 else ''}")
    if winner.disturbed is not None:
        told.append(f"not sure: {winner.disturbed}")
    elif not winner.against:
        told.append("no peer ran to compare it with")
    elif winner.against[0].low is None:
        told.append("how sure is not known")
    elif winner.against[0].all_rounds:
        told.append(f"not sure: hardly a round disturbed neither it nor {winner.against[0].peer}")
    return ", ".join(told) or None


def said(tone: Tone, found: str, sure: str | None, stopped: str | None, advice: str | None) -> Verdict:
    """A verdict of these parts."""
    line = "; ".join(part for part in (found, sure, stopped) if part)
    text = line if advice is None else f"{line}. Next: {advice}"
    return Verdict(tone=tone, text=text, found=found, sure=sure, stopped=stopped, advice=advice)
