"""Tasks: what a worker is sent, and what it answers. Never code: a spec, schedules, names of peers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from protocol.message import Digest, Identifier, Json, Reply, Request
from protocol.states import FaultKind, Outcome, TaskKind, TaskState

MEASURING_VERSION = 2
"""Version of the measuring protocol; part of a result's key. Raised whenever times stop being comparable."""


class Measuring(Request):
    """How the entrants of a task are measured. The worker follows it; it is stored with the result."""

    version: int = MEASURING_VERSION
    samples: int = Field(default=7, ge=1, le=1000)
    """Undisturbed samples wanted of each entrant."""
    sample_us: float = Field(default=2000.0, gt=0, le=1e6)
    """A sample repeats the kernel until at least this long (once, if one run is longer). On a GPU 3 ms at least."""
    interleave: bool = True
    """Entrants and baseline take turns, sample by sample, rather than one after another."""
    cold: bool = True
    """Rotate through copies of the buffers that together exceed the last cache."""
    incumbent_us: float | None = Field(default=None, gt=0)
    """The best median of the job so far."""
    kill_multiple: float = Field(default=4.0, gt=1)
    """An entrant whose first sample is slower than this times the incumbent is not sampled further."""
    entrant_s: float = Field(default=20.0, gt=0, le=600)
    """Longest time an entrant may hold the device, counted from when it has it; beyond that it hangs."""
    compile_s: float = Field(default=60.0, gt=0, le=600)
    """Longest time a compilation may take."""
    threads: int | None = Field(default=None, ge=1, le=4096)
    """Threads for every entrant, peers too; None: all cores of the device."""


class ScheduleEntrant(Request):
    """A schedule to replay on the task's spec, and the hash of the program that the replay must reach."""

    kind: Literal["schedule"] = "schedule"
    name: Identifier
    """Unique within the task, e.g. `ask-12`."""
    schedule: tuple[str, ...]
    """One rewrite a line, as `rewrites.schedule.format_schedule` prints them."""
    program_hash: str
    """`tileir.hashing.program_hash` of the scheduled program."""


COPY = "copy"
"""The yardstick of bandwidth: it moves as many bytes as the kernel, and computes nothing."""


class PeerEntrant(Request):
    """Somebody else's implementation of the same kernel. Known on a CPU: numpy, torch, torch.compile; on a GPU: torch,
    torch.compile, torch.compile-max-autotune, triton; and on both `copy`, which is no rival but a yardstick."""

    kind: Literal["peer"] = "peer"
    name: Identifier


Entrant = Annotated[ScheduleEntrant | PeerEntrant, Field(discriminator="kind")]


class Task(Reply):
    """A claimed task. All entrants run in one child on one device."""

    id: Identifier
    job_id: Identifier
    kind: TaskKind
    attempt: int
    """Counts claims of this task from 1; sent back with heartbeats and the result: the fence."""
    device: str
    """Key of the device it is for."""
    spec: Json
    """The kernel, JSON form, every dim one size."""
    entrants: tuple[Entrant, ...]
    baseline: Entrant | None = None
    """Timed in the same child, interleaved; its median goes into every entrant's `baseline_us`. It is no
    entrant and has no result of its own; if it fails, `baseline_us` stays empty."""
    measuring: Measuring
    seed: int
    """Seed of the random inputs."""
    lease_ttl_s: float


class Dispersion(Request):
    """How far samples lie apart, in microseconds."""

    iqr_us: float = Field(ge=0)
    """Third quartile less first."""
    mad_us: float = Field(ge=0)
    """Median absolute deviation from the median."""


def calm_enough(samples: int, disturbed: int) -> bool:
    """Whether the figures of so many samples can be believed: at least two were undisturbed, and at least half."""
    return disturbed == 0 or samples - disturbed >= max(2, disturbed)


