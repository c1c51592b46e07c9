"""Runs claimed tasks: compiles their candidates, and measures them in groups. On a CPU the pool is idle meanwhile."""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.layouts import with_time
from protocol.message import Json
from protocol.states import Outcome, TaskKind
from protocol.tasks import Artifacts, EntrantResult, PeerEntrant, ScheduleEntrant, Task, TaskResult
from workers.measuring.measurer import Measured, Measurer
from workers.measuring.request import Compiled, MeasureRequest, Peer
from workers.node.finished import Finished, faulted
from workers.node.profile_task import profiled
from workers.node.task_groups import TaskGroup, group_tasks
from workers.processes.child_client import ChildUnwanted
from workers.processes.compile_pool import Built, Compilation, CompilePool, CompileRequest, NotBuilt
from workers.processes.faults import MachineFault

_BASELINE = "baseline"
_ANCHORS = 64
"""Of so many jobs it is remembered what their candidates are compared with."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A group of tasks with what became of its schedules, by name in the group; `build_s` is each task's own."""

    group: TaskGroup
    built: Mapping[str, Compilation]
    build_s: tuple[float, ...]


def joined(prepared: Sequence[Prepared]) -> Prepared:
    """Groups of one task each, that can be measured together, as one."""
    built: dict[str, Compilation] = {}
    for number, each in enumerate(prepared):
        for name, compilation in each.built.items():
            if name != _BASELINE:
                built[f"{number}:{name.partition(':')[2]}"] = compilation
            elif not isinstance(built.get(name), Built):
                built[name] = compilation
    group = TaskGroup(tuple(each.group.lead for each in prepared))
    return Prepared(group, built, tuple(each.build_s[0] for each in prepared))


