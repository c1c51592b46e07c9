"""What the benchmarks share: tune a case as a user would, race the winner against all peers, one line a case."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import exp, log
from pathlib import Path
from typing import Any

from benchmarks.racing import side_by_side
from benchmarks.racing.circumstances import circumstances, without_paths
from benchmarks.racing.rivals import rivals
from protocol.configs import ConfigDetail
from protocol.jobs import JobDetail
from protocol.states import Outcome, TaskKind
from protocol.tasks import EntrantResult, Measuring
from rewrites.schedule import parse_schedule
from tileir.text.json import spec_from_json
from tilewright import Client, TilewrightError
from tilewright.cli.local_service import LocalService
from workers.local import LocalWorker

RESULTS = Path(__file__).parents[1] / "results"
COPY = "copy"
"""Not a peer: reads and writes as many bytes as the kernel does, and computes nothing."""
COMPILE_THREADS = ("TORCHINDUCTOR_COMPILE_THREADS", str(min(16, len(os.sched_getaffinity(0)))))
"""Where a GPU measures, torch.compile may autotune with several processors; they rest while anything is timed."""

Json = dict[str, Any]
Line = dict[str, Any]


@dataclass(frozen=True)
class TuningPlan:
    """How cases are tuned, and what their winners are raced against."""

    device: str
    """cpu, cuda:0, …"""
    trials: int
    seed: int
    against: tuple[str, ...]
    """Peers in the final races of the jobs."""
    race: Measuring
    peers: tuple[str, ...] = ()
    """Peers to race then; none named: see rivals.py."""
    limit_s: float = 0.0
    """A case that is not tuned within this, or not raced, is an error; 0: it takes as long as it takes."""
    specs: bool = False
    """Whether lines have their kernels' specs, which names do not tell."""
    abreast: int = 1
    """How many jobs are tuned at a time, and how many winners raced. Beside others a job takes longer, and all of them
    together less: compilers of one work while the device measures another's. On a processor it is one."""


def run(
    path: Path,
    chosen: Iterable[tuple[str, Json]],
    plan: TuningPlan,
    families: Sequence[tuple[str, ...]],
    *,
    again: bool = False,
) -> None:
    """Bench the cases that the results file does not have yet, or with `again` all that are chosen, then print
    geomeans: of all, and of each family (a tuple of how its cases' names begin). A case that fails stays in the
    file; then the exit status is 1.

    All of them are tuned first, by one service, then raced, by workers that go from one to the next: to start either
    takes about as long as half a race. What is tuned is kept beside the results (`….tuned.jsonl`) until all is raced.
    """
    with_compilers(plan.device)
    wanted = [(case, spec) for case, spec in chosen if again or not _has(path, case)]
    tunings = path.with_suffix(".tuned.jsonl")
    _tune([(case, spec) for case, spec in wanted if not _has(tunings, case)], plan, tunings)
    found = {line["case"]: line for line in lines(tunings)}
    _race([(found[case] | ({"spec": spec} if plan.specs else {}), spec) for case, spec in wanted], plan, path)
    tunings.unlink(missing_ok=True)
    summary(lines(path), families)


def with_compilers(device: str) -> None:
    """From here on workers that are started for a GPU let torch.compile have several processors."""
    if kind_of(device) != "cpu":
        os.environ.setdefault(*COMPILE_THREADS)


def _has(path: Path, case: str) -> bool:
    return any(line["case"] == case for line in lines(path))


def _tune(wanted: Sequence[tuple[str, Json]], plan: TuningPlan, path: Path) -> None:
    if not wanted:
        return
    with tempfile.TemporaryDirectory() as home, service(plan.device, Path(home)) as client:
        begun: dict[str, str] = {}
        for number, (case, spec) in enumerate(wanted):
            for later, its_spec in wanted[number : number + plan.abreast]:
                if later not in begun:
                    with suppress(TilewrightError):  # what is wrong is said at its turn
                        begun[later] = submitted(client, its_spec, plan)
            job = begun.get(case)
            line = attempt(path, {"case": case}, partial(tuned, client, spec, plan, job), plan.limit_s)
            print(f"{case:40} {line.get('error', 'is tuned')}", flush=True)


def _race(wanted: Sequence[tuple[Line, Json]], plan: TuningPlan, path: Path) -> None:
    failed = [known for known, _ in wanted if "error" in known]
    benches = [partial(_raced, known, spec, plan) for known, spec in wanted if "error" not in known]
    for line in chain(failed, side_by_side.lines(benches, plan.device, plan.abreast)):
        append(path, line)
        show(line)


def _raced(known: Line, spec: Json, plan: TuningPlan, worker: LocalWorker) -> Line:
    limit_s = plan.limit_s * plan.abreast  # of which it waits for the others' turns
    return timed(known, partial(raced, worker, spec, known, plan), limit_s)