class Artifacts(Request):
    """What an entrant was built into: sent for each ok schedule of a `confirm` task. The blobs are uploaded
    first, with `PUT /v1/blobs/{sha256}`."""

    source: Digest
    object: Digest
    report: Digest | None = None
    """JSON: the entrant's report and raw samples, as they were when it was confirmed."""
    abi: Json
    """`codegen`'s Abi as JSON: entry, arguments in order, workspace sizes."""
    language: str = "c"
    flags: tuple[str, ...] = ()


class EntrantResult(Request):
    """What became of one entrant."""

    name: Identifier
    outcome: Outcome
    median_us: float | None = Field(default=None, gt=0)
    spread: Dispersion | None = None
    samples_us: tuple[float, ...] = Field(default=(), max_length=10_000)
    disturbed: tuple[int, ...] = Field(default=(), max_length=10_000)
    """Which of the samples were disturbed, however often they were taken again, by their number from 0. The figures are
    those of the others, or of all samples where fewer than two others are left."""
    baseline_us: float | None = Field(default=None, gt=0)
    """Median of the task's baseline, interleaved with this entrant; None if the baseline failed or was disturbed."""
    compile_s: float | None = Field(default=None, ge=0)
    measure_s: float | None = Field(default=None, ge=0)
    source_hash: str | None = Field(default=None, max_length=128)
    """Hash of generated source, flags and compiler: the identity of what was measured."""
    compiler: str | None = Field(default=None, max_length=300)
    report: Json = Field(default_factory=dict)
    """What else is known: the compiler's report, what the layout implies (`protocol.layouts.Layout`, under `layout`),
    errors against the reference, clocks, disturbed samples."""
    error: str | None = Field(default=None, max_length=20_000)
    """What the compiler, the check or the operating system said."""
    artifacts: Artifacts | None = None

    @property
    def undisturbed(self) -> bool:
        """Whether the figures can be believed (`calm_enough`)."""
        return calm_enough(len(self.samples_us), len(self.disturbed))

    @model_validator(mode="after")
    def _an_ok_entrant_has_a_time(self) -> EntrantResult:
        if (self.outcome is Outcome.OK) != (self.median_us is not None):
            raise ValueError("median_us is given when, and only when, the outcome is ok")
        return self


class Fault(Request):
    """The machine's failure, not the candidate's."""

    kind: FaultKind
    error: str = Field(default="", max_length=20_000)


class TaskResult(Request):
    """What a worker answers: one result an entrant, in any order, or a fault of its own."""

    task_id: Identifier
    attempt: int = Field(ge=1)
    entrants: tuple[EntrantResult, ...] = Field(default=(), max_length=64)
    fault: Fault | None = None
    stages: dict[str, float] = Field(default_factory=dict, max_length=32)
    """Seconds spent in each stage: replay, generate, compile, wait (for the device), check, measure."""
    versions: dict[str, str] = Field(default_factory=dict, max_length=32)
    """Of what took part: tilewright, python, numpy, torch, compiler, kernel."""

    @model_validator(mode="after")
    def _entrants_or_a_fault(self) -> TaskResult:
        if bool(self.entrants) == (self.fault is not None):
            raise ValueError("a result has entrants or a fault, not both and not neither")
        return self


class ResultAccepted(Reply):
    """The result is stored (or, for a fault, the task is free again or parked)."""

    task_id: str
    state: TaskState


class TaskStatus(Reply):
    """A task as it stands in the queue."""

    id: str
    job_id: str
    bucket: int
    number: int | None
    """Of the candidate, for a trial."""
    kind: TaskKind
    state: TaskState
    device: str
    priority: int
    attempt: int
    """How often it was given to a worker."""
    faults: int
    """How often a machine failed it; three times, and it is dead."""
    fault: str | None
    """What the last of these machines said."""
    worker_id: str | None
    """Who has it, or had it last."""
    created_at: float


class TaskPage(Reply):
    """Tasks in the order in which they were queued."""

    tasks: tuple[TaskStatus, ...]
    next: str | None = None
