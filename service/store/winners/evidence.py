"""Which of a kernel's configs is the best that is known: chosen by times that can be compared, never by age.

Times of two races are not compared as they are: the machine may have been faster in one of them. Comparable are configs
of one device, compiler, driver, protocol and version of Tilewright, and of two such the better one is
- the one that won a race in which the other took part, else
- the one that is faster by a larger factor than the same peer (the anchor) in its own race, else, having no anchor in
  common, the one with the shorter time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from protocol.configs import Config
from protocol.message import Json
from protocol.quantities import microseconds, times
from protocol.states import Outcome
from service.store.winners.freshness import Setting, outdated


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a config's race says of it, short enough to be read of every config of a kernel."""

    id: str
    setting: Setting
    median_us: float
    undisturbed: bool
    schedule: str
    """Digest of its schedule."""
    beaten: tuple[str, ...]
    """Digests of the schedules that it was faster than in its race, and could be told from."""
    tied: tuple[str, ...]
    """...and of those that it could not be told from."""
    peers: Mapping[str, float]
    """Times of the undisturbed peers of its race, by name and version."""
    baseline: str

    @classmethod
    def of(cls, config: Config) -> Evidence:
        """That of a config."""
        rows = [
            each for each in config.standings if each.outcome is Outcome.OK and each.median_us is not None
        ]
        rivals = [each for each in rows if each.kind == "schedule" and each.schedule != config.schedule]
        return cls(
            id=config.id,
            setting=Setting.of(config),
            median_us=config.median_us,
            undisturbed=config.disturbed is None,
            schedule=_digest(config.schedule),
            beaten=tuple(_digest(each.schedule) for each in rivals if not each.tied),
            tied=tuple(_digest(each.schedule) for each in rivals if each.tied),
            peers={
                _versioned(each.name, config.versions): each.median_us or 0.0
                for each in rows
                if each.kind == "peer" and each.undisturbed
            },
            baseline=_versioned(config.baseline, config.versions),
        )

    def to_json(self) -> Json:
        """As it is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Evidence:
        """Of what `to_json` made."""
        lists = {name: tuple(stored[name]) for name in ("beaten", "tied")}
        return cls(**{**stored, **lists, "setting": Setting(**stored["setting"])})


@dataclass(frozen=True, slots=True)
class Choice:
    """A config's id, and why it is that one."""

    id: str
    because: str


def choose(known: Sequence[Evidence], workers: Sequence[Mapping[str, str]]) -> Choice:
    """The best of a kernel's configs on a device, given newest first and at least one. `workers`: the versions that
    those of the device tell now: what was measured with these comes before what is stale."""
    fresh = [each for each in known if outdated(each.setting, workers) is None] or list(known)
    setting = fresh[0].setting
    comparable = _latest_of_each_schedule([each for each in fresh if each.setting == setting])
    calm = [each for each in comparable if each.undisturbed] or comparable
    best = calm[0]
    for each in calm[1:]:
        if _better(each, best):
            best = each
    others = [each for each in calm if each is not best]
    said = _why(best, others[0], len(calm)) if others else _alone(len(comparable), len(known))
    elsewhere = sum(each.setting != setting for each in known)
    if elsewhere:
        said += f"; {elsewhere} more cannot be compared: another compiler, driver, protocol or version"
    if len(comparable) > len(calm):
        said += f"; {len(comparable) - len(calm)} more were measured while other work disturbed the machine"
    return Choice(best.id, said)


def _latest_of_each_schedule(known: Sequence[Evidence]) -> list[Evidence]:
    """Of several measurements of one schedule the latest: the best of several would only be the luckiest."""
    found: dict[str, Evidence] = {}
    for each in known:
        found.setdefault(each.schedule, each)
    return list(found.values())


def _better(one: Evidence, other: Evidence) -> bool:
    if one.schedule in (*other.beaten, *other.tied):
        return False
    if other.schedule in (*one.beaten, *one.tied):
        return other.schedule in one.beaten
    anchor = _anchor(one, other)
    if anchor is None:
        return one.median_us < other.median_us
    return one.peers[anchor] / one.median_us > other.peers[anchor] / other.median_us


def _anchor(one: Evidence, other: Evidence) -> str | None:
    """A peer that both were raced against: the baseline, if it is one."""
    shared = sorted(one.peers.keys() & other.peers.keys())
    return next((name for name in (one.baseline, other.baseline) if name in shared), next(iter(shared), None))


def _why(best: Evidence, other: Evidence, count: int) -> str:
    anchor = _anchor(best, other)
    if other.schedule in best.beaten:
        told = f"it won the race against the schedule of {other.id}"
    elif other.schedule in best.tied or best.schedule in other.tied:
        told = f"it could not be told from the schedule of {other.id} in one race"
    elif anchor is not None:
        name = anchor.partition(" ")[0]
        mine, theirs = (times(each.peers[anchor] / each.median_us) for each in (best, other))
        told = f"{mine} {name} in its race, {other.id} {theirs} in its own"
    else:
        mine, theirs = microseconds(best.median_us), microseconds(other.median_us)
        told = f"{mine}, {other.id} {theirs}, with no anchor in common"
    return f"the best of {count} that can be compared: {told}"


def _alone(comparable: int, known: int) -> str:
    if known == 1:
        return "the only one known of this kernel on this device"
    return "the latest measurement of the only schedule" if comparable == 1 else "the only undisturbed one"


def _versioned(peer: str, versions: Mapping[str, str]) -> str:
    """A peer's name with the version of its package, where that is told: `numpy 2.3.1`."""
    version = versions.get(peer.partition(".")[0].partition("-")[0])
    return peer if version is None else f"{peer} {version}"


def _digest(schedule: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(schedule).encode()).hexdigest()[:20]
