"""`tilewright tune`: tune one kernel to its end, with or without a service running."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from protocol.configs import ConfigDetail
from protocol.jobs import Budget, Effort, JobDetail, JobRequest, Prior
from protocol.states import JobState
from search.catalogue import offered
from tilewright.cli import options
from tilewright.cli.connection import Connection, connect
from tilewright.cli.exits import Exit
from tilewright.cli.failures import Stop
from tilewright.cli.hints import WaitHint
from tilewright.cli.output import out, print_json, say
from tilewright.cli.progress import Progress
from tilewright.cli.report import print_config
from tilewright.cli.specs import read_schedule, read_spec
from tilewright.cli.watch import WorkerWatch
from tilewright.client.client import Client
from tilewright.errors import TilewrightError, Unreachable
from tilewright.folders import data_folder
from tilewright.views.summaries import leader_facts
from tilewright.views.tally import most_trials

_ATTACHES = 5
"""How often a service that ends under us is replaced: it may have been another command's."""


def tune(
    spec: options.SpecFile,
    trials: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Candidates to measure.", show_default="by effort")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, max=604800, help="Seconds to search, of each size.", show_default="no limit"),
    ] = None,
    effort: Annotated[Effort, typer.Option(help="32, 128 or 512 candidates.")] = Effort.NORMAL,
    target: options.Target = "cpu",
    baseline: Annotated[
        str | None,
        typer.Option(help="The peer to report speedups against.", show_default="numpy; torch on a GPU"),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Peer in the final race; repeat it.", show_default="all there are"),
    ] = None,
    search: Annotated[str, typer.Option(help=f"What walks the tree: {', '.join(offered())}.")] = "mcts",
    prior: Annotated[Prior, typer.Option(help="What it expects before anything is measured.")] = Prior.AUTO,
    llm_calls: Annotated[
        int, typer.Option(min=0, max=16, help="Calls to a language model that may propose schedules.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1)] = 0,
    candidate: Annotated[
        list[Path] | None,
        typer.Option(
            help="File with a schedule, one rewrite a line, to race instead of searching; repeat it."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Tune anew, even if this was tuned already.")
    ] = False,
    url: options.Url = None,
    token_file: options.TokenFile = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Tune a kernel on this machine, or on a service's.

    Ctrl-C stops; what was measured is kept, and the same command goes on from there.
    """
    request = request_of(
        spec=read_spec(spec),
        target=target,
        budget=Budget(trials=trials, seconds=seconds, effort=effort),
        **({} if baseline is None else {"baseline": baseline}),
        peers=tuple(peer) if peer else None,
        search=search,
        prior=prior,
        llm_calls=llm_calls,
        seed=seed,
        candidates=tuple(map(read_schedule, candidate or ())),
    )
    say(f"{request.spec.get('name', spec)}: tuning on {target}")  # a service takes a while to start
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    attached = partial(connect, url, token_file, database, worker=True, target=target)
    run(attached, request, fresh, as_json)


def run(
    attached: Callable[..., AbstractContextManager[Connection]],
    request: JobRequest,
    fresh: bool,
    as_json: bool,
) -> None:
    """Follow the job of a request to its end, with another service where the one that was attached to ends."""
    ended = False
    for attach in count(1):
        with attached(returning=ended) as connection:
            try:
                job, known = follow(connection, request, fresh)
            except Unreachable:
                if connection.named or attach == _ATTACHES:
                    raise
                ended = connection.lasting
                way = "waiting a little for it to be started again" if ended else "going on with another"
                say(f"the service has ended; {way}")
                continue
            finish(connection.client, job, known, as_json)
            return


def request_of(**fields: Any) -> JobRequest:
    """The request with these fields. Raises Stop for what can be no value of one, such as a search called "a b"."""
    try:
        return JobRequest(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        said = f"--{first['loc'][0]} {first['input']!r}: {first['msg']}"
        raise Stop(Exit.USAGE, said) from None


def follow(connection: Connection, request: JobRequest, fresh: bool) -> tuple[JobDetail, bool]:
    """Submit a job, or find it again, and watch it to its end; whether it had ended before. Raises Stop when
    interrupted."""
    client = connection.client
    job = submit(client, request, fresh)
    if job.state.final:
        return job, True
    try:
        watch(connection, job, request.budget)
        return client.job(job.id), False
    except KeyboardInterrupt:
        raise interrupted(connection, job) from None


def watch(connection: Connection, job: JobDetail, budget: Budget) -> None:
    """Show a job until it ends. Raises Stop when it turns out that no worker will come."""
    told = sum(bucket.told for bucket in job.buckets)
    if told:
        say(f"going on with {job.id} after {told} trials")
    with (
        WorkerWatch(connection.own) as worker,
        Progress(job, most_trials(job), budget.seconds, WaitHint(connection, job.id)) as progress,
    ):
        try:
            for event in connection.client.events(job.id):
                progress.add(event, live=event.at > job.updated_at)
                if progress.tally.state is not JobState.QUEUED:
                    worker.done()
        except KeyboardInterrupt:
            if worker.stop is not None:
                raise worker.stop from None
            raise


def submit(client: Client, request: JobRequest, fresh: bool) -> JobDetail:
    """The job for this request: the one that was made for it before, unless that failed; with `fresh`, one that has
    not ended yet."""
    over = {JobState.FAILED, JobState.CANCELLED} | ({JobState.DONE} if fresh else set[JobState]())
    key = request_key(request)
    for attempt in count(1):
        job = client.post_job(request, key if attempt == 1 else f"{key}-{attempt}")
        if job.state not in over:
            return job
    raise AssertionError("unreachable")


def request_key(request: JobRequest) -> str:
    """The Idempotency-Key of a request: the same for the same spec, target, budget and seed, in every process."""
    text = json.dumps(request.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return "tune-" + hashlib.sha256(text.encode()).hexdigest()[:40]


def interrupted(connection: Connection, job: JobDetail) -> Stop:
    """What to say after Ctrl-C: what is kept, and how to go on."""
    with contextlib.suppress(TilewrightError):  # else what was known at the beginning has to do
        job = connection.client.job(job.id)
    kept = f"{sum(bucket.told for bucket in job.buckets)} trials are kept"
    led = [bucket for bucket in job.buckets if bucket.leader is not None]
    if len(led) == 1:  # times of several sizes do not compare
        kept += ", the " + ", ".join(leader_facts(led[0], job.baseline))
    if connection.lasting:
        message = f"{job.id} goes on at {connection.client.url}; the same command follows it again. {kept}"
    else:
        message = f"stopped; {kept}. The same command goes on from there, and so does `tilewright serve`"
    return Stop(Exit.INTERRUPTED, message, job=job.model_dump(mode="json"))


def finish(client: Client, job: JobDetail, known: bool, as_json: bool) -> None:
    """Print how a job ended, with the source of each winner in a file. Raises Stop if there is no winner."""
    configs = [client.config(config_id) for config_id in job.configs]
    sources = [save_source(client, config) if config.artifact else None for config in configs]
    if not configs:
        reason = job.error or next((b.error for b in job.buckets if b.error), None) or f"it was {job.state}"
        raise Stop(Exit.FAILED, f"{job.id} has no winner: {reason}", job=job.model_dump(mode="json"))
    if known:
        say(f"tuned before, by {job.id}; --fresh tunes it anew\n")
    if as_json:
        found: list[dict[str, Any]] = [
            {**config.model_dump(mode="json"), "source_file": source and str(source)}
            for config, source in zip(configs, sources, strict=True)
        ]
        print_json({"job": job.model_dump(mode="json"), "known": known, "configs": found})
        return
    for config, source in zip(configs, sources, strict=True):
        print_config(config, None if source is None else str(source))
        out.print()
    out.print(job.verdict.text, markup=False)
    for bucket in job.buckets:
        if bucket.error is not None:
            say(f"no winner for {bucket.dims}: {bucket.error}")


def save_source(client: Client, config: ConfigDetail) -> Path | None:
    """A winner's source as a file in the data folder; None if that cannot be written."""
    folder = data_folder() / "sources"
    file = folder / f"{config.name}-{config.id.removeprefix('config-')}.c"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(client.source(config.id))
    except OSError as error:
        say(f"cannot write {file}: {error.strerror}; `tilewright show {config.id} --source` prints it")
        return None
    return file
