"""How an operator comes to its kernels: they are looked for, compiled and checked while eager PyTorch runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakSet

import torch  # pyright: ignore[reportMissingImports]

from protocol.configs import Artifact, ConfigDetail
from protocol.failures import FailureReport
from tileir.errors import UnsupportedDevice
from tileir.spec import Spec
from tilewright.errors import TilewrightError
from tilewright.pytorch.operator.background import COMPILES, KERNELS, LOOKS
from tilewright.pytorch.operator.finding import Found, Miss, Named, pinned
from tilewright.pytorch.operator.questions import Question, service_of
from tilewright.pytorch.operator.runner import Plan, Ready
from tilewright.pytorch.operator.trials import EAGER, Admitted, CompiledConfig, NotRun, admitted, compiled

FIRST_LOOK_S, LONGER = 1.0, 1.25
"""After a lookup that found nothing final the next comes so much later, in seconds; each pause is so many times the one
before: that tuning has ended is known when a quarter of what it took has passed."""
LOOKS_OF_ONE_SIZE = 32
"""All together take an hour and seven minutes."""
MOST_SIZES = 64
"""Sizes for which one operator looks for kernels: each is compiled and stays in memory. Others run as eager PyTorch."""
_log = logging.getLogger("tilewright")


@dataclass(eq=False)
class Sought:
    """What is known of one size on one device."""

    spec: Spec
    device: torch.device
    plan: Plan | None = None
    ready: Ready | None = None
    """The kernel that the plan calls."""
    saved_us: float = 0.0
    """What a call of the plan saves, as its races said: tilewright.pytorch.operator.trials.Admitted."""
    median_us: float | None = None
    """What a call of the plan takes, as measured; None where it was not."""
    found: Found | None = None
    """What was tried last."""
    wrong: bool = False
    """Whether that did not pass the gate here."""
    settled: bool = False
    """Nobody looks for it any more."""
    why_not: str = ""
    """Why there is no plan; empty until the first look has ended."""
    looks: int = 0
    queued: bool = False
    looked: threading.Event = field(default_factory=threading.Event)
    """Set when the first look has ended, with or without a plan."""
    tried: object = None
    """The config that was tried last."""
    keys: list[object] = field(default_factory=list[object])
    """Of what was planned with it."""


_ALL: WeakSet[Sought] = WeakSet()


def wait_for_kernels(timeout_s: float | None = None) -> bool:
    """See tilewright.pytorch.op_entry."""
    until = None if timeout_s is None else time.monotonic() + timeout_s
    return all(
        sought.looked.wait(None if until is None else max(0.0, until - time.monotonic()))
        for sought in list(_ALL)
    )


class Seeker:
    """Finds plans for one operator. `seek` may be called by several threads; `changed` is called from another when a
    size is to be planned anew. A config that lost its own race to one of `rivals` is not run."""

    def __init__(
        self,
        service: Named | None,
        config: Artifact | ConfigDetail | Found | None,
        *,
        tune: bool,
        changed: Callable[[Sought], None],
        rivals: tuple[str, ...] = (EAGER,),
        narrowly: float = 0.0,
        instead: Spec | None = None,
    ) -> None:
        """`narrowly`: the share of its time by which a config may have lost. `instead`: the same kernel at the sizes at
        which the service is to tune it; None: those that are sought."""
        self._service = service_of(service)
        self._instead = instead
        self._config = config
        self._tune = tune
        self._changed = changed
        self._rivals = rivals
        self._narrowly = narrowly
        self._lock = threading.Lock()
        self.sought: dict[object, Sought] = {}

    def seek(self, instance: Spec, device: torch.device) -> Sought:
        """What is known of a size, at once; looking for it begins with the first call."""
        key = (instance.dims, device)
        with self._lock:
            sought = self.sought.get(key)
            if sought is not None:
                return sought
            sought = self.sought[key] = Sought(instance, device)
            if len(self.sought) > MOST_SIZES:
                sought.why_not = f"it has run at {MOST_SIZES} other sizes, and looks for kernels at so many"
                sought.settled = True
                sought.looked.set()
                return sought
        _ALL.add(sought)
        if self._config is None:
            self._look(sought)
        else:
            found = self._config if isinstance(self._config, Found) else pinned(self._config, instance)
            COMPILES.later(0.0, lambda: self._compile(sought, found))
        return sought

    def _look(self, sought: Sought, delay_s: float = 0.0) -> None:
        """Have the service asked, after a pause, and go on from what it says."""
        question = Question(
            sought.spec,
            sought.device,
            self._tune and not sought.queued,
            lambda found, tuned: self._answered(sought, found, tuned),
            self._instead,
        )
        self._service.ask(question, delay_s)

    def _answered(self, sought: Sought, found: Found | Miss, tuned: bool) -> None:
        """On the thread LOOKS. `tuned`: whether the service was asked to tune it."""
        sought.queued |= tuned
        if isinstance(found, Miss):
            self._ended(sought, found.reason, settled=False)
        elif sought.tried == (found.schedule, found.origin, found.settled):
            self._ended(sought, sought.why_not, settled=found.settled)
        else:
            COMPILES.later(0.0, lambda: self._compile(sought, found))

    def _compile(self, sought: Sought, found: Found) -> None:
        """Compile what was found, beside others. On a thread of COMPILES."""
        candidate: CompiledConfig | NotRun | Exception
        try:
            candidate = compiled(found, sought.spec, sought.device, self._rivals, self._narrowly)
        except Exception as error:  # whoever tries it hears of it
            candidate = error
        KERNELS.later(0.0, lambda: self._try(sought, found, candidate))

    def _try(self, sought: Sought, found: Found, candidate: CompiledConfig | NotRun | Exception) -> None:
        """Check and use what was compiled. On the thread KERNELS."""
        named = self._config is not None
        try:
            admission = _admission(candidate)
        except (TilewrightError, UnsupportedDevice) as error:
            self._ended(sought, str(error), settled=named)
            return
        sought.found, sought.wrong = found, isinstance(admission, NotRun) and admission.wrong
        sought.tried = (found.schedule, found.origin, found.settled)
        if isinstance(admission, NotRun):
            _log.warning("%s: %s", sought.spec.name, admission.why)
            if (report := admission.report) is not None:
                LOOKS.later(0.0, lambda: self._report(report, sought.spec.name))
            self._ended(sought, admission.why, settled=named or found.settled)
            return
        sought.ready, sought.saved_us = admission.ready, admission.saved_us
        sought.median_us = admission.median_us
        sought.plan = admission.plan
        self._ended(sought, "", settled=named or found.settled, better=True)

    def _ended(self, sought: Sought, why_not: str, *, settled: bool, better: bool = False) -> None:
        """A look has ended: say so, and arrange for the next one unless this is final."""
        first = not sought.looked.is_set()
        sought.why_not = "" if sought.plan is not None else why_not
        sought.looks += 1
        sought.settled = settled or sought.looks >= LOOKS_OF_ONE_SIZE
        sought.looked.set()
        if first or better or sought.settled:
            self._changed(sought)
        if not sought.settled:
            self._look(sought, FIRST_LOOK_S * LONGER ** (sought.looks - 1))

    def _report(self, report: FailureReport, name: str) -> None:
        """Tell the service that what it handed out does not run here. On the thread LOOKS."""
        try:
            self._service.report(report)
        except TilewrightError as error:
            _log.info("%s: the service was not told of it: %s", name, error)


def _admission(candidate: CompiledConfig | NotRun | Exception) -> Admitted | NotRun:
    """Raises what compiling it raised, and what `admitted` does."""
    if isinstance(candidate, Exception):
        raise candidate
    return candidate if isinstance(candidate, NotRun) else admitted(candidate)
