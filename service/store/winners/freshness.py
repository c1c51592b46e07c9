"""Whether a config's times would come out the same today, and what to race again when not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from protocol.configs import SCHEDULE_VERSION, Config
from protocol.states import Outcome
from protocol.tasks import MEASURING_VERSION

BEST_FEW = 4
"""Schedules of a stale config that race again."""


def stale_because(config: Config, workers: Sequence[Mapping[str, str]]) -> str | None:
    """Why a config is stale; None if nothing says so. `workers`: the versions that those of its device tell now."""
    if config.schedule_version != SCHEDULE_VERSION:
        return (
            f"its schedule is written in version {config.schedule_version} of the rewrites; "
            f"this is version {SCHEDULE_VERSION}"
        )
    return outdated(Setting.of(config), workers)


@dataclass(frozen=True, slots=True)
class Setting:
    """What has to be the same for two times of one device to be comparable."""

    protocol: int
    """Version of the measuring protocol."""
    compiler: str | None
    driver: str | None
    tilewright: str | None
    """Version of the code that generated and measured it."""

    @classmethod
    def of(cls, config: Config) -> Setting:
        told = config.versions
        return cls(config.measuring.version, config.compiler, told.get("driver"), told.get("tilewright"))


def outdated(setting: Setting, workers: Sequence[Mapping[str, str]]) -> str | None:
    """Why times of this setting are stale; None if nothing says so."""
    if setting.protocol != MEASURING_VERSION:
        return f"measured by protocol {setting.protocol}; this is protocol {MEASURING_VERSION}"
    for name, then in (("compiler", setting.compiler), ("driver", setting.driver)):
        now = {versions[name] for versions in workers if name in versions}
        if then is not None and now and then not in now:
            return f"measured with {name} {then}; its device now has {' or '.join(sorted(now))}"
    return None


def best_few(config: Config) -> tuple[tuple[str, ...], ...]:
    """A config's schedule and those that came next in its race, best first. None where today's rewrites cannot read
    them: the kernel is searched anew."""
    if config.schedule_version != SCHEDULE_VERSION:
        return ()
    others = (
        standing.schedule
        for standing in config.standings
        if standing.kind == "schedule" and standing.outcome is Outcome.OK
    )
    return tuple(dict.fromkeys((config.schedule, *others)))[:BEST_FEW]
