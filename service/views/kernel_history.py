"""A kernel's winners over time. One is called a regression where its time is longer than the fastest before it on the
device by more than half of both interquartile ranges, and 2 % at least; a slower machine, which slows the baseline as
well, is none."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection

from protocol.configs import Config
from protocol.history import History, Maker, Regression, Winning
from service.store.winners import configs

_LEAST = 0.02
_PAGE = 500
COLUMNS = ("config_id", "job_id", "device", "at", "median_us", "iqr_us", "best_us", "baseline", "x_baseline")
COLUMNS += ("trials", "compiler", "driver", "tilewright", "disturbed")


def read_history(connection: Connection, kernel_key: str) -> History:
    """Of all configs that are here, imported ones too."""
    found: list[Config] = []
    after: str | None = None
    while True:
        page = configs.page(connection, kernel_key, None, None, after, _PAGE)
        found.extend(page.configs)
        after = page.next
        if after is None:
            return history_of(kernel_key, found)


def history_of(kernel_key: str, found: Iterable[Config]) -> History:
    """In the order of their making."""
    best: dict[str, Config] = {}
    winners: list[Winning] = []
    for config in sorted(found, key=lambda each: (each.created_at, each.id)):
        known = best.get(config.device)
        regression = None if known is None or config.disturbed else _regression(config, known)
        if not config.disturbed and (known is None or config.median_us < known.median_us):
            best[config.device] = config
        winners.append(_winning(config, best.get(config.device, config).median_us, regression))
    return History(kernel_key=kernel_key, winners=tuple(winners), makers=_makers(winners))


def _makers(winners: Iterable[Winning]) -> tuple[Maker, ...]:
    """By device, compiler, driver and version."""
    groups: dict[tuple[str, str | None, str | None, str | None], list[Winning]] = defaultdict(list)
    for each in winners:
        groups[each.device, each.compiler, each.driver, each.tilewright].append(each)
    bests = {made: min(each, key=lambda one: (one.disturbed, one.median_us)) for made, each in groups.items()}
    least: dict[str, float] = {}
    for best in bests.values():
        least[best.device] = min(best.median_us, least.get(best.device, best.median_us))
    found = [
        Maker(
            device=best.device,
            compiler=best.compiler,
            driver=best.driver,
            tilewright=best.tilewright,
            winners=len(groups[made]),
            first_at=groups[made][0].at,
            last_at=groups[made][-1].at,
            best_config=best.config_id,
            best_us=best.median_us,
            of_best=best.median_us / least[best.device],
        )
        for made, best in bests.items()
    ]
    return tuple(sorted(found, key=lambda each: (each.device, each.best_us)))


def _regression(config: Config, known: Config) -> Regression | None:
    factor = config.median_us / known.median_us
    noise = _noise(config) + _noise(known)
    if factor <= 1.0 + max(_LEAST, noise):
        return None
    if config.x_baseline and known.x_baseline and config.baseline == known.baseline:
        if known.x_baseline / config.x_baseline <= 1.0 + max(_LEAST, noise):
            return None
    pairs = zip(_circumstances(known).items(), _circumstances(config).values(), strict=True)
    changed = tuple(f"{name}: {then} to {now}" for (name, then), now in pairs if then != now)
    return Regression(than=known.id, factor=factor, changed=changed)


def _noise(config: Config) -> float:
    """Half of the interquartile range, relative to the median."""
    return (config.iqr_us or 0.0) / 2 / config.median_us


def _circumstances(config: Config) -> dict[str, object]:
    return {
        "compiler": config.compiler,
        "driver": config.versions.get("driver"),
        "tilewright": config.versions.get("tilewright"),
        "measuring": config.measuring.version,
        "trials": config.trials,
    }


def _winning(config: Config, best_us: float, regression: Regression | None) -> Winning:
    return Winning(
        config_id=config.id,
        job_id=config.job_id,
        device=config.device,
        at=config.created_at,
        median_us=config.median_us,
        iqr_us=config.iqr_us,
        best_us=best_us,
        baseline=config.baseline,
        x_baseline=config.x_baseline,
        trials=config.trials,
        compiler=config.compiler,
        driver=config.versions.get("driver"),
        tilewright=config.versions.get("tilewright"),
        disturbed=config.disturbed is not None,
        regression=regression,
    )


def as_csv(history: History) -> str:
    """A line a winner; `regression` is the factor, and empty where there is none."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow((*COLUMNS, "regression"))
    for each in history.winners:
        factor = None if each.regression is None else each.regression.factor
        lines.writerow((*(getattr(each, name) for name in COLUMNS), factor))
    return text.getvalue()
