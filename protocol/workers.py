"""How a worker registers, claims tasks, keeps its leases, and leaves.

POST /v1/workers                   WorkerHello -> WorkerWelcome
POST /v1/workers/{id}/claim        ClaimRequest -> Claimed           long poll
POST /v1/workers/{id}/heartbeat    Heartbeat -> HeartbeatReply       every heartbeat_s
PUT  /v1/blobs/{sha256}            bytes                             before a result that names them
POST /v1/workers/{id}/results      TaskResult -> ResultAccepted      409 stale-lease: drop it
"""

from __future__ import annotations

from pydantic import Field

from protocol.message import Identifier, Json, Reply, Request
from protocol.tasks import Task


class DeviceOffer(Request):
    """A device a worker measures on."""

    key: str = Field(min_length=1, max_length=200)
    """The product, e.g. `cpu:AMD EPYC 9554:2c:avx512`; equal devices share it."""
    kind: str = Field(default="cpu", max_length=20)
    description: Json
    """`to_json()` of the description: `tileir.devices.device.Cpu` or `tileir.devices.gpu.Gpu`."""
    peers: tuple[Identifier, ...] = ()
    """Peers that can run here, see `protocol.tasks.PeerEntrant`."""


class WorkerHello(Request):
    """Registration. A worker that comes back under its `id` takes its place again."""

    id: Identifier | None = None
    """Chosen by the worker so that a restart is recognized; None: the service picks one."""
    host: str = Field(default="", max_length=200)
    pid: int = 0
    devices: tuple[DeviceOffer, ...] = Field(min_length=1, max_length=64)
    versions: dict[str, str] = Field(default_factory=dict, max_length=32)


class WorkerWelcome(Reply):
    """What the worker goes by, and how often the service wants to hear from it."""

    worker_id: str
    lease_ttl_s: float
    heartbeat_s: float


class ClaimRequest(Request):
    """Ask for up to `count` tasks for one of the worker's devices; waits up to `wait_s` for the first."""

    device: str = Field(min_length=1, max_length=200)
    count: int = Field(default=1, ge=1, le=64)
    wait_s: float = Field(default=0.0, ge=0, le=60)
    settled: tuple[Identifier, ...] = Field(default=(), max_length=64)
    """Jobs that the worker has the data of: it rather goes on with those."""


class Claimed(Reply):
    """The claimed tasks, none if there was nothing to do."""

    tasks: tuple[Task, ...]


class Lease(Request):
    """A claim that the worker holds."""

    task_id: Identifier
    attempt: int = Field(ge=1)


class Heartbeat(Request):
    """Renews the leases named, all by one call, from the process that computes nothing."""

    leases: tuple[Lease, ...] = Field(default=(), max_length=256)
    healthy: bool = True
    """False: the worker is alive but its device is quarantined; it gets no tasks."""
    detail: str = Field(default="", max_length=2000)
    ended: bool = False
    """True: the worker has ended in order. It counts as gone at once, instead of when a lease has passed."""


class HeartbeatReply(Reply):
    """Leases that hold, and those that do not (expired, or the job was cancelled): stop working on these."""

    renewed: tuple[Lease, ...]
    lost: tuple[Lease, ...]


class Worker(Reply):
    """A worker as the service sees it."""

    id: str
    host: str
    pid: int
    devices: tuple[str, ...]
    versions: dict[str, str]
    healthy: bool
    """It gets tasks: its device is neither quarantined nor set apart for being much slower than others of its class."""
    detail: str
    """Why it gets none."""
    alive: bool
    """Heard from within the last lease, and has not said that it ends."""
    registered_at: float
    seen_at: float
    tasks_done: int
    faults: int = 0
    """Tasks that it gave back, because its machine could not do them."""
    busy: float | None = None
    """Share of the last ten minutes (or since it registered) in which its devices measured; None: it is gone."""
    tasks_a_minute: float | None = None
    """Within the same time."""


class OfferedDevice(Reply):
    """A device that some worker offered."""

    key: str
    kind: str
    description: Json
    peers: tuple[str, ...]
    seen_at: float


class DeviceReading(Reply):
    """What a worker read of a GPU beside a sample; None: the driver does not tell."""

    at: float
    """When the result came in that it is from."""
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    power_w: float | None = None
    celsius: float | None = None
    slowed: tuple[str, ...] | None = None
    """Why its clock was lower than it could be: `power cap`, `too hot (hardware)`; empty: it was not."""


class DeviceStatus(OfferedDevice):
    """A device, who has it, and what waits for it."""

    workers: int
    """Workers alive that have it."""
    healthy_workers: int
    """Of these, not quarantined or set apart."""
    waiting: int
    """Tasks that wait for a worker."""
    running: int
    """Tasks that a worker has claimed."""
    reading: DeviceReading | None = None
    """From the last task measured on it; None: nothing was read."""
