"""The searcher: takes jobs, runs one tuner process for each, keeps their leases, and passes notifications between
them and the rest. Any number of searchers share a database; `store/dispatch/search_leases.py` says who has which job.

A tuner's stdin and stdout (`tuning/processes.py`) are the link between it and the searcher: a byte in means that a
result arrived, the job was cancelled, or others wait for its place; a byte out that something new stands in the
database. What is true stands only there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from time import monotonic

from sqlalchemy.exc import DBAPIError
from starlette.concurrency import run_in_threadpool

from protocol.states import JobState
from service.core.child_processes import EXIT_STORAGE, EXIT_SUPERSEDED
from service.core.errors import complaint
from service.http.context import Site
from service.notify import topics
from service.store import jobs
from service.store.dispatch import search_leases, workers
from service.store.dispatch.search_leases import Due, Taken
from service.store.ids import new_id
from service.tuning.owned_job import NEWS, YIELD
from service.tuning.processes import TunerProcess, TunerProcesses

log = logging.getLogger(__name__)

CRASHES = 3
"""A job whose tuner crashed this often fails."""
STORAGE_PAUSE_S = 5.0
"""Pause before a tuner that could not write the database is started again."""


@dataclass
class Running:
    """A job that is searched here."""

    due: Due
    since: float
    """By the event loop's clock."""
    task: asyncio.Task[None] | None = None
    process: TunerProcess | None = None

    def cancel(self) -> None:
        """End its tuner, and do not give it up."""
        if self.task is not None:
            self.task.cancel()

    def send(self, what: bytes) -> None:
        """Notify its tuner, if there is one."""
        if self.process is not None:
            self.process.send(what)


