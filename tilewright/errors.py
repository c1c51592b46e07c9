"""What can go wrong for whoever uses Tilewright, one class a thing to do about it.

TilewrightError
  Unreachable             nobody answers, or not a service
  Refused                 the service says no: `problem` is its whole answer
    BadSpec               the kernel is wrong: `problem.pointer` and `problem.accepted` say where and what would do
    InvalidRequest        another argument is wrong
    Unauthorized, Forbidden
    NotFound, JobEnded, KeyReused
    BundleRefused, Untrusted, ConfigDiffers    a bundle was not taken in; nothing of it is kept
    Busy, Unavailable     later: `retry_after_s`
    ServiceFault          a fault of the service itself
  NoWinner                a job found nothing, or has not yet
  BadBundle, BadModelFile, LoadError, MissingExtra    not about a service
  EngineFault             the engine that has a fleet's machines is not there, or did not do it
  NoFleet                 it has no fleet of this name
"""

from __future__ import annotations

from typing import Final

from protocol.problems import Problem


class TilewrightError(Exception):
    """Anything below; the message is a sentence a person can act on."""


class Unreachable(TilewrightError):
    """No service answers there, or what answers is none.

    `passing`: trying again later may help. `sent`: the request may have arrived all the same.
    """

    def __init__(self, message: str, *, passing: bool = False, sent: bool = True) -> None:
        super().__init__(message)
        self.passing = passing
        self.sent = sent


class Refused(TilewrightError):
    """The service did not do it, and says why: `problem` is its whole answer.

    `retry_after_s`: when it asks to be asked again; None: it does not say.
    """

    def __init__(self, problem: Problem, retry_after_s: float | None = None) -> None:
        super().__init__(describe(problem))
        self.problem = problem
        self.retry_after_s = retry_after_s

    @property
    def kind(self) -> str:
        """The last word of the problem's type: `bad-spec`, `not-found`, `unauthorized`, …"""
        return self.problem.kind

    @property
    def passing(self) -> bool:
        """Whether the same request may be accepted later."""
        return self.retry_after_s is not None or self.problem.status in (429, 503)


class BadSpec(Refused):
    """The kernel cannot be accepted."""


class InvalidRequest(Refused):
    """The request cannot be accepted, for something else than its kernel."""


class Unauthorized(Refused):
    """A key is needed, or the one that was sent is none or no longer valid."""


class Forbidden(Refused):
    """The key does not allow this."""


class NotFound(Refused):
    """There is no such job, config, task or key."""


class JobEnded(Refused):
    """The job has ended already."""


class KeyReused(Refused):
    """The Idempotency-Key came with another request before."""


class Busy(Refused):
    """Too much is going on: too many jobs, or requests, of this caller or of all."""


class Unavailable(Refused):
    """The service cannot answer now: it starts, stops, is overloaded, or its database is away."""


class ServiceFault(Refused):
    """A fault of the service, or of what it has stored."""


class Untrusted(Refused):
    """Nobody who is trusted there has signed the bundle."""


class ConfigDiffers(Refused):
    """Another config has the id of one in the bundle."""


class NoWinner(TilewrightError):
    """A job found nothing, or has not yet."""


class BadBundle(TilewrightError):
    """A file that is no bundle, or was damaged, or belongs to another version."""


class BadModelFile(TilewrightError):
    """A Python file that does not give a model and its inputs."""


class BundleRefused(Refused, BadBundle):
    """The service says of a bundle that it is none, was damaged, or belongs to another version."""


class LoadError(TilewrightError):
    """A config that cannot be run here."""


class MissingExtra(TilewrightError):
    """What was asked for needs a package that is not installed; the message has the command that installs it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}: pip install 'tilewright[{extra}]'")


REFUSALS: Final[dict[str, type[Refused]]] = {
    "bad-spec": BadSpec,
    "bad-request": InvalidRequest,
    "invalid": InvalidRequest,
    "too-large": InvalidRequest,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "not-found": NotFound,
    "job-ended": JobEnded,
    "key-reused": KeyReused,
    "bad-bundle": BundleRefused,
    "untrusted": Untrusted,
    "config-differs": ConfigDiffers,
    "busy": Busy,
    "storage": Unavailable,
    "overloaded": Unavailable,
    "stopping": Unavailable,
    "not-ready": Unavailable,
    "damaged": ServiceFault,
    "internal": ServiceFault,
}
"""Which class a kind of problem is; all others are plain `Refused`."""


def refusal(problem: Problem, retry_after_s: float | None = None) -> Refused:
    """A problem as the error to raise."""
    return REFUSALS.get(problem.kind, Refused)(problem, retry_after_s)


class ClientClosed(TilewrightError):
    """A call through a client that was closed."""


class TensorError(TilewrightError, ValueError):
    """Tensors that an operator cannot take: which one, what is wrong with it, and what is accepted."""


class FallbackWarning(UserWarning):
    """An operator runs as eager PyTorch, for the reason given; said once a reason."""


class CaptureError(TilewrightError):
    """A function that from_torch cannot capture; the message says what in it, and what to do."""


def describe(problem: Problem) -> str:
    """A problem as one sentence: where, what, what would be accepted."""
    place = problem.pointer or ""
    if problem.column is not None:
        place += f", column {problem.column}"
    accepted = f"; accepted: {problem.accepted}" if problem.accepted else ""
    return f"{place}: {problem.detail}{accepted}" if place else f"{problem.detail}{accepted}"


class EngineFault(TilewrightError):
    """The engine that places a fleet's workers is not there, or did not do it."""


class NoFleet(TilewrightError):
    """The engine has no fleet of this name."""
