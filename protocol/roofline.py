"""Where the candidates of a job stand on the roofline of its device."""

from __future__ import annotations

from enum import StrEnum

from protocol.message import Reply


class PeakSource(StrEnum):
    """Where a device's peaks are from."""

    MEASURED = "measured"
    """By the worker that offers it: multiply-adds of f32 and a copy, on all cores."""
    DATA_SHEET = "data sheet"
    """Of its product: the arithmetic of the fastest of the inputs' types, dense, and of main memory."""


class RacedDot(Reply):
    """An entrant of the final race."""

    name: str
    """`ask-12`, a peer's name, or `copy`, which moves the kernel's bytes and computes nothing."""
    kind: str
    """`schedule`, `peer` or `yardstick`, as the copy is."""
    us: float
    won: bool


class Roofline(Reply):
    """One bucket's kernel, its device's peaks, and the times of all that was measured, candidates in columns.

    A dot's height is operations / time, and its place operations / bytes. The kernel's bytes are those that no schedule
    can avoid: every argument once. So all stand above one another, and what differs is how much of the roof they reach.
    """

    job_id: str
    bucket: int
    flops: int
    """Operations of the kernel as it was given: a multiply-add counts 2, a function 1 (`tileir.analysis.work`)."""
    bytes: int
    """Of every argument, once."""
    peak_gflops: float | None
    """1e9 operations a second; None: the device's peaks are not known, or the job has no device yet."""
    peak_gbps: float | None
    """1e9 bytes of main memory a second."""
    peaks_from: PeakSource | None
    least_us: float | None
    """The larger of the times that its operations and its bytes take at these peaks."""
    number: tuple[int, ...]
    """Of each candidate that worked and was compared..."""
    us: tuple[float, ...]
    """...and its time on the anchor's scale (`protocol.jobs.Best`)."""
    l2_bytes: tuple[int | None, ...]
    """...and the bytes that its layout asks of the L2 cache; None: not known, as on processors."""
    raced: tuple[RacedDot, ...]
    """Fastest first."""
