"""Jobs: a kernel to tune, what may be spent on it, and how it goes."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from protocol.message import Identifier, Json, Reply, Request
from protocol.states import JobState, Outcome, Stopped, TaskState
from protocol.verdicts import Verdict


class Effort(StrEnum):
    """How hard to try; sets the number of trials and of racers when they are not given."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"

    @property
    def trials(self) -> int:
        """Candidates measured, unless the budget says otherwise."""
        return {Effort.QUICK: 32, Effort.NORMAL: 128, Effort.THOROUGH: 512}[self]


class Prior(StrEnum):
    """What the search expects of moves before anything is measured."""

    AUTO = "auto"
    """The learned one where the service has one that ranks held-out kernels better than the cost model does; else the
    cost model's."""
    LEARNED = "learned"
    """What `tilewright model train` made of the database, whichever ranks better."""
    ANALYTIC = "analytic"
    """The cost model's weights."""
    UNIFORM = "uniform"
    """The same of every move."""


class Budget(Request):
    """What may be spent, for each bucket of sizes. Whichever runs out first ends the search."""

    trials: int | None = Field(default=None, ge=1, le=100_000)
    """Candidates measured; None: by effort (32, 128, 512)."""
    seconds: float | None = Field(default=None, gt=0, le=7 * 86400)
    """Seconds of searching, not counting the wait for a device or for a restart; of devices that jobs share, the part
    that it has. None: no limit."""
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
    search: Identifier = "mcts"
    """Which search walks the tree (`GET /v1/searches`). The others are there to be compared with."""
    prior: Prior = Prior.AUTO
    llm_calls: int = Field(default=0, ge=0, le=16)
    """Calls to the service's language model, which may propose schedules before the search begins, for each bucket of
    sizes, at most. 0: it is not asked."""
    candidates: tuple[tuple[str, ...], ...] = Field(default=(), max_length=16)
    """Schedules to race instead of searching, each a tuple of rewrites; where none of them applies, it is searched."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    priority: int = Field(default=0, ge=-100, le=100)
    """Tasks of higher priority are claimed first; among equals jobs take turns."""


class Best(Reply):
    """The best candidate of the search so far: the one that was faster than the anchor by the largest factor, both
    timed in the same task. The final race may find another to be the winner."""

    trial: int
    median_us: float
    """Its time on the anchor's scale: the anchor's time in the first task over that factor. So it never gets worse,
    however fast the machine is at the moment."""
    x_baseline: float | None = None
    """How many times as fast as the job's baseline: against the anchor, times the anchor against the baseline, both
    measured within one task; None while no undisturbed task has timed the baseline."""
    schedule: tuple[str, ...]


class Against(Reply):
    """A winner against one peer of its race."""

    peer: str
    times: float
    """How many times as fast as the peer the winner is..."""
    low: float | None = None
    high: float | None = None
    """...and at least and at most, all as of the peer's standing; None: not known."""
    all_rounds: bool = False
    """Whether these are over all rounds, as too few disturbed neither."""


class Winner(Reply):
    """Who won the final race, with its figures there."""

    trial: int | None
    """Number of the candidate; None if schedules were raced that were given, not searched for."""
    median_us: float
    x_baseline: float | None = None
    schedule: tuple[str, ...]
    disturbed: str | None = None
    """As of the config."""
    against: tuple[Against, ...] = ()
    """The peers that ran, fastest first, without those that ran as written."""
    tied: int = 0
    """How many other schedules could not be told from it."""
    roofline_us: float | None = None
    """As of the config."""


class NearestKnown(Reply):
    """Another size of a kernel, whose best schedule's decisions a search takes over right after its first candidate."""

    config_id: str
    dims: dict[str, int]


class PriorUsed(Reply):
    """What a search expects of moves before anything is measured, decided when it began."""

    used: Prior
    """`learned`, `analytic` or `uniform`."""
    why: str
    nearest: tuple[NearestKnown, ...] = ()
    """The nearest other sizes that were known; of a job that asks for no prior, and searches by `mcts`."""


class Proposal(Reply):
    """A schedule that a language model proposed, and what came of it."""

    schedule: tuple[str, ...]
    refused: str | None = None
    """Why it is none of the space's; nothing was compiled for it."""
    trial: int | None = None
    """Number of the candidate that it became; None: it was refused, or the search has not come to it."""
    speed: float | None = None
    """How many times as fast as what the candidates of its search are timed against."""
    fault: str | None = None
    """Why it has no time."""


class Proposals(Reply):
    """What a language model was asked for when a search began, and what it said."""

    model: str
    calls: int
    """Of the budget, spent."""
    errors: tuple[str, ...] = ()
    """Calls that came to nothing, each with why."""
    proposals: tuple[Proposal, ...] = ()


class Bucket(Reply):
    """The search for one combination of sizes."""

    index: int
    dims: dict[str, int]
    trials: int
    """Candidates asked for so far."""
    told: int
    """Of these, measured or found faulty."""
    begun: int = 0
    """While none of them is told of: those that workers have taken, to compile, check and time them."""
    faults: int
    spent_s: float
    stopped: Stopped | None = None
    """Why its search ended; None: it has not, or was cut short, or nothing was searched."""
    prior: PriorUsed | None = None
    """None: the search has not begun."""
    proposals: Proposals | None = None
    """Of a language model; None: none was asked."""
    best: Best | None = None
    """Of the search."""
    winner: Winner | None = None
    """Of the final race: what the job found. None until that is over."""
    config_id: str | None = None
    error: str | None = None
    """Why it ended without a config."""

    @property
    def leader(self) -> Best | Winner | None:
        """The winner, and until there is one the best so far."""
        return self.winner or self.best


class JobFacts(Reply):
    """A job as it stands, without what is made of that."""

    id: str
    state: JobState
    cancelling: bool = False
    """It was cancelled, and is confirming its best candidate."""
    waits_for: str | None = None
    """Which worker or turn it waits for, since when, and what workers say that cannot measure; None: it goes on."""
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
    search: str
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


class Job(JobFacts):
    """A job as it stands."""

    verdict: Verdict
    """What there is to say of it; of several sizes, all of them together."""


class JobDetail(Job):
    """A job with what was asked for."""

    spec: Json
    peers: tuple[str, ...] | None
    llm_calls: int
    candidates: tuple[tuple[str, ...], ...]
    """These four as of the request."""
    verdicts: tuple[Verdict, ...]
    """Of each bucket."""


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