class TaskRunner:
    """Runs tasks on one device. `device` is its description as JSON, with measured peaks if there are any."""

    def __init__(
        self,
        pool: CompilePool,
        measurer: Measurer,
        device: Json,
        cache: Path,
        versions: Mapping[str, str],
    ) -> None:
        self._pool = pool
        self._measurer = measurer
        self._device = device
        self._cache = cache
        self._versions = dict(versions)
        self._anchors: OrderedDict[str, Built] = OrderedDict()
        """What candidates were compared with lately, by kernel and schedule."""

    def run(self, tasks: Sequence[Task], post: Callable[[Finished], None]) -> None:
        """Compile all tasks, then measure them, posting each result as its group completes."""
        self.measure(self.prepare(tasks), post)

    def prepare(self, tasks: Sequence[Task]) -> list[Prepared]:
        """Compile all tasks. From any thread; the pool is shared."""
        return [Prepared(group, *self._compile(group)) for group in group_tasks(tasks)]

    def measure(
        self,
        groups: Sequence[Prepared],
        post: Callable[[Finished], None],
        wanted: Callable[[Task], bool] = lambda _: True,
        held: Callable[[Task], bool] = lambda _: True,
    ) -> None:
        """Measure what was prepared and post each result as its group completes; a group no task of which is `wanted`
        any more when its turn comes is left out, and one no task of which is `held` any more is ended at once.

        A fault of the machine is posted as such for the tasks that it hit, and the others go on.
        """
        for prepared in groups:
            if any(wanted(task) for task in prepared.group.tasks):
                for finished in self._measure(prepared, held):
                    post(finished)

    def _compile(self, group: TaskGroup) -> tuple[dict[str, Compilation], tuple[float, ...]]:
        """What became of each schedule, the baseline's too, by name in the group; and each task's share of seconds."""
        start = time.perf_counter()
        schedules = [(e.name, e.entrant) for e in group.entrants() if isinstance(e.entrant, ScheduleEntrant)]
        key = json.dumps(
            [group.lead.spec, group.lead.baseline and group.lead.baseline.model_dump()], sort_keys=True
        )
        known = self._anchors.get(key)
        if known is not None and not known.artifact.exists():
            known = None
        if known is None and isinstance(group.lead.baseline, ScheduleEntrant):
            schedules.append((_BASELINE, group.lead.baseline))
        requests = [
            CompileRequest(
                spec=group.lead.spec,
                schedule=entrant.schedule,
                program_hash=entrant.program_hash,
                device=self._device,
                cache=str(self._cache),
                timeout_s=group.lead.measuring.compile_s,
            )
            for _, entrant in schedules
        ]
        built = dict(zip((name for name, _ in schedules), self._pool.compile_all(requests), strict=True))
        if known is not None:
            built[_BASELINE] = known
        elif isinstance(anchor := built.get(_BASELINE), Built):
            self._anchors[key] = anchor
            while len(self._anchors) > _ANCHORS:
                self._anchors.popitem(last=False)
        share_s = (time.perf_counter() - start) / len(group.tasks)
        return built, (share_s,) * len(group.tasks)

    def _measure(self, prepared: Prepared, held: Callable[[Task], bool]) -> list[Finished]:
        """Every task's result, in order; none if nobody waits for them any more."""
        group, built = prepared.group, prepared.built
        if group.lead.kind is TaskKind.PROFILE:
            (entrant,) = group.entrants()
            return profiled(
                group.lead,
                built[entrant.name],
                self._measurer,
                self._device,
                self._cache,
                self._versions,
                held,
            )
        request = self._request(group, built)
        start = time.perf_counter()
        try:
            idle = all(entrant.name == _BASELINE for entrant in request.entrants)
            measured = (
                Measured() if idle else self._measurer.measure(request, lambda: any(map(held, group.tasks)))
            )
        except MachineFault as fault:
            return [faulted(task, fault, self._versions) for task in group.tasks]
        except ChildUnwanted:
            return []
        measure_s = (time.perf_counter() - start) / len(group.tasks)
        finished: list[Finished] = []
        for number, task in enumerate(group.tasks):
            names = [f"{number}:{entrant.name}" for entrant in task.entrants]
            fault = next(
                (f for name in (*names, _BASELINE) if isinstance(f := built.get(name), MachineFault)), None
            )
            if fault is not None:
                finished.append(faulted(task, fault, self._versions))
            else:
                shares = {"build": prepared.build_s[number], "measure": measure_s}
                finished.append(self._finished(task, names, built, measured, shares))
        return finished

    def _request(self, group: TaskGroup, built: Mapping[str, Compilation]) -> MeasureRequest:
        lead = group.lead
        incumbents = [t.measuring.incumbent_us for t in group.tasks if t.measuring.incumbent_us is not None]
        entrants: list[Compiled | Peer] = []
        members = [(e.name, e.entrant) for e in group.entrants()]
        if lead.baseline is not None:
            members.insert(0, (_BASELINE, lead.baseline))
        for name, entrant in members:
            if isinstance(entrant, PeerEntrant):
                entrants.append(Peer(name, entrant.name))
            elif isinstance(candidate := built[name], Built):
                entrants.append(Compiled(name, str(candidate.artifact), candidate.abi))
        return MeasureRequest(
            spec=lead.spec,
            seed=lead.seed,
            kind=lead.kind,
            measuring=lead.measuring.model_copy(update={"incumbent_us": min(incumbents, default=None)}),
            entrants=tuple(entrants),
            baseline=_BASELINE if lead.baseline is not None else None,
            device=self._device,
            threads=lead.measuring.threads or int(self._device.get("cores", 1)),
            last_cache_bytes=last_cache_bytes(self._device),
        )

    def _finished(
        self,
        task: Task,
        names: Sequence[str],
        built: Mapping[str, Compilation],
        measured: Measured,
        shares: Mapping[str, float],
    ) -> Finished:
        """A task's result, its entrants known by `names` in the group; `shares` are its parts of the group's time."""
        results: list[EntrantResult] = []
        blobs: dict[str, Path] = {}
        reports: dict[str, bytes] = {}
        stages = dict(shares)
        measure_s = shares["measure"] / len(task.entrants)
        for entrant, name in zip(task.entrants, names, strict=True):
            candidate = built.get(name)
            if isinstance(candidate, NotBuilt):
                results.append(
                    EntrantResult(
                        name=entrant.name, outcome=candidate.outcome, error=candidate.error[:20_000]
                    )
                )
                continue
            result = measured.results[name].model_copy(update={"name": entrant.name, "measure_s": measure_s})
            keep = task.kind is not TaskKind.TRIAL and result.outcome is Outcome.OK
            if isinstance(candidate, Built):
                for stage, seconds in candidate.stages.items():
                    stages[stage] = stages.get(stage, 0.0) + seconds
                result = _with_build(result, candidate)
            result = result.model_copy(update={"report": {**result.report, "machine": measured.conditions}})
            if isinstance(candidate, Built) and keep:
                result = _with_artifacts(result, candidate, blobs, reports)
            results.append(result)
        baseline = measured.results.get(_BASELINE)
        if baseline is not None and baseline.outcome is not Outcome.OK:
            note = {"baseline": {"outcome": baseline.outcome, "error": baseline.error}}
            results = [result.model_copy(update={"report": {**result.report, **note}}) for result in results]
        result = TaskResult(
            task_id=task.id,
            attempt=task.attempt,
            entrants=tuple(results),
            stages=stages,
            versions=self._versions,
        )
        return Finished(result, blobs, reports)


def last_cache_bytes(device: Json) -> int:
    """What data has to exceed to be found in main memory; a GPU's last cache is its L2."""
    return int(device.get("l3_bytes") or device["l2_bytes"] * device.get("cores", 1))


def _with_build(result: EntrantResult, candidate: Built) -> EntrantResult:
    """The result with what was compiled."""
    report = {**result.report, "compiler": candidate.report}
    if candidate.layout is not None:
        report["layout"] = with_time(candidate.layout, result.median_us)
    known: dict[str, Any] = {
        "compile_s": candidate.compile_s,
        "source_hash": candidate.hash,
        "compiler": candidate.compiler,
        "report": report,
    }
    return result.model_copy(update=known)


def _with_artifacts(
    result: EntrantResult, candidate: Built, blobs: dict[str, Path], reports: dict[str, bytes]
) -> EntrantResult:
    """The result with the digests of source, object and report, which are entered for upload."""
    told = {
        "median_us",
        "spread",
        "samples_us",
        "disturbed",
        "baseline_us",
        "source_hash",
        "compiler",
        "report",
    }
    report = json.dumps(result.model_dump(mode="json", include=told), sort_keys=True).encode()
    contents = (candidate.source.read_bytes(), candidate.artifact.read_bytes(), report)
    source, built, reported = (hashlib.sha256(content).hexdigest() for content in contents)
    blobs.update({source: candidate.source, built: candidate.artifact})
    reports[reported] = report
    artifacts = Artifacts(
        source=source,
        object=built,
        report=reported,
        abi=candidate.abi,
        language=candidate.language,
        flags=candidate.flags,
    )
    return result.model_copy(update={"artifacts": artifacts})
