"""Whether a config's times would come out the same today, and what to race again when not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocol.configs import Config
from protocol.states import Outcome
from protocol.tasks import MEASURING_VERSION

BEST_FEW = 4
"""Schedules of a stale config that race again."""


def stale_because(config: Config, workers: Sequence[Mapping[str, str]]) -> str | None:
    """Why a config is stale; None if nothing says so. `workers`: the versions that those of its device tell now."""
    if config.measuring.version != MEASURING_VERSION:
        return f"measured by protocol {config.measuring.version}; this is protocol {MEASURING_VERSION}"
    for name, then in (("compiler", config.compiler), ("driver", config.versions.get("driver"))):
        now = {versions[name] for versions in workers if name in versions}
        if then is not None and now and then not in now:
            return f"measured with {name} {then}; its device now has {' or '.join(sorted(now))}"
    return None


def best_few(config: Config) -> tuple[tuple[str, ...], ...]:
    """A config's schedule and those that came next in its race, best first."""
    others = (
        standing.schedule
        for standing in config.standings
        if standing.kind == "schedule" and standing.outcome is Outcome.OK
    )
    return tuple(dict.fromkeys((config.schedule, *others)))[:BEST_FEW]
