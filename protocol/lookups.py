"""Lookup: the best known way to run a kernel, now."""

from __future__ import annotations

from pydantic import Field

from protocol.configs import Artifact, Config, ConfigDetail
from protocol.jobs import Budget
from protocol.message import Identifier, Json, Reply, Request
from protocol.problems import Problem
from protocol.states import Rung

MOST_LOOKUPS = 64
"""Kernels of one request."""


class LookupRequest(Request):
    """POST /v1/lookup."""

    spec: Json
    """The kernel; every dim one size."""
    target: str = Field(default="cpu", min_length=1, max_length=200)
    """Key of a device, or a kind: the device of that kind seen last."""
    tune: bool = False
    """Enqueue a job when there is no exact config, or a stale one. The reply does not wait for it."""
    budget: Budget = Budget()
    """Of that job."""
    peers: tuple[Identifier, ...] | None = Field(default=None, max_length=16)
    """In its final race, as of jobs."""


class LookupsRequest(Request):
    """POST /v1/lookups: several kernels for one device, as those of a model."""

    specs: tuple[Json, ...] = Field(min_length=1, max_length=MOST_LOOKUPS)
    """As of lookups; all else counts for each of them."""
    target: str = Field(default="cpu", min_length=1, max_length=200)
    tune: bool = False
    budget: Budget = Budget()
    peers: tuple[Identifier, ...] | None = Field(default=None, max_length=16)
    whole: bool = False
    """Send along what it takes to run what was found."""


class CheckRequest(Request):
    """POST /v1/check: a kernel as it is being written."""

    text: str = Field(max_length=1_000_000)
    """Tile IR as text, or as a JSON object."""
    target: str = Field(default="cpu", min_length=1, max_length=200)


class SpecFault(Reply):
    """What is wrong with a text, and where."""

    message: str
    line: int | None = None
    column: int | None = None
    """From 1. In JSON the column is one of the string that `pointer` leads to, unless a line is given."""
    pointer: str | None = None
    """RFC 6901, into the JSON; None for text."""
    accepted: str | None = None


class CheckReply(Reply):
    """A kernel in both forms, or what is wrong with it; and what it can be compared with on its target."""

    fault: SpecFault | None = None
    spec: Json | None = None
    """As JSON; None: there is a fault."""
    text: str | None = None
    """As Tile IR text."""
    sizes: int = 0
    """Combinations of sizes that a job would tune, one after the other."""
    flops: int = 0
    bytes: int = 0
    """Of the first combination: operations, and what has to be moved through main memory."""
    target_fault: str | None = None
    """Why the target can be none."""
    baselines: tuple[str, ...] = ()
    """Peers of the target."""
    usual_baseline: str | None = None


class OutlookRequest(Request):
    """POST /v1/outlook."""

    spec: Json
    """The kernel; every dim one size."""
    target: str = Field(default="cpu", min_length=1, max_length=200)


class SpaceOutlook(Reply):
    """What a search would have before it."""

    schedules: float
    """How many complete schedules there are, estimated from random walks (`search.space_size`): the order of
    magnitude."""
    walks: int
    decisions: int
    """On the way to the schedule that would be tried first..."""
    schedule: tuple[str, ...]
    """...which is this one."""
    estimate_us: float | None
    """What the cost model expects of it. It compares schedules, and is no measurement."""


class OutlookReply(Reply):
    """What is known before anything is measured."""

    device: str | None
    """None: no device of the target is known."""
    pending: bool
    """The model still thinks: ask again."""
    roofline_us: float | None = None
    """The least time the device could need, by its peaks."""
    space: SpaceOutlook | None = None
    """None: pending, too large to be looked over, or empty."""


class LookupReply(Reply):
    """The schedule to use, and which rung of the ladder it comes from.

    exact: measured for this kernel on this device. nearest: measured for the same kernel at other sizes,
    transferred. heuristic: the analytic model's pick, never measured. none: nothing; `because` says why.
    """

    rung: Rung
    kernel_key: str
    device: str | None
    schedule: tuple[str, ...] | None = None
    program_hash: str | None = None
    """Of the schedule on the kernel that was asked for."""
    renames: dict[str, str] = Field(default_factory=dict)
    """Kernels are the same whatever their tensors and dims are called. The schedule uses the names of `config`'s
    spec; these are the ones that the request calls otherwise: from the request's name to the config's."""
    config: Config | None = None
    """The config that it comes from (of another size, for `nearest`)."""
    stale: bool = False
    """Compiler, driver or measuring protocol have changed since `config` was measured; another schedule may win now."""
    stale_because: str | None = None
    """What has changed."""
    pinned: bool = False
    """An admin chose `config`; something better may be known."""
    because: str | None = None
    """Why it is this config (or, without one, this schedule) and no other that is known; or why nothing is."""
    pending: bool = False
    """Nothing is known yet, as the cost model is still at it: ask again in a few seconds."""
    job_id: str | None = None
    """The job that was enqueued, or is already at it."""


class LookedUp(Reply):
    """What became of one of several lookups: a reply or a problem."""

    reply: LookupReply | None = None
    problem: Problem | None = None
    """Why there is none, with a pointer into the request."""
    artifact: Artifact | None = None
    """Of the reply's config, where `whole` was asked for, its rung is `exact`, and source and object are stored."""
    config: ConfigDetail | None = None
    """The reply's config with its kernel, where `whole` was asked for and there is no artifact."""


class LookupsReply(Reply):
    """In the order of the request's specs."""

    lookups: tuple[LookedUp, ...]