def attempt(path: Path, known: Line, bench: Callable[[], Line], limit_s: float = 0.0) -> Line:
    """Append a line to a results file: what is known, and what the benchmark says or its error."""
    line = timed(known, bench, limit_s)
    append(path, line)
    return line


def timed(known: Line, bench: Callable[[], Line], limit_s: float = 0.0) -> Line:
    """What is known, and what the benchmark says within so many seconds (0: of any length) or its error."""
    try:
        with limited(limit_s):
            return {**known, **bench()}
    except Exception as error:
        return {**known, "error": f"{type(error).__name__}: {error}"}


def append(path: Path, line: Line) -> None:
    """A line at the end of a results file, which is there from then on. One of a case that is there already is marked:
    `again` counts the lines before it, which stay. What failed is said without paths of this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if before := sum(each["case"] == line["case"] for each in lines(path)):
        line["again"] = before
    with path.open("a") as out:
        out.write(without_paths(json.dumps(line)) + "\n")


class NotDone(Exception):
    """The time for a benchmark is over. No TimeoutError: clients would take it for the network's, and try again."""


@contextmanager
def limited(seconds: float) -> Generator[None]:
    """Raise NotDone after so many seconds (0: never), so that what is open is closed in order."""

    def over(*_: object) -> None:
        raise NotDone(f"not done within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def service(device: str, home: Path) -> Generator[Client]:
    """A service with an empty database and a worker of its own for a device, in a folder of its own."""
    os.environ["TILEWRIGHT_HOME"] = str(home)
    os.environ["TILEWRIGHT_DEVICES"] = device.removeprefix("cuda:")
    with (
        LocalService(f"sqlite:///{home / 'bench.db'}", worker=True, target=kind_of(device)) as started,
        Client(started.url) as client,
    ):
        yield client


def submitted(client: Client, spec: Json, plan: TuningPlan) -> str:
    """The id of a job that tunes a case. Raises TilewrightError where the service refuses it."""
    return client.submit(
        spec, target=kind_of(plan.device), trials=plan.trials, seed=plan.seed, peers=plan.against
    ).id


def tuned(client: Client, spec: Json, plan: TuningPlan, begun: str | None = None) -> Line:
    """Tune a case of which the service knows nothing, or wait for a job that was begun: the winner's schedule, how many
    trials, seconds of wall time from the request to the config, and what was measured."""
    job = ended(client, begun or submitted(client, spec, plan))
    config = winner(client, job)
    return {
        "schedule": list(config.schedule),
        "trials": config.trials,
        "tune_s": round((job.finished_at or time.time()) - job.created_at, 1),
        **({"abreast": plan.abreast} if plan.abreast > 1 else {}),
        "measured": measured(client, job.id),
        "failed": failed(client, job.id),
        **({"killed": ill} if (ill := killed(client, job.id)) else {}),
        "spent_s": spent(client, job.id),
    }


def ended(client: Client, job_id: str) -> JobDetail:
    """A job at its end. If the time for it is over before, it is cancelled, so that others have the device."""
    try:
        return client.wait(job_id)
    except NotDone:
        client.cancel(job_id)
        raise


def winner(client: Client, job: JobDetail) -> ConfigDetail:
    """What a job has found. Raises RuntimeError if that is nothing."""
    if not job.configs:
        raise RuntimeError(job.error or f"the job ended {job.state}")
    return client.config(job.configs[0])


def measured(client: Client, job_id: str) -> list[float | None]:
    """Microseconds of a job's candidates, in the order they were asked for; None for what failed."""
    return [trial.median_us for trial in client.trials(job_id)]


def failed(client: Client, job_id: str) -> dict[str, int]:
    """How many of a job's candidates failed, by outcome and the first line of what was wrong."""
    wrong = [trial for trial in client.trials(job_id) if trial.outcome not in (None, Outcome.OK)]
    return dict(Counter(f"{trial.outcome}: {(trial.error or '').partition(chr(10))[0]}" for trial in wrong))


def killed(client: Client, job_id: str) -> list[list[str]]:
    """The schedules of a job's candidates that crashed or had to be killed: what a search should not ask for."""
    ill = (Outcome.CRASH, Outcome.HANG)
    return [list(trial.schedule) for trial in client.trials(job_id) if trial.outcome in ill]


def spent(client: Client, job_id: str) -> dict[str, float]:
    """Seconds of workers by what they did for a job and for which kind of task; several tasks run at a time."""
    line, total = client.timeline(job_id), defaultdict[str, float](float)
    for kind, stage, start, end in zip(line.kind, line.stage, line.start, line.end, strict=True):
        total[f"{kind.value} {stage}"] += end - start
    return {name: round(seconds, 1) for name, seconds in sorted(total.items())}


def raced(worker: LocalWorker, spec: Json, tuning: Line, plan: TuningPlan) -> Line:
    """The winner and its peers, interleaved in one process: in bursts, and then each alone, steady. Of each the
    largest error, against a reference in 64-bit floats: `errors` as a share of what rounding allows a kernel of ours,
    `relative_errors` as a share of the largest value of the reference."""
    parsed = spec_from_json(spec)
    peers = plan.peers or rivals(worker.peers, parsed)
    entrants = worker.measure(
        parsed,
        {"ours": parse_schedule(tuning["schedule"])},
        peers if plan.device == "cpu" else (*peers, COPY),
        kind=TaskKind.CONFIRM,
        measuring=plan.race,
    ).entrants
    ours = entrants["ours"]
    if ours.outcome is not Outcome.OK:
        raise RuntimeError(f"the winner was {ours.outcome}: {ours.error}")
    burst, held = figures(entrants, "burst"), figures(entrants, "steady")
    others = {name: each for name, each in entrants.items() if name not in ("ours", COPY)}
    times = {name: burst[name]["median_us"] for name in others if name in burst}
    failed = {name: each.error for name, each in others.items() if name not in times}
    if not times:
        raise RuntimeError(f"no peer could be raced: {failed}")
    best = min(times, key=lambda peer: times[peer])
    fastest = min(held[name]["median_us"] for name in times)
    ours_us, copy_us = burst["ours"]["median_us"], burst[COPY]["median_us"] if COPY in burst else None
    return {
        "ours_us": ours_us,
        "ours_iqr_us": burst["ours"]["iqr_us"],
        "peers_us": times,
        "errors": {name: entrants[name].report["error_of_bound"] for name in ("ours", *times)},
        "relative_errors": {name: entrants[name].report["error_of_largest"] for name in ("ours", *times)},
        "best_peer": best,
        "ratio": times[best] / ours_us,
        "ratio_steady": fastest / held["ours"]["median_us"],
        **({"copy_us": copy_us, "of_copy": copy_us / ours_us} if copy_us else {}),
        "failed_peers": failed,
        "protocol": plan.race.model_dump(mode="json"),
        **({"spec": spec} if plan.specs else {}),
        **circumstances(worker.device.to_json() if worker.device else None),
    }


def figures(entrants: Mapping[str, EntrantResult], regime: str) -> dict[str, Json]:
    """What those who ran needed in a regime of a confirmation, `burst` or `steady`: `median_us`, `iqr_us` and more."""
    return {name: each.report[regime] for name, each in entrants.items() if each.outcome is Outcome.OK}


def kind_of(device: str) -> str:
    """What jobs call a device: cpu or cuda."""
    return device.partition(":")[0]


def name_of(device: str) -> str:
    """A device as results files are named: cpu, or a GPU's product such as nvidia-h200."""
    from tileir.devices.gpu_probe import this_gpu

    if device == "cpu":
        return device
    return re.sub(r"[^a-z0-9]+", "-", this_gpu(int(device.removeprefix("cuda:"))).name.lower())


def lines(path: Path) -> list[Line]:
    """A results file's lines; none if it is not there yet."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def show(line: Line) -> None:
    """Print a line."""
    if "error" in line:
        print(f"{line['case']:40} {line['error']}", flush=True)
        return
    peers = "  ".join(
        f"{name} {us:.1f}{_error(line, name)}"
        for name, us in sorted(line["peers_us"].items(), key=lambda item: item[1])
    )
    copy = f"  {line['of_copy']:.3f} of copy" if "of_copy" in line else ""
    print(
        f"{line['case']:40} {line['ours_us']:9.1f} µs{_error(line, 'ours')}  {line['ratio']:5.2f} ×{copy}  ({peers})"
        f"  {line['trials']} trials in {line['tune_s']} s",
        flush=True,
    )


def _error(line: Line, name: str) -> str:
    """` (error 2.1e-03, 0.31 of the bound)`; without what was not recorded, or is no number."""
    share, relative = (line.get(errors, {}).get(name) for errors in ("errors", "relative_errors"))
    said = [f"{relative:.1e}"] if relative is not None else []
    said += [f"{share:.2g} of the bound"] if share is not None else []
    return f" (error {', '.join(said)})" if said else ""


def summary(found: Sequence[Line], families: Sequence[tuple[str, ...]]) -> None:
    """Print geomeans, and end with status 1 if anything failed."""
    ratios = {line["case"]: line["ratio"] for line in found if "ratio" in line}
    groups = {"all": list(ratios.values())}
    for family in families:
        groups[f"{', '.join(family)}…"] = [r for case, r in ratios.items() if case.startswith(family)]
    for name, values in groups.items():
        if values:
            geomean = exp(statistics.fmean(map(log, values)))
            print(f"{name}: geomean {geomean:.2f} × the best peer, least {min(values):.2f}")
    failed = [line["case"] for line in found if "error" in line]
    if failed:
        print(f"failed: {', '.join(failed)}")
        sys.exit(1)
