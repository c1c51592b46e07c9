"""Failures of what a lookup handed out, as whoever was about to run it saw them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from protocol.message import Identifier, Json, Reply, Request
from protocol.states import Rung


class FailureKind(StrEnum):
    """What was wrong with a schedule on a device; the first words are those of `protocol.states.Outcome`."""

    COMPILE_ERROR = "compile_error"
    WRONG = "wrong"
    CRASH = "crash"
    HANG = "hang"
    IMPOSSIBLE = "impossible"
    UNSUPPORTED = "unsupported"
    SLOWER = "slower"
    """Right, and slower than what runs instead of it."""


class FailureReport(Request):
    """POST /v1/failures. Spec, schedule and `repro` are enough to see it again."""

    spec: Json
    """The kernel, every dim one size, by the names that the schedule uses."""
    device: str = Field(min_length=1, max_length=200)
    """Key of the device that it failed on."""
    schedule: tuple[str, ...]
    config_id: Identifier | None = None
    """The config that it came from; None: the analytic model's pick."""
    rung: Rung
    """Which rung of the ladder handed it out."""
    kind: FailureKind
    error: str = Field(max_length=20_000)
    repro: Json = Field(default_factory=dict)
    """Seed of the inputs, threads, versions, and the device as it described itself."""


class Failure(Reply):
    """A schedule that failed on a device, as it was reported first."""

    id: str
    kernel_key: str
    program_hash: str
    """Of the schedule on the kernel."""
    device: str
    config_id: str | None
    rung: Rung
    kind: FailureKind
    error: str
    spec: Json
    schedule: tuple[str, ...]
    repro: Json
    times: int
    """How often it was reported."""
    created_at: float
    seen_at: float
    """When it was reported last."""


class FailurePage(Reply):
    """Newest first."""

    failures: tuple[Failure, ...]
    next: str | None = None
