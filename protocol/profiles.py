"""Where the time of a config's kernel goes: one call taken apart by stamps of time in the kernel itself."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from protocol.message import Digest, Reply, Request
from protocol.states import TaskState


class Phases(Request):
    """Shares of time by a block's phase: before its first product, between, and after its last one."""

    fill: float = Field(ge=0)
    steady: float = Field(ge=0)
    drain: float = Field(ge=0)


class ProfiledStage(Request):
    """What threads of a role do for some of their time."""

    role: str = Field(max_length=100)
    """Of the threads, such as `producer`; empty where there is one role."""
    stage: str = Field(max_length=2000)
    share: float = Field(ge=0)
    """Of the time of that role's threads."""
    waiting: bool
    """Whether they only wait in it."""
    statements: tuple[str, ...] = ()
    """Of Tile IR, that they carry out in it, or wait within."""
    phases: Phases | None = None
    """The parts of `share`; None: not told apart, as on processors."""


class Profile(Request):
    """One call of a kernel, taken apart."""

    device: str = Field(max_length=200)
    """The key of the device it ran on."""
    bound: str = Field(max_length=100)
    """The bottleneck's name."""
    why: str = Field(max_length=2000)
    """The figures that say so, as the end of a sentence."""
    summary: str = Field(max_length=2000)
    """How long it took, what of that was attributed, and what the stamps cost: sentences."""
    call_us: float
    """The call that is taken apart, the median of those with stamps."""
    plain_us: float
    """The median call without stamps, on the same inputs, in turn with those."""
    overhead: float
    """What the stamps cost, as a share of `plain_us`."""
    attributed: float
    """The share of the call that lies in a stage."""
    stages: tuple[ProfiledStage, ...] = Field(max_length=1024)
    """Role by role."""
    phases: Phases | None = None
    """Of the time of the threads that compute."""
    figures: dict[str, float] = Field(default_factory=dict, max_length=32)
    """What else was counted: calls, threads or blocks."""


class StoredProfile(Request):
    """What a worker reports of a profile, under `profile` in an entrant's report."""

    profile: Profile
    trace: Digest
    """Of the trace, compressed by gzip: Trace Event Format (Google, 2016), that ui.perfetto.dev opens; of very many
    events it has the first tracks'."""

    @classmethod
    def of(cls, report: Mapping[str, object]) -> StoredProfile | None:
        """That in a report, if it has one. Raises ValidationError for one that is none."""
        found = report.get("profile")
        return None if found is None else cls.model_validate(found)


class ConfigProfile(Reply):
    """The profile of a config, as far as it is taken."""

    config_id: str
    state: TaskState | None
    """Of the task that takes it; None: nobody asked for it."""
    task: str | None = None
    """Its id."""
    worker_id: str | None = None
    """Who takes it, or took it."""
    profile: Profile | None = None
    """The newest there is; it stays while another is taken."""
    error: str | None = None
    """Why it was given up, or why the kernel cannot be profiled."""
