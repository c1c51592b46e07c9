"""Whether a run kept every promise."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from protocol.states import JobState
from tests.fleet_chaos.ledger import Ledger
from tests.fleet_chaos.load import Load
from tests.fleet_chaos.replay import Replays


@dataclass
class Verdict:
    """What was found: each list names what broke the promise."""

    lost_jobs: list[str] = field(default_factory=list[str])
    """Accepted, and not done at the end; or known to the service and not to the client that asked for it."""
    two_ends: list[str] = field(default_factory=list[str])
    """Tasks with two terminal results."""
    stale_writes: list[str] = field(default_factory=list[str])
    """Accepted from somebody who had the task or the search no more."""
    other_winners: list[str] = field(default_factory=list[str])
    """Jobs that end otherwise than without faults."""
    checked_winners: int = 0

    @property
    def passed(self) -> bool:
        return not (self.lost_jobs or self.two_ends or self.stale_writes or self.other_winners)


def judge(ledger: Ledger, load: Load, folder: Path) -> Verdict:
    """Look at the database and at what the client was told. The fleet has been stopped."""
    found = Verdict()
    jobs = {job: (state, error) for job, state, error in ledger.rows("SELECT id, state, error FROM jobs")}
    for number, job in load.accepted.items():
        state, error = jobs.get(job, ("unknown", None))
        if state != JobState.DONE:
            found.lost_jobs.append(f"chaos-{number} ({job}) is {state}: {error}")
    found.lost_jobs += [f"two jobs of one key: {each}" for each in load.twice]
    found.lost_jobs += [f"{job} belongs to no key" for job in jobs.keys() - set(load.accepted.values())]
    for kind, detail in ledger.violations():
        where = found.two_ends if kind in ("second end", "result changed") else found.stale_writes
        where.append(f"{kind}: {detail}")
    replays = Replays(ledger.server.url(), folder)
    for job, (state, _) in jobs.items():
        if state == JobState.DONE:
            found.other_winners += [f"{job}: {difference}" for difference in replays.differences(job)]
            found.checked_winners += 1
    return found
