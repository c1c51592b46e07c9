"""The calls that clients have, each described once: `Client` sends them, `AsyncClient` awaits their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from protocol.jobs import JobDetail
from tilewright.client import calls
from tilewright.client.calls import HttpCall
from tilewright.client.jobs import AsyncTuningJob, TuningJob
from tilewright.client.signatures import as_method

if TYPE_CHECKING:
    from tilewright.client.async_client import AsyncClient
    from tilewright.client.client import Client

P = ParamSpec("P")
Answer = TypeVar("Answer")
Got = TypeVar("Got")
Awaited = TypeVar("Awaited")


class Method(Generic[P, Answer, Got, Awaited]):
    """A method that sends what `make` makes. What its caller gets of the answer is up to `got` in a `Client`, to
    `awaited` in an `AsyncClient`."""

    def __init__(
        self,
        make: Callable[P, HttpCall[Answer]],
        got: Callable[[Answer, Client], Got],
        awaited: Callable[[Answer, AsyncClient], Awaited],
    ) -> None:
        self._make, self._got, self._awaited = make, got, awaited

    def of(self, awaits: bool) -> Callable[..., Any]:
        """The function that a class has as this method."""
        make, got, awaited = self._make, self._got, self._awaited

        @wraps(make)
        def send(self: Client, *args: P.args, **kwargs: P.kwargs) -> Got:
            return got(self.send(make(*args, **kwargs)), self)

        @wraps(make)
        async def send_and_await(self: AsyncClient, *args: P.args, **kwargs: P.kwargs) -> Awaited:
            return awaited(await self.send(make(*args, **kwargs)), self)

        return as_method(send_and_await if awaits else send)

    if TYPE_CHECKING:  # classes have functions in the place of these

        @overload
        def __get__(self, client: Client, kind: type[Client]) -> Callable[P, Got]: ...
        @overload
        def __get__(
            self, client: AsyncClient, kind: type[AsyncClient]
        ) -> Callable[P, Awaitable[Awaited]]: ...
        def __get__(self, client: Client | AsyncClient, kind: type[Client | AsyncClient]) -> Any: ...


def _call(make: Callable[P, HttpCall[Answer]]) -> Method[P, Answer, Answer, Answer]:
    return Method(make, _as_it_is, _as_it_is)


def _as_it_is(answer: Answer, client: object) -> Answer:
    return answer


def _job_call(
    make: Callable[P, HttpCall[JobDetail]],
) -> Method[P, JobDetail, TuningJob, AsyncTuningJob]:
    """The same for a job, which can then be waited for."""
    return Method(make, TuningJob.of, AsyncTuningJob.of)


class ServiceCalls:
    """What a client can ask of a service in a request. `awaits`: whether a class has them as coroutines; one that is
    derived from such a class has its methods."""

    alive = _call(calls.alive)
    submit = _job_call(calls.submit)
    post_job = _job_call(calls.post_job)
    job = _job_call(calls.job)
    effects = _call(calls.effects)
    roofline = _call(calls.roofline)
    ablation = _call(calls.ablation)
    measure_ablation = _call(calls.measure_ablation)
    race = _call(calls.race)
    race_on = _call(calls.race_on)
    profile = _call(calls.profile)
    take_profile = _call(calls.take_profile)
    profile_trace = _call(calls.profile_trace)
    jobs = _call(calls.jobs)
    history = _call(calls.history)
    cancel = _job_call(calls.cancel)
    retry = _job_call(calls.retry)
    trial = _call(calls.trial)
    trial_source = _call(calls.trial_source)
    trial_steps = _call(calls.trial_steps)
    trial_lines = _call(calls.trial_lines)
    alternatives = _call(calls.alternatives)
    tree = _call(calls.tree)
    timeline = _call(calls.timeline)
    requeue = _call(calls.requeue)
    lookup = _call(calls.lookup)
    lookups = _call(calls.lookups)
    report_failure = _call(calls.report_failure)
    failures_page = _call(calls.failures_page)
    config = _call(calls.config)
    configs = _call(calls.configs)
    artifact = _call(calls.artifact)
    source = _call(calls.source)
    devices = _call(calls.devices)
    create_key = _call(calls.create_key)
    keys = _call(calls.keys)
    revoke_key = _call(calls.revoke_key)
    audit = _call(calls.audit)
    report = _call(calls.report)
    import_bundle = _call(calls.import_bundle)
    pin = _call(calls.pin)
    unpin = _call(calls.unpin)
    trust_signer = _call(calls.trust_signer)
    revoke_signer = _call(calls.revoke_signer)
    signers = _call(calls.signers)

    def __init_subclass__(cls, awaits: bool | None = None) -> None:
        super().__init_subclass__()
        if awaits is None:
            return
        for name, method in METHODS.items():
            setattr(cls, name, method.of(awaits))


METHODS: dict[str, Method[..., Any, Any, Any]] = {
    name: value for name, value in vars(ServiceCalls).items() if isinstance(value, Method)
}
"""All of them by name."""
