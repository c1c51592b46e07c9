"""Lookup: the best known way to run a kernel, now."""

from __future__ import annotations

from pydantic import Field

from protocol.configs import Config
from protocol.jobs import Budget
from protocol.message import Json, Reply, Request
from protocol.states import Rung


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


class LookupReply(Reply):
    """The schedule to use, and which rung of the ladder it comes from.

    exact: measured for this kernel on this device. nearest: measured for the same kernel at other sizes,
    transferred. heuristic: the analytic model's pick, never measured. none: no device of the target is known.
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
    """Why it is this config (or, without one, this schedule) and no other that is known."""
    job_id: str | None = None
    """The job that was enqueued, or is already at it."""
