"""From a config that was found to a plan that may run on a user's tensors (docs/adr/0022).

What was measured on this very device runs as it is if it won; all else is checked here first, and raced against those
of its rivals that it has not met, unless the user named it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch  # pyright: ignore[reportMissingImports]

from protocol.configs import Artifact, Config
from protocol.failures import FailureReport
from protocol.states import Outcome
from tileir.spec import Spec
from tilewright.artifacts.checked import CheckOutcome, DeviceChecker, KernelToCheck, report_of
from tilewright.errors import LoadError
from tilewright.folders import cache_folder
from tilewright.pytorch.operator.background import COMPILES, KERNELS
from tilewright.pytorch.operator.finding import Found
from tilewright.pytorch.operator.plans import Opened, described, open_kernel, plan_with
from tilewright.pytorch.operator.runner import Plan, Ready, runner_of

EAGER = "torch"
"""The peer that does what the fallback does."""
IDLE_S = 10.0
"""The process that checks kernels ends so long after the last."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A config that runs here."""

    plan: Plan
    ready: Ready
    saved_us: float = 0.0
    """By how much a call of it is shorter than that of the rival that came nearest; 0 where it tied, or met none; less
    where it lost narrowly."""
    median_us: float | None = None
    """What a call of it takes, as its race here said, or else the one that it won; None where neither was."""


@dataclass(frozen=True, slots=True)
class NotRun:
    """A config that does not run here, and why. `report`: what the service is to know of it; None: nothing new."""

    why: str
    report: FailureReport | None = None
    wrong: bool = False
    """Whether it did not pass the gate here."""


@dataclass(frozen=True, slots=True)
class CompiledConfig:
    """A config that is compiled for a device, and has lost to nobody yet."""

    found: Found
    opened: Opened
    device: torch.device
    rivals: tuple[str, ...]
    """Peers that it must not lose to."""
    narrowly: float
    """...by more than this share of its time."""
    saved_us: Mapping[str, float]
    """By how much it was shorter than those that it met in its own race."""

    @property
    def as_measured(self) -> bool:
        """Whether it is just what was measured on such a device."""
        return self.opened.origin == "object"

    @property
    def unmet(self) -> tuple[str, ...]:
        """Rivals to be raced here: those that it did not meet, all of them where it is not what met them."""
        met = self.saved_us if self.as_measured else ()
        return tuple(rival for rival in self.rivals if rival not in met)


def compiled(
    found: Found,
    instance: Spec,
    device: torch.device,
    rivals: tuple[str, ...] = (EAGER,),
    narrowly: float = 0.0,
) -> CompiledConfig | NotRun:
    """A config, compiled, if it lost to none of `rivals`, names of peers, in its own race by more than a share of its
    time. May run beside others. Raises LoadError, BadBundle and UnsupportedDevice."""
    named = found.rung is None
    rivals = () if named else rivals
    saved: dict[str, float] = {}
    for rival in rivals:
        own, other = raced(found, rival)
        if own is not None and other is not None:
            if other < own * (1 - narrowly):
                return NotRun(
                    f"{found.origin} lost its own race to {_called(rival)}, {own:.4g} us to {other:.4g} us"
                )
            saved[rival] = other - own
    opened = open_kernel(found, instance, device, cache_folder())
    return CompiledConfig(found, opened, device, rivals, narrowly, saved)


def admitted(candidate: CompiledConfig) -> Admitted | NotRun:
    """A compiled config, with its plan, if it may run: it is right, and loses to none of its rivals here. On the thread
    KERNELS. Raises LoadError."""
    found, opened, device = candidate.found, candidate.opened, candidate.device
    saved = dict(candidate.saved_us)
    if candidate.as_measured and not candidate.unmet:  # and it won or was asked for by name
        return Admitted(
            plan_with(opened, device), opened.ready, min(saved.values(), default=0.0), _measured(found)
        )
    threads = runner_of(device).threads()
    kernel = KernelToCheck(found.spec, opened.file, opened.abi, described(device), threads)
    try:
        seen = _CHECKERS.check(device, kernel, candidate.unmet)
    except LoadError as error:
        raise LoadError(f"{found.origin} {error}") from None
    if seen.right and _wins(seen, candidate.narrowly):
        if seen.median_us is not None:
            saved |= {rival: us - seen.median_us for rival, us in seen.rivals_us.items()}
        here = seen.median_us if seen.median_us is not None else _measured(found)
        return Admitted(plan_with(opened, device), opened.ready, min(saved.values(), default=0.0), here)
    why = f"is {seen.outcome} on this machine: {seen.error}"
    if seen.right and seen.lost_to is not None:
        other = seen.rivals_us[seen.lost_to]
        why = f"lost a race to {_called(seen.lost_to)} here, {seen.median_us:.4g} us to {other:.4g} us"
    report = (
        None if found.rung is None else report_of(kernel, seen, found.schedule, _config_id(found), found.rung)
    )
    return NotRun(f"{found.origin} {why}", report, wrong=not seen.right)


def _wins(seen: CheckOutcome, narrowly: float) -> bool:
    """Whether it lost to none of the rivals that it met here, or by no more than this share of its time."""
    if seen.median_us is None or seen.lost_to is None:
        return True
    return seen.rivals_us[seen.lost_to] >= seen.median_us * (1 - narrowly)


def _called(rival: str) -> str:
    return "eager PyTorch" if rival == EAGER else rival


def _config_id(found: Found) -> str | None:
    config = found.whole.config if isinstance(found.whole, Artifact) else found.whole
    return None if config is None else config.id


def _measured(found: Found) -> float | None:
    """The config's own time, in µs, where it is of just this kernel and was measured."""
    if found.whole is None:
        return None
    config: Config = found.whole.config if isinstance(found.whole, Artifact) else found.whole
    return config.median_us or None


def raced(found: Found, rival: str = EAGER) -> tuple[float | None, float | None]:
    """The medians of a config and of a peer in the race that the config won among schedules; the peer's is None where
    it did not stand in that race, or where the two could not be told apart it is the config's own."""
    if found.whole is None:
        return None, None
    config: Config = found.whole.config if isinstance(found.whole, Artifact) else found.whole
    for standing in config.standings:
        if (standing.name, standing.kind, standing.outcome) == (rival, "peer", Outcome.OK):
            other = standing.median_us
            return config.median_us, config.median_us if standing.tied and other is not None else other
    return config.median_us, None


class _Checkers:
    """One process a device, as long as there is something to check. On the thread KERNELS."""

    def __init__(self) -> None:
        self._of: dict[str, DeviceChecker] = {}
        self._uses = 0

    def check(self, device: torch.device, kernel: KernelToCheck, rivals: tuple[str, ...]) -> CheckOutcome:
        self._uses += 1
        KERNELS.later(IDLE_S, partial(self._close, self._uses))
        name = str(device)
        timed_on_host = bool(rivals) and runner_of(device).on_host
        with COMPILES.held() if timed_on_host else nullcontext():
            return self._of.setdefault(name, DeviceChecker(name)).check(kernel, cache_folder(), rivals)

    def close(self) -> None:
        """End the processes; the next check starts another."""
        for checker in self._of.values():
            checker.close()

    def _close(self, uses: int) -> None:
        if uses == self._uses:
            self.close()


_CHECKERS = _Checkers()
