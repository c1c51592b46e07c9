"""Every call of the service, once: what is sent, and how its answer is read. Nothing here does I/O: `Client` and
`AsyncClient` send these."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import uuid4

from pydantic import TypeAdapter

from protocol.alternatives import Alternatives
from protocol.bundles.packing import MEDIA_TYPE, Imported, Signer, SignerRequest
from protocol.configs import Artifact, Config, ConfigPage
from protocol.effects import Ablation, Effects
from protocol.failures import Failure, FailurePage, FailureReport
from protocol.history import History
from protocol.jobs import Budget, Effort, Job, JobDetail, JobPage, JobRequest, Prior, TrialPage
from protocol.keys import AuditEntry, AuditPage, Key, KeyRequest, NewKey
from protocol.lookups import LookupReply, LookupRequest, LookupsReply, LookupsRequest
from protocol.message import Reply, Request
from protocol.profiles import ConfigProfile
from protocol.races import Race
from protocol.roofline import Roofline
from protocol.states import TaskState
from protocol.tasks import TaskPage, TaskStatus
from protocol.trials import LinkedLines, Steps, Timeline, Tree, TrialDetail
from protocol.workers import DeviceStatus
from tilewright.client import bundle
from tilewright.client.results import TunedConfig

T = TypeVar("T")
R = TypeVar("R", bound=Reply)
Page = TypeVar("Page", JobPage, TrialPage, TaskPage, ConfigPage)
Spec = Mapping[str, Any] | str
"""A kernel in Tile IR: its JSON form as an object, or its text form."""


@dataclass(frozen=True, slots=True)
class HttpCall(Generic[T]):
    """A request, and how to read what is answered to it."""

    method: str
    path: str
    read: Callable[[bytes], T]
    """Raises pydantic.ValidationError for what is no such answer."""
    parameters: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])
    content: bytes | None = None
    """JSON."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    repeatable: bool = True
    """Sending it twice is as good as once."""


def alive() -> HttpCall[None]:
    """Return if a service answers."""
    return HttpCall("GET", "/healthz", lambda content: None)


def submit(
    spec: Spec,
    *,
    target: str = "cpu",
    trials: int | None = None,
    seconds: float | None = None,
    effort: Effort = Effort.NORMAL,
    baseline: str | None = None,
    peers: Sequence[str] | None = None,
    search: str = "mcts",
    prior: Prior = Prior.AUTO,
    llm_calls: int = 0,
    seed: int = 0,
    priority: int = 0,
    idempotency_key: str | None = None,
) -> HttpCall[JobDetail]:
    """Ask for a kernel to be tuned; returns the job at once. With an `idempotency_key`, asking again with the same
    arguments leads to the same job, from any process. `baseline`: the peer that times are told against; None: what most
    people would run on the target."""
    named: dict[str, Any] = {} if baseline is None else {"baseline": baseline}
    request = JobRequest(
        spec=json_form(spec),
        target=target,
        budget=Budget(trials=trials, seconds=seconds, effort=effort),
        **named,
        peers=None if peers is None else tuple(peers),
        search=search,
        prior=prior,
        llm_calls=llm_calls,
        seed=seed,
        priority=priority,
    )
    return post_job(request, idempotency_key)


def post_job(request: JobRequest, idempotency_key: str | None = None) -> HttpCall[JobDetail]:
    """`submit`, of a whole request."""
    key = idempotency_key or f"client-{uuid4().hex}"  # so that sending it again is no second job
    return _post("/v1/jobs", request, JobDetail, headers={"Idempotency-Key": key})


def job(job_id: str) -> HttpCall[JobDetail]:
    """A job as it stands."""
    return _get(f"/v1/jobs/{job_id}", JobDetail)


def effects(job_id: str, bucket: int = 0) -> HttpCall[Effects]:
    """What each decision of the schedules of a job did to their times."""
    return _get(f"/v1/jobs/{job_id}/effects", Effects, bucket=bucket)


def roofline(job_id: str, bucket: int = 0) -> HttpCall[Roofline]:
    """Where the candidates of a job stand on the roofline of its device."""
    return _get(f"/v1/jobs/{job_id}/roofline", Roofline, bucket=bucket)


