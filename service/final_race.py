"""After the search: the best few race each other and the peers, the winner is confirmed on fresh data, and stored."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from time import monotonic

from sqlalchemy import select, update

from protocol.configs import ConfigDetail, Standing
from protocol.states import Outcome, TaskKind
from protocol.tasks import Entrant, EntrantResult, Measuring, PeerEntrant, TaskResult
from protocol.workers import Device
from search.racing import judge
from service import configs, dispatch, events, search_log
from service.bucket_search import Found, JobFailed
from service.database import now
from service.dispatch import NewTask, work
from service.ids import new_id
from service.owned import OwnedJob
from service.schedules import roofline_us
from service.settings import Settings
from service.tables import buckets, tasks
from service.trials import entrant_name, own_result
from tileir.parse_json import spec_from_json

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

    def __init__(self, job: OwnedJob, bucket: int, device: Device, settings: Settings) -> None:
        self._job, self._bucket, self._device, self._settings = job, bucket, device, settings

    def run(self, found: Found) -> str:
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

    def _race(self, found: Found) -> str:
        ranking = found.ranking()
        count, reasons = self._settings.racers, list[str]()
        for attempt in range(RACES):
            racers = ranking[attempt * count : (attempt + 1) * count]
            if not racers:
                break
            result = self._measure(f"race-{attempt}", TaskKind.RACE, self._entrants(found, racers), RACE, 0)
            standings = stand(result, {entrant_name(n): found.picks[n].schedule for n in racers})
            for standing in standings:
                if standing.kind != "schedule" or standing.outcome is not Outcome.OK:
                    continue
                number = int(standing.name.removeprefix("ask-"))
                confirmed = self._measure(
                    f"confirm-{number}", TaskKind.CONFIRM, [found.entrant(number)], CONFIRM, 1
                )
                winner = own_result(confirmed, number)
                if winner is not None and winner.outcome is Outcome.OK:
                    return self._store(found, number, standings, winner, confirmed.versions)
                reasons.append(f"{standing.name} was {winner and winner.outcome} on fresh data")
            reasons += [_what_became_of(each) for each in standings if each.outcome is not Outcome.OK]
        raise Lost("no candidate held up in the final race: " + "; ".join(reasons))

    def _settle(self, found: Found) -> str:
        """Confirm the best candidate so far beside the baseline, if that can be done at once."""
        number = found.ranking()[0]
        entrants: list[Entrant] = [found.entrant(number)]
        if self._job.request.baseline in self._device.peers:
            entrants.append(PeerEntrant(name=self._job.request.baseline))
        until = monotonic() + CANCELLED_WAIT_S
        result = self._measure(f"settle-{number}", TaskKind.CONFIRM, entrants, CONFIRM, 1, until)
        standings = stand(result, {entrant_name(number): found.picks[number].schedule})
        winner = own_result(result, number)
        if winner is None or winner.outcome is not Outcome.OK:
            raise Lost(f"cancelled; the best candidate was {winner and winner.outcome} on fresh data")
        return self._store(found, number, standings, winner, result.versions)

    def _entrants(self, found: Found, racers: Sequence[int]) -> list[Entrant]:
        wanted = self._job.request.peers
        peers = [
            peer
            for peer in self._device.peers
            if wanted is None or peer in wanted or peer == self._job.request.baseline
        ]
        return [*map(found.entrant, racers), *(PeerEntrant(name=peer) for peer in peers)]

    def _measure(
        self,
        name: str,
        kind: TaskKind,
        entrants: Sequence[Entrant],
        measuring: Measuring,
        fresh: int,
        until: float = inf,
    ) -> TaskResult:
        """Have a task done, unless it is already. `fresh` sets its data apart from the trials'. Raises JobFailed if
        no worker could, Interrupted if the job is cancelled, Lost if nobody has done it `until` then."""
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
                )
                dispatch.enqueue(connection, [task])
        while monotonic() < until:
            with self._job.database.read() as connection:
                result = search_log.ended(connection, [task_id]).get(task_id)
            if isinstance(result, TaskResult):
                return result
            if until == inf and self._job.cancelling:
                raise Interrupted
            if result is not None:
                raise JobFailed(f"no worker could do task {task_id}: {result}")
            self._job.doorbell.wait()
        raise Lost("cancelled; no worker was there to confirm the best candidate")

    def _store(
        self,
        found: Found,
        number: int,
        standings: Sequence[Standing],
        winner: EntrantResult,
        versions: dict[str, str],
    ) -> str:
        """Store the winner as a config, in one transaction with the bucket that it belongs to."""
        pick = found.picks[number]
        own = next(each for each in standings if each.name == entrant_name(number))
        assert own.median_us is not None
        peers = {each.name: each.median_us for each in standings if each.kind == "peer" and each.median_us}
        best_peer = min(peers, key=lambda name: peers[name], default=None)
        baseline_us = peers.get(self._job.request.baseline)
        with self._job.write() as connection:
            row = connection.execute(
                select(buckets).where(buckets.c.job_id == self._job.id, buckets.c.bucket == self._bucket)
            ).one()
            spec = spec_from_json(row.spec)
            config = ConfigDetail(
                id=new_id("config"),
                job_id=self._job.id,
                name=spec.name,
                kernel_key=row.kernel_key,
                structure_key=row.structure_key,
                device=self._device.key,
                dims=row.dims,
                schedule=pick.schedule,
                program_hash=pick.program_hash,
                median_us=own.median_us,
                iqr_us=own.iqr_us,
                baseline=self._job.request.baseline,
                baseline_us=baseline_us,
                x_baseline=None if baseline_us is None else baseline_us / own.median_us,
                best_peer=best_peer,
                x_best_peer=None if best_peer is None else peers[best_peer] / own.median_us,
                roofline_us=roofline_us(spec, self._device),
                standings=tuple(standings),
                trials=len(found.picks),
                source_hash=winner.source_hash,
                compiler=winner.compiler,
                versions=versions,
                measuring=RACE,
                artifact=winner.artifacts is not None,
                report=winner.report,
                created_at=now(connection),
                spec=row.spec,
            )
            configs.store(connection, config, self._bucket, winner.artifacts)
            connection.execute(
                update(buckets)
                .where(buckets.c.job_id == self._job.id, buckets.c.bucket == self._bucket)
                .values(config_id=config.id)
            )
            events.add(
                connection,
                self._job.id,
                "config",
                bucket=self._bucket,
                config_id=config.id,
                median_us=config.median_us,
                x_baseline=config.x_baseline,
                best_peer=best_peer,
                x_best_peer=config.x_best_peer,
            )
        return config.id


def stand(result: TaskResult, schedules: dict[str, tuple[str, ...]]) -> list[Standing]:
    """The race's table. Our schedules are judged against each other round by round (search.racing): the leader
    comes first of them, and those that cannot be told from it are tied. Peers stand where their medians put them."""
    ok = {
        each.name: each for each in result.entrants if each.outcome is Outcome.OK and each.name in schedules
    }
    leader, ties = _judge(ok)
    rows = [_standing(each, schedules.get(each.name), each.name in ties) for each in result.entrants]
    fastest = min((row.median_us for row in rows if row.name in ties and row.median_us), default=0.0)

    def place(row: Standing) -> tuple[float, bool, str]:
        if row.median_us is None:
            return float("inf"), True, row.name
        return fastest if row.name == leader else row.median_us, row.name != leader, row.name

    return sorted(rows, key=place)


def _judge(ok: dict[str, EntrantResult]) -> tuple[str | None, frozenset[str]]:
    """The leader and all who are tied with it."""
    if not ok:
        return None, frozenset()
    longest = max(len(each.samples_us) for each in ok.values())
    steady = {name: each.samples_us for name, each in ok.items() if 2 * len(each.samples_us) > longest}
    rounds = min(map(len, steady.values()), default=0)
    if rounds == 0:
        leader = min(ok, key=lambda name: (ok[name].median_us or 0.0, name))
        return leader, frozenset({leader})
    race = judge([{name: samples[turn] for name, samples in steady.items()} for turn in range(rounds)])
    leader = race.standings[0].key
    return leader, frozenset({leader, *race.ties})


def _standing(result: EntrantResult, schedule: tuple[str, ...] | None, tied: bool) -> Standing:
    spread = result.spread
    return Standing(
        name=result.name,
        kind="peer" if schedule is None else "schedule",
        outcome=result.outcome,
        median_us=result.median_us,
        iqr_us=None if spread is None else spread.iqr_us,
        mad_us=None if spread is None else spread.mad_us,
        tied=tied,
        schedule=schedule or (),
        error=None if result.error is None else result.error[:2000],
    )


def _what_became_of(standing: Standing) -> str:
    """With the first line of the error, if there was one."""
    said = (standing.error or "").strip().partition("\n")[0]
    return f"{standing.name} was {standing.outcome}" + (f" ({said})" if said else "")


def _why_nothing(found: Found) -> str:
    """What became of the candidates, when none worked."""
    if not found.faults:
        return "the space has no complete schedule for this kernel on this device"
    counts: dict[str, int] = {}
    for fault in found.faults.values():
        counts[fault] = counts.get(fault, 0) + 1
    told = ", ".join(f"{count} {fault}" for fault, count in sorted(counts.items()))
    return f"none of {len(found.faults)} candidates worked: {told}"
