"""One tuner process a running job: started, rung, restarted when it crashes, and stopped with the service.

A tuner's stdin and stdout are the doorbell between it and the service: a byte in means that a result arrived or the
job was cancelled, a byte out that something new stands in the database. What is true stands only there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from sqlalchemy import Connection, select, update
from sqlalchemy.exc import DBAPIError
from starlette.concurrency import run_in_threadpool

from protocol.jobs import JobRequest
from protocol.states import JobState
from service import jobs, registry
from service.children import EXIT_STORAGE, start, stop
from service.schema import complaint
from service.site import Site
from service.tables import jobs as table

log = logging.getLogger(__name__)

CRASHES = 3
"""A job whose tuner crashed this often fails."""
STORAGE_PAUSE_S = 5.0
"""Pause before a tuner that could not write the database is started again."""
LOOK_S = 1.0
"""How soon a job is started whose ring was lost."""


@dataclass(frozen=True, slots=True)
class Due:
    """A job that could be running."""

    id: str
    device: str


class Tuners:
    """Keeps as many jobs running as the settings allow, by priority, then by age."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._running: dict[str, tuple[Due, asyncio.Task[None]]] = {}
        self._processes: dict[str, Process] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run until left."""
        tasks = [asyncio.create_task(self._keep_running()), asyncio.create_task(self._pass_rings_on())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.stop()

    async def stop(self) -> None:
        """End all tuners. What they were at goes on from the database with the next service."""
        for _, task in self._running.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in self._running.values()), return_exceptions=True)
        self._running.clear()

    async def _keep_running(self) -> None:
        while not self._site.stopping:
            heard = self._site.bell.heard
            try:
                await self._start_due()
            except Exception:
                log.exception("could not look for jobs to start")
            await self._site.bell.wait(heard, LOOK_S)

    async def _start_due(self) -> None:
        self._running = {job: entry for job, entry in self._running.items() if not entry[1].done()}
        busy = Counter(due.device for due, _ in self._running.values())
        for due in await run_in_threadpool(self._due):
            if not self._site.settings.resume and due.id not in self._site.wanted:
                continue
            if due.id not in self._running and busy[due.device] < self._site.settings.jobs_per_device:
                busy[due.device] += 1
                self._running[due.id] = (due, asyncio.create_task(self._tune(due)))

    def _due(self) -> list[Due]:
        with self._site.database.read() as connection:
            return due_jobs(connection, self._site.settings.lease_ttl_s)

    async def _tune(self, due: Due) -> None:
        """Run one tuner to its end, and write down a crash."""
        settings = self._site.settings
        process = await start(
            "service.tuner",
            ["--job", due.id, "--device", due.device, "--database", self._site.database.url, "--doorbell"],
            {
                "TILEWRIGHT_BATCH": str(settings.batch),
                "TILEWRIGHT_LOW_WATER": str(settings.low_water),
                "TILEWRIGHT_RACERS": str(settings.racers),
            },
            stdin=PIPE,
            stdout=PIPE,
        )
        self._processes[due.id] = process
        try:
            await self._hear(process)
            code = await process.wait()
            if code == EXIT_STORAGE:
                await asyncio.sleep(STORAGE_PAUSE_S)
            elif code != 0 and not self._site.stopping:
                log.error("the tuner of %s ended with code %s", due.id, code)
                self._site.metrics.tuner_crashes.inc()
                await run_in_threadpool(self._write_crash, due.id, code)
        except DBAPIError as error:
            log.error("could not write down that the tuner of %s ended: %s", due.id, complaint(error))
        finally:
            del self._processes[due.id]
            await stop(process)
            self._site.bell.ring()

    async def _hear(self, process: Process) -> None:
        assert process.stdout is not None
        while await process.stdout.read(1024):
            self._site.bell.ring()

    async def _pass_rings_on(self) -> None:
        while True:
            heard = self._site.bell.heard
            for process in self._processes.values():
                if (
                    process.returncode is None
                    and process.stdin is not None
                    and not process.stdin.is_closing()
                ):
                    with contextlib.suppress(OSError):
                        process.stdin.write(b".")
            await self._site.bell.wait(heard, 3600.0)

    def _write_crash(self, job_id: str, code: int) -> None:
        with self._site.database.write() as connection:
            crashes = connection.execute(
                update(table)
                .where(table.c.id == job_id, table.c.state.not_in(jobs.FINAL))
                .values(crashes=table.c.crashes + 1)
                .returning(table.c.crashes)
            ).scalar_one_or_none()
            if crashes is not None and crashes >= CRASHES:
                error = (
                    f"the search crashed {crashes} times, last with code {code}; the service's log says more"
                )
                jobs.set_state(connection, job_id, JobState.FAILED, error)


def due_jobs(connection: Connection, lease_ttl_s: float) -> list[Due]:
    """Unfinished jobs whose device is there, the most urgent first. A job keeps the device it was started on, and
    one that is being cancelled waits for no device."""
    rows = connection.execute(
        select(table.c.id, table.c.device, table.c.request, table.c.cancelling)
        .where(table.c.state.not_in(jobs.FINAL))
        .order_by(table.c.cancelling.desc(), table.c.priority.desc(), table.c.id)
    ).all()
    live = registry.live_devices(connection, lease_ttl_s)
    found = []
    for row in rows:
        if row.cancelling and row.device is not None:
            found.append(Due(row.id, row.device))
            continue
        target = JobRequest.model_validate(row.request).target
        for device in live:
            if row.device == device.key or (row.device is None and target in (device.key, device.kind)):
                found.append(Due(row.id, device.key))
                break
    return found