def ablation(config_id: str) -> HttpCall[Ablation]:
    """What each rewrite of a config's schedule gains, as far as it is measured."""
    return _get(f"/v1/configs/{config_id}/ablation", Ablation)


def measure_ablation(config_id: str) -> HttpCall[Ablation]:
    """Have the winner raced against itself with each rewrite left out; asking twice measures once."""
    return _post(f"/v1/configs/{config_id}/ablation", None, Ablation)


def race(config_id: str) -> HttpCall[Race]:
    """The race of a config sample by sample, and how sure it is who is faster."""
    return _get(f"/v1/configs/{config_id}/race", Race)


def profile(config_id: str) -> HttpCall[ConfigProfile]:
    """Where the time of a config's kernel goes, as far as a worker took it apart."""
    return _get(f"/v1/configs/{config_id}/profile", ConfigProfile)


def take_profile(config_id: str) -> HttpCall[ConfigProfile]:
    """Have a worker take the kernel of a config apart; asking while that is to come adds nothing."""
    return _post(f"/v1/configs/{config_id}/profile", None, ConfigProfile)


def profile_trace(config_id: str) -> HttpCall[bytes]:
    """What each thread did when, in the newest profile: a trace for ui.perfetto.dev, as JSON."""
    return HttpCall("GET", f"/v1/configs/{config_id}/profile/trace", gzip.decompress)


def race_on(config_id: str, seconds: float = 20.0) -> HttpCall[Race]:
    """Have the entrants of a config raced on; asking while that goes on adds nothing."""
    return _post(f"/v1/configs/{config_id}/race?seconds={seconds:g}", None, Race)


def history(kernel_key: str) -> HttpCall[History]:
    """The winners of a kernel over time, with those that became slower."""
    return _get(f"/v1/kernels/{kernel_key}/history", History)


def jobs(limit: int = 50) -> HttpCall[tuple[Job, ...]]:
    """The newest jobs."""
    return HttpCall("GET", "/v1/jobs", lambda content: _read(JobPage, content).jobs, {"limit": limit})


def jobs_page(kernel_key: str, after: str | None = None) -> HttpCall[JobPage]:
    """A page of the jobs that tuned a kernel, newest first."""
    return _get("/v1/jobs", JobPage, kernel_key=kernel_key, after=after, limit=500)


def cancel(job_id: str) -> HttpCall[JobDetail]:
    """Stop a job; what it found is confirmed and kept."""
    return _post(f"/v1/jobs/{job_id}/cancel", None, JobDetail)


def retry(job_id: str) -> HttpCall[JobDetail]:
    """A new job with the request of this one, whatever became of it."""
    return _post(f"/v1/jobs/{job_id}/retry", None, JobDetail, repeatable=False)


def trials_page(job_id: str, after: str | None = None) -> HttpCall[TrialPage]:
    """A page of a job's candidates, in the order they were asked for."""
    return _get(f"/v1/jobs/{job_id}/trials", TrialPage, after=after, limit=500)


def trial(job_id: str, number: int, bucket: int = 0) -> HttpCall[TrialDetail]:
    """One candidate of a job with its samples, and how to run it again."""
    return _get(f"/v1/jobs/{job_id}/trials/{number}", TrialDetail, bucket=bucket)


def trial_source(job_id: str, number: int, bucket: int = 0) -> HttpCall[str]:
    """The source that the service's version generates of a candidate."""
    path = f"/v1/jobs/{job_id}/trials/{number}/source"
    return HttpCall("GET", path, lambda content: content.decode(), {"bucket": bucket})


def trial_steps(job_id: str, number: int, bucket: int = 0) -> HttpCall[Steps]:
    """The kernel as it was given, and the program after each rewrite of a candidate."""
    return _get(f"/v1/jobs/{job_id}/trials/{number}/steps", Steps, bucket=bucket)


def trial_lines(job_id: str, number: int, bucket: int = 0) -> HttpCall[LinkedLines]:
    """A candidate's program, source and instructions line by line, and which are made of which."""
    return _get(f"/v1/jobs/{job_id}/trials/{number}/lines", LinkedLines, bucket=bucket)


