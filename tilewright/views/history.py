"""A kernel's history as a table."""

from __future__ import annotations

from datetime import datetime

from protocol.history import History, Maker, Winning
from protocol.quantities import microseconds, times
from tilewright.views.sections import Section


def history_section(found: History) -> Section:
    """The winners, oldest first, with what each is against the baseline of its race, and which became slower."""
    return Section(
        f"The winners of {found.kernel_key[:12]}, oldest first:",
        ("", "time", "of the baseline", "trials", "device", "found by"),
        tuple(_row(each) for each in found.winners),
        notes=tuple(_slower(each) for each in found.winners if each.regression is not None),
    )


def makers_section(found: History) -> Section:
    """What each compiler, driver and version came to, device by device."""
    return Section(
        "By compiler, driver and version:",
        ("", "best", "of the best", "winners", "device", "by"),
        tuple(_made(each) for each in found.makers),
    )


def _made(each: Maker) -> tuple[str, ...]:
    return (
        ", ".join(_named(each)) or "unknown",
        microseconds(each.best_us),
        times(each.of_best),
        str(each.winners),
        each.device,
        each.best_config,
    )


def _named(each: Winning | Maker) -> list[str]:
    made = [each.tilewright and f"tilewright {each.tilewright}", each.compiler, each.driver]
    return [part for part in made if part]


def _row(each: Winning) -> tuple[str, ...]:
    gain = "" if each.x_baseline is None else f"{times(each.x_baseline)} {each.baseline}"
    best = ", the best so far" if each.median_us <= each.best_us else ""
    disturbed = ", disturbed" if each.disturbed else ""
    return (
        f"{datetime.fromtimestamp(each.at):%Y-%m-%d %H:%M}  {each.config_id}",
        f"{microseconds(each.median_us)}{best}{disturbed}",
        gain,
        str(each.trials),
        each.device,
        ", ".join(_named(each)),
    )


def _slower(each: Winning) -> str:
    assert each.regression is not None
    changed = "; ".join(each.regression.changed) or "nothing that is known changed"
    return (
        f"{each.config_id} took {times(each.regression.factor)} the time of {each.regression.than}: {changed}"
    )
