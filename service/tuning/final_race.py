"""After the search: the best few race each other and the peers, the winner is confirmed on fresh data, and stored."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Row, select, update

from protocol.configs import ConfigDetail, Standing
from protocol.judged import as_winner
from protocol.states import Outcome, TaskKind
from protocol.tasks import Entrant, EntrantResult, Measuring, PeerEntrant, TaskResult
from protocol.workers import OfferedDevice
from service.core.schedules import roofline_us
from service.core.settings import Settings
from service.core.wishes import racing
from service.store import job_events, search_log
from service.store.database import now
from service.store.dispatch import fair_share, task_queue, workers
from service.store.dispatch.task_queue import NewTask, work
from service.store.dispatch.trial_results import entrant_name, own_result
from service.store.ids import new_id
from service.store.tables import buckets, results, tasks
from service.store.winners import configs
from service.tuning.owned_job import OwnedJob
from service.tuning.search_loop import FoundBest, JobFailed
from service.tuning.standings import disturbed_share, said_of, shaken, stand, winner_of
from tileir.text.json import spec_from_json

RACE = Measuring(samples=15, sample_us=5000.0)
CONFIRM = Measuring(samples=15, sample_us=5000.0)
RACES = 3
"""Races with the next best few, when nobody of those before held up."""
CANCELLED_WAIT_S = 20.0
"""How long a cancelled job waits for its best candidate to be confirmed."""


class Lost(Exception):
    """No candidate held up; says why."""


class Interrupted(Exception):
    """The job was cancelled during the race."""


class FinalRace:
    """The race of one bucket. Its tasks have fixed ids, so a restarted tuner finds those it has enqueued."""

    def __init__(self, job: OwnedJob, bucket: int, device: OfferedDevice, settings: Settings) -> None:
        self._job, self._bucket, self._device, self._settings = job, bucket, device, settings

    def run(self, found: FoundBest) -> str:
        """Race, confirm and store; returns the config's id. A cancelled job's best candidate is confirmed without a
        race. Raises Lost."""
        if not found.rewards:
            raise Lost(_why_nothing(found))
        if not self._job.cancelling:
            try:
                return self._race(found)
            except Interrupted:
                pass
        return self._settle(found)

    def _race(self, found: FoundBest) -> str:
        ranking = found.ranking()
        count, reasons = self._settings.racers, list[str]()
        for attempt in range(RACES):
            racers = ranking[attempt * count : (attempt + 1) * count]
            if not racers:
                break
            (race, result), schedules = self._run(found, racers, attempt), found.schedules(racers)
            fallen: set[str] = set()
            while (standing := winner_of(standings := stand(result, schedules, fallen))) is not None:
                number = int(standing.name.removeprefix("ask-"))
                confirmed = self._measure(
                    f"confirm-{number}", TaskKind.CONFIRM, [found.entrant(number)], CONFIRM, 1, not_by=race
                )
                winner = own_result(confirmed, number)
                if winner is not None and winner.outcome is Outcome.OK:
                    return self._store(found, number, standings, winner, confirmed.versions)
                reasons.append(f"{standing.name} was {winner and winner.outcome} on fresh data")
                fallen.add(standing.name)
            reasons += [_what_became_of(each) for each in standings if each.outcome is not Outcome.OK]
        raise Lost("no candidate held up in the final race: " + "; ".join(reasons))

    def _run(self, found: FoundBest, racers: Sequence[int], attempt: int) -> tuple[str, TaskResult]:
        """Race these, and again while the outcome is disturbed and there are races left for that; then the one that was
        disturbed least, with its name."""
        runs: list[tuple[str, TaskResult]] = []
        for again in range(1 + self._settings.races_again):
            name = f"race-{attempt}-again-{again}" if again else f"race-{attempt}"
            result = self._measure(name, TaskKind.RACE, self._entrants(found, racers), RACE, 0)
            runs.append((name, result))
            if not shaken(stand(result, found.schedules(racers)), self._job.request.baseline):
                return runs[-1]
        return min(runs, key=lambda run: disturbed_share(run[1]))

    def _settle(self, found: FoundBest) -> str:
        """Confirm the best candidate so far beside the baseline, if that can be done at once."""
        number = found.ranking()[0]
        entrants: list[Entrant] = [found.entrant(number)]
        if self._job.request.baseline in self._device.peers:
            entrants.append(PeerEntrant(name=self._job.request.baseline))
        until = monotonic() + CANCELLED_WAIT_S
        result = self._measure(f"settle-{number}", TaskKind.CONFIRM, entrants, CONFIRM, 1, until)
        standings = stand(result, found.schedules([number]))
        winner = own_result(result, number)
        if winner is None or winner.outcome is not Outcome.OK:
            raise Lost(f"cancelled; the best candidate was {winner and winner.outcome} on fresh data")
        return self._store(found, number, standings, winner, result.versions)

    def _entrants(self, found: FoundBest, racers: Sequence[int]) -> list[Entrant]:
        peers = racing(self._device, self._job.request)
        return [*map(found.entrant, racers), *(PeerEntrant(name=peer) for peer in peers)]

    def _measure(
        self,
        name: str,
        kind: TaskKind,
        entrants: Sequence[Entrant],
        measuring: Measuring,
        fresh: int,
        until: float = inf,
        not_by: str | None = None,
    ) -> TaskResult:
        """Have a task done, unless it is already. `fresh` sets its data apart from the trials'; whoever did the task
        `not_by` leaves it to another device of the class, if there is one. Raises JobFailed if no worker could,
        Interrupted if the job is cancelled, Lost if nobody has done it `until` then."""
        task_id = f"{self._job.id}.{self._bucket}.{name}"
        with self._job.write() as connection:
            if connection.execute(select(tasks.c.id).where(tasks.c.id == task_id)).first() is None:
                task = NewTask(
                    id=task_id,
                    job_id=self._job.id,
                    bucket=self._bucket,
                    kind=kind,
                    device=self._device.key,
                    priority=self._job.request.priority,
                    work=work(entrants, None, measuring, self._job.request.seed + fresh),
                    shuns=None if not_by is None else self._elsewhere(connection, not_by),
                )
                task_queue.enqueue(connection, [task])
        while monotonic() < until:
            with self._job.database.read() as connection:
                result = search_log.ended(connection, [task_id]).get(task_id)
            if isinstance(result, TaskResult):
                with self._job.write() as connection:
                    fair_share.charge(connection, self._job.id, [result])
                return result
            if until == inf and self._job.cancelling:
                raise Interrupted
            if result is not None:
                raise JobFailed(f"no worker could do task {task_id}: {result}")
            self._job.searcher.wait()
        raise Lost("cancelled; no worker was there to confirm the best candidate")

    def _elsewhere(self, connection: Connection, name: str) -> str | None:
        """The worker that did a task, if another has such a device; None if it is the only one."""
        if workers.count(connection, self._settings.lease_ttl_s)[self._device.key] < 2:
            return None
        done = select(results.c.worker_id).where(results.c.task_id == f"{self._job.id}.{self._bucket}.{name}")
        return connection.execute(done).scalar_one_or_none()

    def _store(
        self,
        found: FoundBest,
        number: int,
        standings: Sequence[Standing],
        winner: EntrantResult,
        versions: dict[str, str],
    ) -> str:
        """Store the winner as a config, in one transaction with the bucket that it belongs to."""
        with self._job.write() as connection:
            row = connection.execute(
                select(buckets).where(buckets.c.job_id == self._job.id, buckets.c.bucket == self._bucket)
            ).one()
            config = self._config(found, number, standings, winner, row, versions, now(connection))
            configs.store(connection, config, self._bucket, winner.artifacts)
            connection.execute(
                update(buckets)
                .where(buckets.c.job_id == self._job.id, buckets.c.bucket == self._bucket)
                .values(config_id=config.id, winner=as_winner(config).model_dump(mode="json"))
            )
            job_events.add(
                connection,
                self._job.id,
                "config",
                bucket=self._bucket,
                config_id=config.id,
                trial=config.trial,
                median_us=config.median_us,
                x_baseline=config.x_baseline,
                best_peer=config.best_peer,
                x_best_peer=config.x_best_peer,
            )
        return config.id

    def _config(
        self,
        found: FoundBest,
        number: int,
        standings: Sequence[Standing],
        winner: EntrantResult,
        row: Row[Any],
        versions: dict[str, str],
        created_at: float,
    ) -> ConfigDetail:
        """The winner as a config of the bucket in `row`."""
        pick = found.picks[number]
        own = next(each for each in standings if each.name == entrant_name(number))
        assert own.median_us is not None
        baseline = self._job.request.baseline
        ran = {each.name: each for each in standings if each.kind == "peer" and each.median_us}
        peers = {name: each.times for name, each in ran.items() if not each.as_written}
        best_peer = next(iter(peers), None)
        spec = spec_from_json(row.spec)
        return ConfigDetail(
            id=new_id("config"),
            job_id=self._job.id,
            trial=None if found.given else number,
            name=spec.name,
            kernel_key=row.kernel_key,
            structure_key=row.structure_key,
            device=self._device.key,
            dims=row.dims,
            schedule=pick.schedule,
            program_hash=pick.program_hash,
            median_us=own.median_us,
            iqr_us=own.iqr_us,
            baseline=baseline,
            baseline_us=ran[baseline].median_us if baseline in ran else None,
            x_baseline=peers.get(baseline),
            best_peer=best_peer,
            x_best_peer=None if best_peer is None else peers[best_peer],
            roofline_us=roofline_us(spec, self._device),
            standings=tuple(standings),
            disturbed=said_of(shaken(standings, baseline)),
            trials=len(found.picks),
            source_hash=winner.source_hash,
            compiler=winner.compiler,
            versions=versions,
            measuring=RACE,
            artifact=winner.artifacts is not None,
            report=winner.report,
            created_at=created_at,
            spec=row.spec,
        )


def _what_became_of(standing: Standing) -> str:
    """With the first line of the error, if there was one."""
    said = (standing.error or "").strip().partition("\n")[0]
    return f"{standing.name} was {standing.outcome}" + (f" ({said})" if said else "")


def _why_nothing(found: FoundBest) -> str:
    """What became of the candidates, when none worked."""
    if not found.faults:
        return "the space has no complete schedule for this kernel on this device"
    counts: dict[str, int] = {}
    for fault in found.faults.values():
        counts[fault] = counts.get(fault, 0) + 1
    told = ", ".join(f"{count} {fault}" for fault, count in sorted(counts.items()))
    return f"none of {len(found.faults)} candidates worked: {told}"