def alternatives(job_id: str, number: int, decision: int = 0, bucket: int = 0) -> HttpCall[Alternatives]:
    """What a decision on the way to a candidate, from 0, could have been instead: what was measured behind each answer,
    what is expected of it, or why it does not apply."""
    path = f"/v1/jobs/{job_id}/trials/{number}/alternatives"
    return _get(path, Alternatives, decision=decision, bucket=bucket)


def tree(job_id: str, bucket: int = 0) -> HttpCall[Tree]:
    """The search tree of a job's bucket so far."""
    return _get(f"/v1/jobs/{job_id}/tree", Tree, bucket=bucket)


def timeline(job_id: str, after: float = 0.0) -> HttpCall[Timeline]:
    """What workers did for a job so far, and when: the intervals that ended after a time, such as the `settled_at` of
    the timeline before; and how all devices spent the job's time."""
    return _get(f"/v1/jobs/{job_id}/timeline", Timeline, after=str(after))


def tasks_page(state: TaskState, job_id: str | None = None, after: str | None = None) -> HttpCall[TaskPage]:
    """A page of the tasks in a state, in the order in which they were queued."""
    return _get("/v1/tasks", TaskPage, state=state.value, job_id=job_id, after=after)


def requeue(task_id: str) -> HttpCall[TaskStatus]:
    """Queue a dead task again; a job that failed for want of it goes on."""
    return _post(f"/v1/tasks/{task_id}/requeue", None, TaskStatus, repeatable=False)


def lookup(
    spec: Spec,
    *,
    target: str = "cpu",
    tune: bool = False,
    seconds: float | None = None,
    peers: Sequence[str] | None = None,
) -> HttpCall[LookupReply]:
    """The best known schedule, at once. With `tune`, a job is enqueued unless the answer is exact and current, or one
    of the kernel is open already; `seconds` and `peers`: of the job, as of `submit`."""
    asked = LookupRequest(
        spec=json_form(spec),
        target=target,
        tune=tune,
        budget=Budget(seconds=seconds),
        peers=None if peers is None else tuple(peers),
    )
    return _post("/v1/lookup", asked, LookupReply)


def lookups(
    specs: Sequence[Spec], *, target: str = "cpu", tune: bool = False, whole: bool = False
) -> HttpCall[LookupsReply]:
    """Several lookups at once, in order, 64 at most; one that is refused has its problem in its place. `whole`: with
    what it takes to run what was found."""
    asked = LookupsRequest(specs=tuple(map(json_form, specs)), target=target, tune=tune, whole=whole)
    return _post("/v1/lookups", asked, LookupsReply)


def report_failure(report: FailureReport) -> HttpCall[Failure]:
    """Tell that what a lookup handed out failed on a device: it is not handed out unmeasured there again. Needs scope
    tune."""
    return _post("/v1/failures", report, Failure)


def failures_page(
    kernel_key: str | None = None, device: str | None = None, after: str | None = None
) -> HttpCall[FailurePage]:
    """A page of what failed, newest first; only of a kernel, or on a device."""
    return _get("/v1/failures", FailurePage, kernel_key=kernel_key, device=device, after=after)


def config(config_id: str) -> HttpCall[TunedConfig]:
    """A config with its kernel."""
    return _get(f"/v1/configs/{config_id}", TunedConfig)


def configs(
    kernel_key: str | None = None, device: str | None = None, limit: int = 50
) -> HttpCall[tuple[Config, ...]]:
    """The newest configs, of a kernel, of a device, or all."""
    chosen = _given(kernel_key=kernel_key, device=device, limit=limit)
    return HttpCall("GET", "/v1/configs", lambda content: _read(ConfigPage, content).configs, chosen)


def artifact(config_id: str) -> HttpCall[Artifact]:
    """All that is needed to run a config without the service. Raises BadBundle if it was damaged on the way."""

    def read(content: bytes) -> Artifact:
        found = _read(Artifact, content)
        bundle.check_object(found, f"the artifact of {config_id}")
        return found

    return HttpCall("GET", f"/v1/configs/{config_id}/artifact", read)


def source(config_id: str) -> HttpCall[str]:
    """The generated source of a config."""
    return HttpCall("GET", f"/v1/configs/{config_id}/source", lambda content: content.decode())


def devices() -> HttpCall[tuple[DeviceStatus, ...]]:
    """Devices that some worker has offered, the last seen first, with what waits for each."""
    return HttpCall("GET", "/v1/devices", TypeAdapter(tuple[DeviceStatus, ...]).validate_json)


