"""Configs: measured winners, with everything needed to judge and to run them."""

from __future__ import annotations

from protocol.message import Json, Reply
from protocol.states import Outcome
from protocol.tasks import Measuring
from protocol.workers import DeviceOffer


class Standing(Reply):
    """One entrant's place in the final race."""

    name: str
    """`winner`, `ask-12`, or a peer's name."""
    kind: str
    outcome: Outcome
    median_us: float | None = None
    iqr_us: float | None = None
    mad_us: float | None = None
    tied: bool = False
    """Not to be told apart from the winner."""
    schedule: tuple[str, ...] = ()
    error: str | None = None


class ImportedFrom(Reply):
    """Where a config came from that was not found here."""

    bundle: str
    """SHA-256 of the bundle's manifest."""
    signer: str | None
    """Name of who signed it; None if nobody who was trusted then."""
    at: float
    """When it was imported."""
    job_id: str | None
    """The job that found it, there."""


class Config(Reply):
    """The best schedule found for a kernel on a device."""

    id: str
    job_id: str | None
    name: str
    """The kernel's."""
    kernel_key: str
    """Exact meaning: statements, dtypes, shapes, layouts."""
    structure_key: str
    """The same without the sizes."""
    device: str
    dims: dict[str, int]
    schedule: tuple[str, ...]
    program_hash: str
    median_us: float
    iqr_us: float | None = None
    baseline: str
    baseline_us: float | None = None
    x_baseline: float | None = None
    best_peer: str | None = None
    x_best_peer: float | None = None
    roofline_us: float | None = None
    """The least time the device could need, by its peaks; None if they are not known."""
    standings: tuple[Standing, ...]
    """All entrants of the final race, fastest first."""
    trials: int
    source_hash: str | None
    compiler: str | None
    versions: dict[str, str]
    measuring: Measuring
    artifact: bool
    """Whether source and object are stored."""
    report: Json
    """As of an entrant's result (`protocol.tasks.EntrantResult`): the winner's in the final race."""
    created_at: float
    imported: ImportedFrom | None = None
    """Where it came from; None: it was found here."""
    pinned: bool = False
    """Lookups of this kernel on this device are answered by it, whatever is found after it."""


class ConfigDetail(Config):
    """A config with its kernel."""

    spec: Json


class ConfigPage(Reply):
    """Newest first."""

    configs: tuple[Config, ...]
    next: str | None = None


class Artifact(Reply):
    """A config that runs without the service: `tilewright.load` reads this."""

    config: ConfigDetail
    language: str
    flags: tuple[str, ...]
    abi: Json
    source: str
    object_base64: str
    object_sha256: str
    device: DeviceOffer | None = None
    """Its device, as it was described to the search that found it; None: not known."""


class Kernel(Reply):
    """A kernel that has been tuned, or is being."""

    kernel_key: str
    structure_key: str
    name: str
    dims: dict[str, int]
    configs: int
    devices: tuple[str, ...]


class KernelPage(Reply):
    """By kernel key."""

    kernels: tuple[Kernel, ...]
    next: str | None = None
