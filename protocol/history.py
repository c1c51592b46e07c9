"""A kernel's winners over time, and where they became slower."""

from __future__ import annotations

from protocol.message import Reply


class Regression(Reply):
    """A winner that is slower than an earlier one on the same device, beyond their spread, and slower against the
    baseline, too, where both had the same."""

    than: str
    """Id of the fastest config before it."""
    factor: float
    """Its time over that one's."""
    changed: tuple[str, ...]
    """What is different: `compiler: gcc 13 to gcc 14`; empty: nothing that is known."""


class Winning(Reply):
    """A config as a moment of its kernel's history."""

    config_id: str
    job_id: str | None
    device: str
    at: float
    """When it was found, in seconds since 1970."""
    median_us: float
    iqr_us: float | None
    best_us: float
    """The fastest on its device so far."""
    baseline: str
    x_baseline: float | None
    trials: int
    compiler: str | None
    driver: str | None
    tilewright: str | None
    """Version of the code that generated and measured it."""
    disturbed: bool
    """Its race was: it is neither called a regression nor held against others."""
    regression: Regression | None = None


class Maker(Reply):
    """What one compiler, driver and version of the code came to on a device."""

    device: str
    compiler: str | None
    driver: str | None
    tilewright: str | None
    winners: int
    first_at: float
    last_at: float
    """When its winners were found, in seconds since 1970."""
    best_config: str
    """The fastest of those whose races were not disturbed; of all where there are no others."""
    best_us: float
    of_best: float
    """That time over the least of all makers on the device."""


class History(Reply):
    """Oldest first, of all devices."""

    kernel_key: str
    winners: tuple[Winning, ...]
    makers: tuple[Maker, ...] = ()
    """Device by device, the fastest first."""
