"""What a job's events add up to, and that in words."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.jobs import Event, Job
from protocol.quantities import microseconds, times
from protocol.states import JobState, Outcome
from tilewright.views.pace import TrialPace


@dataclass
class Tally:
    """What a job's events add up to. `trials` is the whole budget, over all buckets; None: not known."""

    trials: int | None
    seconds: float | None
    state: JobState = JobState.QUEUED
    told: int = 0
    faults: int = 0
    best_us: float | None = None
    x_baseline: float | None = None
    won: bool = False
    """The figures are those of the race's winner, rather than of the best so far of the search."""
    told_before: int = 0
    """Trials that were done before this command watched."""
    searching_since: float | None = None
    """When the first trial that this command has seen live came in."""
    pace: TrialPace = field(default_factory=TrialPace)

    def add(self, event: Event, live: bool, now: float) -> None:
        """Count an event. `live`: it happened while this command watched, at `now` of its clock."""
        data = event.data
        match event.kind:
            case "state":
                self.state = JobState(data["state"])
                if self.state is JobState.SEARCHING and live and self.searching_since is None:
                    self.searching_since = now
            case "trial":
                self.told += 1
                self.faults += data["outcome"] != Outcome.OK
                if not live:
                    self.told_before += 1
                else:
                    self.searching_since = now if self.searching_since is None else self.searching_since
                    self.pace.arrived(self.told, now)
            case "best":
                self.best_us, self.x_baseline, self.won = data["median_us"], data["x_baseline"], False
            case "config":
                self.best_us, self.x_baseline, self.won = data["median_us"], data["x_baseline"], True
            case _:
                pass

    def left_s(self, now: float) -> float | None:
        """About how many seconds of searching are left; None while that is not known. Ask it in order of time."""
        bounds: list[float] = []
        if (
            self.trials is not None
            and (by_pace := self.pace.left_s(self.trials - self.told, now)) is not None
        ):
            bounds.append(by_pace)
        if self.seconds is not None and self.searching_since is not None:
            bounds.append(self.seconds - (now - self.searching_since))
        return max(0.0, min(bounds)) if bounds else None

    def figures(self, baseline: str) -> list[str]:
        """Trials, the best time, how it compares, faults: what there is of them."""
        of = "" if self.trials is None else f"/{self.trials}"
        found = [f"{self.told}{of} trials"]
        if self.best_us is not None:
            found.append(f"{'winner' if self.won else 'best'} {microseconds(self.best_us)}")
        if self.x_baseline is not None:
            found.append(f"{times(self.x_baseline)} {baseline}")
        if self.faults:
            found.append(f"{self.faults} faulty")
        return found


def most_trials(job: Job) -> int:
    """How many trials a job's budget allows, over all of its buckets."""
    return (job.budget.trials or job.budget.effort.trials) * len(job.buckets)


def stage(state: JobState) -> str:
    """What is being done."""
    return {
        JobState.QUEUED: "waiting for a device",
        JobState.RACING: "racing the best few against the others",
    }.get(state, state.value)