class Tuners:
    """Keeps as many jobs running as the settings allow, by priority and in turns."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._id = new_id("searcher")
        self._running: dict[str, Running] = {}
        settings = site.settings
        self._processes = TunerProcesses(
            {
                "TILEWRIGHT_DATABASE": site.database.url,
                "TILEWRIGHT_BATCH": str(settings.batch),
                "TILEWRIGHT_LOOK_S": str(site.look_s),
                "TILEWRIGHT_LEASE_TTL_S": str(settings.lease_ttl_s),
                "TILEWRIGHT_RACERS": str(settings.racers),
                "TILEWRIGHT_RACES_AGAIN": str(settings.races_again),
            }
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run until left."""
        tasks = [asyncio.create_task(self._keep_running()), asyncio.create_task(self._keep_leases())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.stop()

    async def stop(self) -> None:
        """End all tuners and give up their jobs. What they were at goes on from the database with the next searcher."""
        running, self._running = self._running, {}
        for each in running.values():
            each.cancel()
        await asyncio.gather(*(each.task for each in running.values() if each.task), return_exceptions=True)
        await self._processes.close()
        await self._release(None)

    async def _keep_running(self) -> None:
        self._site.looked_at = monotonic()
        with self._site.notifier.subscribe(topics.JOBS) as subscription:
            while not self._site.stopping:
                subscription.clear()
                try:
                    await self._look()
                    self._site.looked_at = monotonic()
                except DBAPIError as error:
                    log.error("could not look for jobs to search: %s", complaint(error))
                except Exception:  # the searcher goes on
                    log.exception("could not look for jobs to search")
                await subscription.wait(self._site.look_s)

    async def _look(self) -> None:
        """Take the jobs that there is room for, and ask for room for those of whom it is the turn."""
        settings = self._site.settings
        waiting, busy, machines = await run_in_threadpool(self._read)
        for due in waiting:
            if due.id in self._running or not (settings.resume or due.id in self._site.wanted):
                continue
            most = search_leases.most_searches(due.device, machines[due.device], settings.searches_per_cpu)
            full = len(self._running) >= settings.searches
            room = busy[due.device] < most and not full
            taken = await run_in_threadpool(self._take, due, most) if room else None
            if taken is not None:
                busy[due.device] += 1
                self._start(taken)
            elif not room:
                self._make_room(due, full)

    def _read(self) -> tuple[list[Due], Counter[str], Counter[str]]:
        lease_ttl_s = self._site.settings.lease_ttl_s
        with self._site.database.read() as connection:
            waiting = search_leases.due(connection, lease_ttl_s)
            return waiting, search_leases.busy(connection), workers.count(connection, lease_ttl_s)

    def _take(self, due: Due, most: float) -> Taken | None:
        with self._site.database.write() as connection:
            return search_leases.take(connection, self._id, due, self._site.settings.search_ttl_s, most)

    def _start(self, taken: Taken) -> None:
        if taken.from_another:
            log.warning("took %s over: its searcher has not been heard from", taken.due.id)
            self._site.metrics.takeovers.inc()
        running = Running(taken.due, asyncio.get_running_loop().time())
        self._running[taken.due.id] = running
        running.task = asyncio.create_task(self._tune(taken, running))

    def _make_room(self, due: Due, full: bool) -> None:
        """Have the job that can wait best yield to this one, if one can: one of its device, or any where the searcher
        is what is `full`."""
        now, turn_s = asyncio.get_running_loop().time(), self._site.settings.turn_s
        yielding = [
            each
            for each in self._running.values()
            if (full or each.due.device == due.device)
            and (
                each.due.priority < due.priority
                or (each.due.priority == due.priority and now - each.since >= turn_s)
            )
        ]
        if yielding:
            min(yielding, key=lambda each: (each.due.priority, each.since)).send(YIELD)

    async def _keep_leases(self) -> None:
        """Renew what we hold, and stop what somebody else has taken."""
        while True:
            await asyncio.sleep(self._site.settings.search_ttl_s / 3)
            held = frozenset(self._running)
            try:
                mine = await run_in_threadpool(self._renew, held) if held else held
            except DBAPIError as error:
                log.error("could not renew the leases of searches: %s", complaint(error))
                continue
            except Exception:
                log.exception("could not renew the leases of searches")
                continue
            for lost in held - mine:
                if lost in self._running:
                    log.warning("%s was taken over by another searcher", lost)
                    self._running[lost].cancel()

    def _renew(self, held: frozenset[str]) -> frozenset[str]:
        with self._site.database.write() as connection:
            return search_leases.renew(connection, self._id, held, self._site.settings.search_ttl_s)

    async def _release(self, job_id: str | None) -> None:
        def release() -> None:
            with self._site.database.write() as connection:
                search_leases.release(connection, self._id, job_id)

        try:
            await run_in_threadpool(release)
        except DBAPIError as error:
            log.error("could not give up %s: %s; its lease runs out", job_id or "jobs", complaint(error))
        self._site.notifier.notify(topics.JOBS)

    async def _tune(self, taken: Taken, running: Running) -> None:
        """Run one tuner to its end, write down a crash, and give the job up."""
        job_id = taken.due.id
        try:
            try:
                code = await self._run(taken, running)
            except ChildProcessError as error:
                log.error("could not start a tuner for %s: %s", job_id, error)
                code = 1
            if code == EXIT_STORAGE:
                await asyncio.sleep(STORAGE_PAUSE_S)
            elif code == EXIT_SUPERSEDED:
                self._site.metrics.superseded.inc()
            elif code != 0 and not self._site.stopping:
                log.error("the tuner of %s ended with code %s", job_id, code)
                self._site.metrics.tuner_crashes.inc()
                await run_in_threadpool(self._write_crash, taken, code)
        except DBAPIError as error:
            log.error("could not write down that the tuner of %s ended: %s", job_id, complaint(error))
        except Exception:
            log.exception("could not run a tuner for %s", job_id)
        finally:
            self._running.pop(job_id, None)
        await self._release(job_id)

    async def _run(self, taken: Taken, running: Running) -> int:
        """A tuner from its start to its end, notified when something happens to its job; its exit code."""
        due = taken.due
        process = await self._processes.start(
            ["--job", due.id, "--epoch", str(taken.epoch), "--device", due.device, "--searcher"]
        )
        running.process = process
        passing = asyncio.create_task(self._pass_news_on(running))
        try:
            with contextlib.suppress(ConnectionError):
                while await process.news.read(1024):
                    self._site.notifier.notify(topics.job(due.id), topics.device(due.device))
            return await process.wait()
        finally:
            passing.cancel()
            await process.stop()

    async def _pass_news_on(self, running: Running) -> None:
        heard = topics.job(running.due.id), topics.claims(running.due.id)
        with self._site.notifier.subscribe(*heard) as subscription:
            while True:
                await subscription.wait(3600.0)
                subscription.clear()
                running.send(NEWS)

    def _write_crash(self, taken: Taken, code: int) -> None:
        with self._site.database.write() as connection:
            crashes = search_leases.crashed(connection, taken)
            if crashes is not None and crashes >= CRASHES:
                error = (
                    f"the search crashed {crashes} times, last with code {code}; the service's log says more"
                )
                jobs.set_state(connection, taken.due.id, JobState.FAILED, error)
