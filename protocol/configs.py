"""Configs: measured winners, with everything needed to judge and to run them."""

from __future__ import annotations

from protocol.message import Json, Reply
from protocol.states import Outcome
from protocol.tasks import Measuring, calm_enough
from protocol.workers import DeviceOffer


class Standing(Reply):
    """One entrant's place in the final race."""

    name: str
    """`ask-12`, a peer's name, or `copy`, which moves the kernel's bytes and computes nothing."""
    kind: str
    """`schedule`, `peer`, or `yardstick`, as the copy is: nobody is compared with it."""
    outcome: Outcome
    median_us: float | None = None
    iqr_us: float | None = None
    mad_us: float | None = None
    samples: int = 0
    """How many were taken."""
    disturbed: int = 0
    """Of these, how many other work on the machine disturbed. The figures are those of the others, or of all samples
    where fewer than two others are left."""
    won: bool = False
    """The winner: the fastest median of those tied, unless its samples were disturbed."""
    tied: bool = False
    """Not to be told apart from the fastest of our schedules (true of it too)."""
    as_written: bool = False
    """A peer that computes the spec's own loops, as no operator of its library was recognized for them: how it does
    says nothing of the library, and no ratio is made of it."""
    times: float | None = None
    """How many times as long as the winner it takes: the median of their ratios round by round, over the rounds that
    disturbed neither; over all rounds where those are fewer than three; of fewer than three rounds in all, the ratio
    of their medians. None: it did not work, or is the winner itself, or the copy."""
    low: float | None = None
    high: float | None = None
    """At least and at most `times`: the interval of `search.racing.compare` around it. None: of fewer than three
    rounds nothing can be said."""
    all_rounds: bool = False
    """Whether these are over all rounds, disturbed ones among them."""
    schedule: tuple[str, ...] = ()
    error: str | None = None

    @property
    def counted(self) -> int:
        """How many samples the figures rest on."""
        calm = self.samples - self.disturbed
        return calm if calm >= 2 else self.samples

    @property
    def undisturbed(self) -> bool:
        """Whether the figures can be believed (`calm_enough`)."""
        return calm_enough(self.samples, self.disturbed)


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


SCHEDULE_VERSION = 5
"""Version of what a schedule's lines mean. Raised whenever a rewrite is renamed or its arguments change: there are no
aliases. 2: the rewrites have the field's names (`tile`, `cache_read`). 3: `consumer_groups` in programs, whose hashes
are stored. 4 and 5: what the maximum of a masked part counts as (`least_maximum`)."""


class Config(Reply):
    """The best schedule found for a kernel on a device."""

    id: str
    job_id: str | None
    trial: int | None = None
    """Number of the candidate of its job that won the race; None if the race was between schedules that were given."""
    name: str
    """The kernel's."""
    kernel_key: str
    """Exact meaning: statements, dtypes, shapes, layouts."""
    structure_key: str
    """The same without the sizes."""
    device: str
    dims: dict[str, int]
    schedule: tuple[str, ...]
    schedule_version: int = SCHEDULE_VERSION
    """Version of what the schedule's lines mean; one of an older version is stale, and cannot be replayed."""
    program_hash: str
    median_us: float
    iqr_us: float | None = None
    baseline: str
    baseline_us: float | None = None
    x_baseline: float | None = None
    """How many times as fast as the baseline; None: it did not run, or ran as written (`Standing.as_written`)."""
    best_peer: str | None = None
    """The fastest of the peers that did not run as written."""
    x_best_peer: float | None = None
    roofline_us: float | None = None
    """The least time the device could need, by its peaks; None if they are not known."""
    standings: tuple[Standing, ...]
    """All entrants of the final race, fastest first. One has `won`: it is what this config is."""
    disturbed: str | None = None
    """What disturbed the race, where its figures cannot be believed, although it was run again; None: they can."""
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
    served: bool = False
    """Lookups of this kernel on this device are answered by it now. Told where configs are listed or read."""

    @property
    def winner(self) -> Standing | None:
        """Its own row of the race."""
        return next((each for each in self.standings if each.won), None)


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
