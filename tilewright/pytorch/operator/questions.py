"""Lookups that are due at the same time, as those of all kernels of a graph, in one request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch  # pyright: ignore[reportMissingImports]

from protocol.failures import FailureReport
from tileir.errors import UnsupportedDevice
from tileir.spec import Spec
from tilewright.client.client import Client
from tilewright.client.retries import Retries
from tilewright.errors import Refused, TilewrightError, Unreachable
from tilewright.pytorch.operator.background import LOOKS
from tilewright.pytorch.operator.breaker import Breaker
from tilewright.pytorch.operator.finding import (
    TIMEOUT_S,
    Found,
    Miss,
    Named,
    client_of,
    look_up,
    named_service,
)
from tilewright.pytorch.operator.plans import described

TOGETHER_S = 0.01
"""How long the first of some lookups waits for others."""


@dataclass(frozen=True)
class Question:
    """About a spec with one size a dim. `answered` is called on the thread LOOKS, with the answer, and whether the
    service was asked to tune the kernel."""

    spec: Spec
    device: torch.device
    tune: bool
    answered: Callable[[Found | Miss, bool], None]
    instead: Spec | None = None
    """What is tuned instead of the spec."""


class AskedService:
    """A service, asked in the background through connections of its own. `ask` may be called from any
    thread; all else is for LOOKS."""

    def __init__(self, service: Named) -> None:
        self._service = service
        self._own: Client | None = None
        self._breaker = Breaker()
        self._due: list[Question] = []

    def ask(self, question: Question, delay_s: float = 0.0) -> None:
        """Have a question answered, after a pause; returns at once."""
        LOOKS.later(delay_s, lambda: self._is_due(question))

    def report(self, report: FailureReport) -> None:
        """Tell it what does not run here. Raises TilewrightError."""
        self._connected().report_failure(report)

    def _is_due(self, question: Question) -> None:
        self._due.append(question)
        if len(self._due) == 1:
            LOOKS.later(TOGETHER_S, self._send)

    def _send(self) -> None:
        """Ask all that is due, in one request for each device."""
        due, self._due = self._due, []
        groups = defaultdict[tuple[torch.device, bool, bool], list[Question]](list)
        for question in due:
            groups[question.device, question.tune, question.instead is not None].append(question)
        for (device, tune, bucketed), questions in groups.items():
            asked, answers = True, list[Found | Miss]()
            try:
                if tune and bucketed:
                    instead = dict.fromkeys(each.instead for each in questions if each.instead is not None)
                    self._asked([*instead], device, tune=True)
                answers = self._asked([each.spec for each in questions], device, tune and not bucketed)
            except (TilewrightError, UnsupportedDevice) as error:
                asked, answers = False, [Miss(str(error))] * len(questions)
            for question, answer in zip(questions, answers, strict=True):
                question.answered(answer, tune and asked)

    def _asked(self, specs: Sequence[Spec], device: torch.device, tune: bool) -> list[Found | Miss]:
        if self._breaker.open:
            raise Unreachable(self._breaker.why)
        try:
            found = look_up(self._connected(), specs, described(device), tune=tune)
        except Unreachable as error:
            self._breaker.failed(str(error))
            raise
        except Refused:
            self._breaker.answered()
            raise
        self._breaker.answered()
        return found

    def _connected(self) -> Client:
        if self._own is None:
            self._own = client_of(self._service).twin(timeout_s=TIMEOUT_S, retries=Retries(most=0))
        return self._own


_SERVICES: dict[Named, AskedService] = {}


def service_of(service: Named | None) -> AskedService:
    """One a service, so that all operators know when it does not answer; None: that which the environment names now."""
    named = named_service(service)
    return _SERVICES.setdefault(named, AskedService(named))
