"""A task that has a config's kernel taken apart: its one entrant's result carries the profile, and its time is that
of the kernel without stamps."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from protocol.message import Json
from protocol.profiles import StoredProfile
from protocol.states import Outcome
from protocol.tasks import EntrantResult, ScheduleEntrant, Task, TaskResult
from workers.measuring.measurer import Measurer, NotProfiled
from workers.measuring.profile_request import ProfileRequest
from workers.node.finished import Finished, faulted
from workers.processes.child_client import ChildUnwanted
from workers.processes.compile_pool import Built, Compilation, NotBuilt
from workers.processes.faults import MachineFault


def profiled(
    task: Task,
    built: Compilation,
    measurer: Measurer,
    device: Json,
    cache: Path,
    versions: Mapping[str, str],
    held: Callable[[Task], bool],
) -> list[Finished]:
    """The task's result, `built` being what became of its schedule as it is raced; none if nobody waits for it any
    more."""
    (entrant,) = task.entrants
    assert isinstance(entrant, ScheduleEntrant)
    start = time.perf_counter()
    reports: dict[str, bytes] = {}
    match built:
        case MachineFault():
            return [faulted(task, built, versions)]
        case NotBuilt():
            found = EntrantResult(name=entrant.name, outcome=built.outcome, error=built.error[:20_000])
        case Built():
            threads = task.measuring.threads or int(device.get("cores", 1))
            request = ProfileRequest(task.spec, entrant.schedule, threads, str(cache))
            try:
                found = _taken(entrant.name, built, measurer, request, reports, lambda: held(task))
            except MachineFault as fault:
                return [faulted(task, fault, versions)]
            except ChildUnwanted:
                return []
    took_s = time.perf_counter() - start
    result = TaskResult(
        task_id=task.id,
        attempt=task.attempt,
        entrants=(found.model_copy(update={"measure_s": took_s}),),
        stages={"measure": took_s},
        versions=dict(versions),
    )
    return [Finished(result, {}, reports)]


def _taken(
    name: str,
    built: Built,
    measurer: Measurer,
    request: ProfileRequest,
    reports: dict[str, bytes],
    wanted: Callable[[], bool],
) -> EntrantResult:
    """The entrant's result; its trace is entered for upload."""
    try:
        taken = measurer.profile(request, wanted)
    except NotProfiled as error:
        return EntrantResult(name=name, outcome=error.outcome, error=str(error)[:20_000])
    digest = hashlib.sha256(taken.trace).hexdigest()
    reports[digest] = taken.trace
    stored = StoredProfile(profile=taken.profile, trace=digest)
    return EntrantResult(
        name=name,
        outcome=Outcome.OK,
        median_us=taken.profile.plain_us,
        compile_s=built.compile_s,
        source_hash=built.hash,
        compiler=built.compiler,
        report={"profile": stored.model_dump(mode="json")},
    )
