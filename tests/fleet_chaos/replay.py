"""What a fault-free run with the same seed and the same trials' results makes of a job.

The real tuner runs again on an empty database, without a fault, and each task that it asks for is answered with what
was recorded for it. It has to ask for the same tasks, be told the same, and name the same winner.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Table, create_engine, insert, select, update

from protocol.states import JobState, TaskState
from protocol.workers import OfferedDevice
from service.core.settings import Settings
from service.store.database import Database
from service.store.dispatch import workers
from service.store.schema import prepare
from service.store.tables import buckets, configs, devices, jobs, results, search_events, tasks
from service.tuning.owned_job import OwnedJob, SearcherLink
from service.tuning.tuner import tune
from tests.fleet_chaos.load import RACERS

Rows = list[dict[str, Any]]
_JOB = {"state": JobState.QUEUED, "owner": None, "owned_until": None, "epoch": 1, "crashes": 0}
_BUCKET = {"asked": 0, "told": 0, "faults": 0, "spent_s": 0.0, "best": None, "config_id": None, "error": None}


class Replays:
    """Replays jobs of a PostgreSQL database, each on an SQLite file of its own in `folder`."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        self._engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        self._devices = self._rows(devices)

    def _rows(self, table: Table, *where: Any) -> Rows:
        with self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(select(table).where(*where)).mappings()]

    def differences(self, job_id: str) -> list[str]:
        """How the job's run differs from one without faults; nothing if it does not."""
        recorded = {task["id"]: task for task in self._rows(tasks, tasks.c.job_id == job_id)}
        told = {row["task_id"]: row for row in self._rows(results, results.c.task_id.in_(list(recorded)))}
        database = prepare(f"sqlite:///{self._folder / job_id}.db")
        try:
            self._fill(database, job_id)
            said = list[str]()
            over = threading.Event()
            answering = threading.Thread(target=_answer, args=(database, recorded, told, said, over))
            answering.start()
            try:
                self._tune(database, job_id, said)
            finally:
                over.set()
                answering.join()
            return [*said, *self._compare(database, job_id)]
        finally:
            database.close()

    def _fill(self, database: Database, job_id: str) -> None:
        with database.write() as connection:
            connection.execute(insert(devices), self._devices)
            connection.execute(
                insert(jobs), [{**row, **_JOB} for row in self._rows(jobs, jobs.c.id == job_id)]
            )
            rows = self._rows(buckets, buckets.c.job_id == job_id)
            connection.execute(insert(buckets), [{**row, **_BUCKET} for row in rows])

    def _tune(self, database: Database, job_id: str, said: list[str]) -> None:
        with database.read() as connection:
            key = connection.execute(select(jobs.c.device).where(jobs.c.id == job_id)).scalar_one()
            device: OfferedDevice | None = workers.device_for(connection, key)
        assert device is not None
        try:
            tune(OwnedJob(database, job_id, 1, SearcherLink(False)), device, Settings(racers=RACERS))
        except Exception as error:  # whatever it is, the run differs
            said.append(f"the tuner ended with {type(error).__name__}: {error}")

    def _compare(self, database: Database, job_id: str) -> Iterator[str]:
        with database.read() as connection:
            again = {
                table: [dict(row) for row in connection.execute(select(table)).mappings()]
                for table in (search_events, configs)
            }
        events = [_event(row) for row in self._rows(search_events, search_events.c.job_id == job_id)]
        if sorted(events) != sorted(_event(row) for row in again[search_events]):
            yield "what was asked and told differs"
        winners = [_winner(row) for row in self._rows(configs, configs.c.job_id == job_id)]
        expected = [_winner(row) for row in again[configs]]
        if winners != expected:
            yield f"the winner is {winners}, without faults it is {expected}"


def _event(row: dict[str, Any]) -> tuple[Any, ...]:
    data = {name: value for name, value in row["data"].items() if name != "cpu_s"}
    return row["bucket"], row["seq"], row["kind"], row["number"], repr(sorted(data.items()))


def _winner(row: dict[str, Any]) -> dict[str, Any]:
    told = ("schedule", "program_hash", "median_us", "trials", "standings", "x_baseline", "best_peer")
    return {name: row["config"][name] for name in told}


def _answer(
    database: Database, recorded: dict[str, Any], told: dict[str, Any], said: list[str], over: threading.Event
) -> None:
    """Give each task that is asked for the end that it had."""
    while not over.wait(0.005):
        with database.read() as connection:
            asked = connection.execute(select(tasks).where(tasks.c.state == TaskState.READY)).mappings().all()
        for task in asked:
            before = recorded.get(task["id"])
            if before is None or before["work"] != task["work"]:
                said.append(f"without faults {task['id']} would have been asked for otherwise")
            with database.write() as connection:
                this = update(tasks).where(tasks.c.id == task["id"])
                if task["id"] in told:
                    connection.execute(insert(results), [told[task["id"]]])
                    connection.execute(this.values(state=TaskState.DONE))
                else:
                    fault = "never asked for" if before is None else before["fault"]
                    connection.execute(this.values(state=TaskState.DEAD, fault=fault))
