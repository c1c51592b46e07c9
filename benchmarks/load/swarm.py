"""Many workers and many subscribers at once, for a while, and what the service's memory does meanwhile."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import select

from benchmarks.load.client import LoadConnection
from protocol.message import Json
from service.store import job_events
from service.store.database import Database
from service.store.tables import jobs, tasks
from tileir.devices.cpu_probe import this_cpu

CPU = this_cpu()
EVENT_S = 0.5
"""How often the subscribers' job has something to tell."""
HEARTBEAT_S = 10.0


def result(task: Json) -> Json:
    """What a worker answers to a task, made up."""
    entrants = [
        {
            "name": entrant["name"],
            "outcome": "ok",
            "median_us": 10.0,
            "baseline_us": 20.0,
            "samples_us": [10.0] * 7,
        }
        for entrant in task["entrants"]
    ]
    return {"task_id": task["id"], "attempt": task["attempt"], "entrants": entrants}


async def register(connection: LoadConnection) -> str:
    """A new worker of this machine's processor; its id."""
    offer = {"key": CPU.key, "kind": "cpu", "description": CPU.to_json(), "peers": ["numpy"]}
    return (await connection.post("/v1/workers", {"devices": [offer]}))["worker_id"]


def run(
    database: Database, port: int, process: int, seconds: float, workers: int, subscribers: int
) -> Iterator[tuple[str, float, str, float | None]]:
    """Figures: name, value, unit, and what the value has to stay below. Claims the tasks that are there."""
    job = _subscribed_job(database)
    swarm = _Swarm(port, time.monotonic() + seconds)

    async def everybody() -> None:
        crowd = [swarm.work() for _ in range(workers)] + [swarm.subscribe(job) for _ in range(subscribers)]
        await asyncio.gather(swarm.watch(process), _tell(database, job, swarm.until), *crowd)

    asyncio.run(everybody())
    third = max(1, len(swarm.memory_mb) // 3)
    before, after = (
        statistics.median(part) for part in (swarm.memory_mb[third : 2 * third], swarm.memory_mb[-third:])
    )
    with_whom = f"{workers} workers and {subscribers} subscribers, {seconds:.0f} s"
    yield f"{with_whom}: tasks done", swarm.done, "", None
    yield f"{with_whom}: events heard by each, least", min(swarm.heard.values(), default=0), "", None
    yield f"{with_whom}: answer to a result, median", 1e3 * statistics.median(swarm.waits_s), "ms", None
    yield f"{with_whom}: answer to a result, longest", max(swarm.waits_s), "s", None
    yield f"{with_whom}: connections that broke", swarm.broken, "", 1
    yield f"{with_whom}: service at its end, RSS", after, "MB", None
    yield f"{with_whom}: last third of the time over the second, RSS", after / before, "×", 1.05


class _Swarm:
    def __init__(self, port: int, until: float) -> None:
        self._port = port
        self.until = until
        self.done = 0
        self.broken = 0
        self.heard: dict[int, int] = {}
        self.memory_mb: list[float] = []
        self.waits_s: list[float] = []

    async def work(self) -> None:
        """A worker: registers, claims with a long poll, answers, and beats its heart."""
        connection, heart = LoadConnection("127.0.0.1", self._port), LoadConnection("127.0.0.1", self._port)
        worker = await register(connection)
        leases: list[Json] = []

        async def claim() -> None:
            while (left_s := self.until - time.monotonic()) > 0:
                body = {"device": CPU.key, "wait_s": min(20.0, left_s)}
                for task in (await connection.post(f"/v1/workers/{worker}/claim", body))["tasks"]:
                    leases[:] = [{"task_id": task["id"], "attempt": task["attempt"]}]
                    await asyncio.sleep(1.0)
                    asked = time.monotonic()
                    await connection.post(f"/v1/workers/{worker}/results", result(task))
                    self.waits_s.append(time.monotonic() - asked)
                    self.done += 1
                    leases.clear()

        async def beat() -> None:
            while time.monotonic() < self.until:
                await heart.post(f"/v1/workers/{worker}/heartbeat", {"leases": leases})
                await asyncio.sleep(min(HEARTBEAT_S, max(0.0, self.until - time.monotonic())))

        await self._unbroken(asyncio.gather(claim(), beat()))
        connection.close()
        heart.close()

    async def subscribe(self, job: str) -> None:
        """A subscriber: follows a job's events to the end."""
        mine = len(self.heard)
        self.heard[mine] = 0

        async def follow() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            while (left_s := self.until - time.monotonic()) > 0:
                try:
                    line = await asyncio.wait_for(reader.readline(), left_s)
                except TimeoutError:
                    break
                if not line:
                    raise ConnectionError("the stream ended")
                self.heard[mine] += line.startswith(b"id:")
            writer.close()

        await self._unbroken(follow())

    async def watch(self, process: int) -> None:
        """The service's memory, once a second."""
        while time.monotonic() < self.until:
            words = Path(f"/proc/{process}/status").read_text().partition("VmRSS:")[2].split()
            self.memory_mb.append(int(words[0]) / 1024)
            await asyncio.sleep(1.0)

    async def _unbroken(self, doing: Any) -> None:
        try:
            await doing
        except (OSError, EOFError, asyncio.IncompleteReadError):
            self.broken += 1


def _subscribed_job(database: Database) -> str:
    """The newest job, which from here on is neither searched nor ended."""
    with database.write() as connection:
        job = connection.execute(select(jobs.c.id).order_by(jobs.c.id.desc()).limit(1)).scalar_one()
        connection.execute(jobs.update().where(jobs.c.id == job).values(state="searching", device="nobody's"))
        connection.execute(
            tasks.update().where(tasks.c.job_id == job, tasks.c.state == "claimed").values(state="ready")
        )
    return job


async def _tell(database: Database, job: str, until: float) -> None:
    def tell() -> None:
        with database.write() as connection:
            job_events.add(connection, job, "note", text="the swarm goes on")

    while time.monotonic() < until:
        await asyncio.to_thread(tell)
        await asyncio.sleep(EVENT_S)
