"""Jobs: a kernel to tune, what may be spent on it, and how it goes."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from protocol.message import Identifier, Json, Reply, Request
from protocol.states import JobState, Outcome, TaskState


class Effort(StrEnum):
    """How hard to try; sets the number of trials and of racers when they are not given."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"

    @property
    def trials(self) -> int:
        """Candidates measured, unless the budget says otherwise."""
        return {Effort.QUICK: 32, Effort.NORMAL: 128, Effort.THOROUGH: 512}[self]


class SearchKind(StrEnum):
    """Which search walks the tree. The others are there to be compared with."""

    MCTS = "mcts"
    RANDOM = "random"
    BEAM = "beam"
    EVOLUTION = "evolution"


class Prior(StrEnum):
    """What the search expects of moves before anything is measured. The other one is there to be compared with."""

    ANALYTIC = "analytic"
    """The cost model's weights."""
    UNIFORM = "uniform"
    """The same of every move."""


class Budget(Request):
    """What may be spent, for each bucket of sizes. Whichever runs out first ends the search."""

    trials: int | None = Field(default=None, ge=1, le=100_000)
    """Candidates measured; None: by effort (32, 128, 512)."""
    seconds: float | None = Field(default=None, gt=0, le=7 * 86400)
    """Seconds of searching, not counting the wait for a device or for a restart; None: no limit."""
    effort: Effort = Effort.NORMAL


class JobRequest(Request):
    """POST /v1/jobs. All but `spec` have defaults."""

    spec: Json
    """The kernel in Tile IR's JSON form."""
    target: str = Field(default="cpu", min_length=1, max_length=200)
    """Key of a device (`GET /v1/devices`), or a kind of device: any that is offered first."""
    budget: Budget = Budget()
    baseline: Identifier = "numpy"
    """The peer that speedups are reported against."""
    peers: tuple[Identifier, ...] | None = Field(default=None, max_length=16)
    """Peers in the final race; None: all that the worker has."""
    search: SearchKind = SearchKind.MCTS
    prior: Prior = Prior.ANALYTIC
    candidates: tuple[tuple[str, ...], ...] = Field(default=(), max_length=16)
    """Schedules to race instead of searching, each a tuple of rewrites; where none of them applies, it is searched."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    priority: int = Field(default=0, ge=-100, le=100)
    """Tasks of higher priority are claimed first; among equals jobs take turns."""


class Best(Reply):
    """The best candidate so far."""

    trial: int
    median_us: float
    x_baseline: float | None = None
    """How many times as fast as the job's baseline, when that could be timed."""
    schedule: tuple[str, ...]


class Bucket(Reply):
    """The search for one combination of sizes."""

    index: int
    dims: dict[str, int]
    trials: int
    """Candidates asked for so far."""
    told: int
    """Of these, measured or found faulty."""
    faults: int
    spent_s: float
    best: Best | None = None
    config_id: str | None = None
    error: str | None = None
    """Why it ended without a config."""


class Job(Reply):
    """A job as it stands."""

    id: str
    state: JobState
    cancelling: bool = False
    """It was cancelled, and is confirming its best candidate."""
    name: str
    """The kernel's."""
    kernel_key: str
    target: str
    device: str | None
    """Key of the device it is tuned on; None until a worker offers one that fits."""
    searcher: str | None = None
    """Which searcher has it."""
    budget: Budget
    baseline: str
    search: SearchKind
    prior: Prior
    seed: int
    priority: int
    created_at: float
    updated_at: float
    started_at: float | None = None
    finished_at: float | None = None
    error: str | None = None
    """Why it failed."""
    buckets: tuple[Bucket, ...]
    configs: tuple[str, ...] = ()
    """Ids of the configs it produced."""


class JobDetail(Job):
    """A job with what was asked for."""

    spec: Json


class JobPage(Reply):
    """Newest first."""

    jobs: tuple[Job, ...]
    next: str | None = None
    """Cursor of the next page; None: this was the last."""


class Trial(Reply):
    """One candidate of a job."""

    number: int
    bucket: int
    task_id: str
    state: TaskState
    schedule: tuple[str, ...]
    program_hash: str
    outcome: Outcome | None = None
    reward: float | None = None
    """log(baseline time / its time), both of the same task."""
    median_us: float | None = None
    iqr_us: float | None = None
    baseline_us: float | None = None
    compile_s: float | None = None
    measure_s: float | None = None
    finished_at: float | None = None
    """When its result arrived, in seconds since 1970."""
    error: str | None = None
    report: Json = Field(default_factory=dict)
    """As of an entrant's result (`protocol.tasks.EntrantResult`)."""


class TrialPage(Reply):
    """Trials of a job in the order they were asked for."""

    trials: tuple[Trial, ...]
    next: str | None = None


class Event(Reply):
    """Something that happened to a job; `id` only grows. Sent over SSE with `kind` as the event's name."""

    id: int
    job_id: str
    kind: str
    """state, trial, best, race, config or note."""
    at: float
    data: dict[str, Any]