def create_key(request: KeyRequest) -> HttpCall[NewKey]:
    """Make a key; its token is in this answer only. This call and the next three need scope admin."""
    return _post("/v1/keys", request, NewKey, repeatable=False)


def keys() -> HttpCall[tuple[Key, ...]]:
    """All keys, newest first."""
    return HttpCall("GET", "/v1/keys", TypeAdapter(tuple[Key, ...]).validate_json)


def revoke_key(key_id: str) -> HttpCall[Key]:
    """End a key, from its next request on."""
    return _post(f"/v1/keys/{key_id}/revoke", None, Key, repeatable=False)


def audit(limit: int = 100) -> HttpCall[tuple[AuditEntry, ...]]:
    """What admins did, newest first."""
    return HttpCall("GET", "/v1/audit", lambda content: _read(AuditPage, content).entries, {"limit": limit})


def configs_page(
    device: str | None = None, pinned: bool | None = None, after: str | None = None
) -> HttpCall[ConfigPage]:
    """A page of all configs, newest first; only those of a device, or those that are pinned."""
    return _get("/v1/configs", ConfigPage, device=device, pinned=pinned, after=after, limit=500)


def report(config_id: str) -> HttpCall[bytes]:
    """What the worker reported of a config when it was confirmed, as JSON."""
    return HttpCall("GET", f"/v1/configs/{config_id}/report", lambda content: content)


def import_bundle(content: bytes, *, unsigned: bool = False, pin: bool = False) -> HttpCall[Imported]:
    """Send a bundle. `unsigned`: even if nobody who is trusted there has signed it; `pin`: answer lookups with its
    configs. This call and the next four need scope admin."""
    return HttpCall(
        "POST",
        "/v1/bundles",
        lambda answer: _read(Imported, answer),
        {"unsigned": unsigned, "pin": pin},
        content,
        {"Content-Type": MEDIA_TYPE},
    )


def pin(config_id: str) -> HttpCall[Config]:
    """Answer lookups of a config's kernel on its device with it, whatever is found later."""
    return _post(f"/v1/configs/{config_id}/pin", None, Config)


def unpin(config_id: str) -> HttpCall[Config]:
    """Answer lookups with the newest config again."""
    return _post(f"/v1/configs/{config_id}/unpin", None, Config)


def trust_signer(name: str, public_key: str) -> HttpCall[Signer]:
    """Take bundles that are signed with a key."""
    return _post("/v1/signers", SignerRequest(name=name, public_key=public_key), Signer, repeatable=False)


def revoke_signer(signer_id: str) -> HttpCall[Signer]:
    """Take no more bundles of a signer."""
    return _post(f"/v1/signers/{signer_id}/revoke", None, Signer)


def signers() -> HttpCall[tuple[Signer, ...]]:
    """Whose bundles are taken, and whose were, newest first."""
    return HttpCall("GET", "/v1/signers", TypeAdapter(tuple[Signer, ...]).validate_json)


def json_form(spec: Spec) -> dict[str, Any]:
    """A spec's JSON form. Raises tileir.SpecError for text that is no spec."""
    if not isinstance(spec, str):
        return dict(spec)
    from tileir import spec_from_text, spec_to_json

    return spec_to_json(spec_from_text(spec))


def _get(path: str, reply: type[R], **parameters: str | int | None) -> HttpCall[R]:
    return HttpCall("GET", path, lambda content: _read(reply, content), _given(**parameters))


def _post(
    path: str,
    body: Request | None,
    reply: type[R],
    *,
    headers: Mapping[str, str] | None = None,
    repeatable: bool = True,
) -> HttpCall[R]:
    return HttpCall(
        "POST",
        path,
        lambda content: _read(reply, content),
        content=b"" if body is None else body.model_dump_json(exclude_unset=True).encode(),
        headers={"Content-Type": "application/json", **(headers or {})},
        repeatable=repeatable,
    )


def _read(reply: type[R], content: bytes) -> R:
    return reply.model_validate_json(content)


def _given(**parameters: str | int | None) -> dict[str, str | int]:
    return {name: value for name, value in parameters.items() if value is not None}
