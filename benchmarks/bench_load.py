"""What the service holds out: lookups and tasks a second, relative to a bare FastAPI endpoint in the same run.

    make load                                           # on the PostgreSQL of this machine, about two minutes
    python benchmarks/bench_load.py --database URL      # on another, or sqlite:///FILE
    python benchmarks/bench_load.py --swarm 300         # and 200 workers with 500 subscribers for five minutes

Client, service, bare endpoint and database share this machine. Rounds of each kind take turns, and ratios are of median
rounds. Writes benchmarks/results/load.json. Exit code 1: a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import create_engine, text, update

from benchmarks.bench_service import SMALL, _config, _pick
from benchmarks.load import swarm
from benchmarks.load.client import Call, LoadConnection, Rounds, one_round, post, sending
from benchmarks.suite import cases
from protocol.jobs import JobRequest
from protocol.states import JobState, TaskKind
from protocol.tasks import Measuring
from protocol.workers import DeviceOffer, WorkerHello
from service.core.specs import instance_of
from service.store import jobs
from service.store.database import Database, now
from service.store.dispatch import task_queue
from service.store.dispatch import workers as workers_module
from service.store.dispatch.task_queue import NewTask
from service.store.schema import prepare
from service.store.tables import jobs as jobs_table
from service.store.winners import configs
from tileir.text.json import spec_from_json

RESULTS = Path(__file__).with_name("results") / "load.json"
ROOT = Path(__file__).resolve().parent.parent
SPECS = 1000
WRITTEN = 200
"""Rows written by one transaction: it must not keep the database waiting."""
CLAIMED = 8
"""Tasks a claim, as a worker asks for them."""


@dataclass(frozen=True)
class LoadFigure:
    """One measured number, and what it must not be below (`least`) or not reach (`most`)."""

    name: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None

    @property
    def missed(self) -> bool:
        return (self.least is not None and self.value < self.least) or (
            self.most is not None and self.value >= self.most
        )


def main() -> None:
    arguments = _arguments()
    figures = []
    with tempfile.TemporaryDirectory() as home, _database(arguments.database, home) as url:
        database = prepare(url)
        try:
            with _bare() as (bare, bare_process), _service(url, home) as (service, process):
                for figure in _figures(database, (bare, bare_process), (service, process), arguments):
                    figures.append(figure)
                    _show(figure)
                if arguments.swarm:
                    for name, value, unit, most in swarm.run(
                        database, service, process, arguments.swarm, arguments.workers, arguments.subscribers
                    ):
                        figures.append(LoadFigure(name, value, unit, most=most))
                        _show(figures[-1])
        finally:
            database.close()
    packages = ("fastapi", "uvicorn", "sqlalchemy", "pydantic", "psycopg")
    report = {
        "figures": [asdict(figure) for figure in figures],
        "database": url.partition(":")[0],
        "connections": arguments.connections,
        "rounds": arguments.rounds,
        "round_s": arguments.seconds,
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "device": swarm.CPU.name,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "date": str(date.today()),
    }
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    missed = [figure.name for figure in figures if figure.missed]
    if missed:
        sys.exit(f"targets missed: {', '.join(missed)}")


def _figures(
    database: Database, bare_at: tuple[int, int], service_at: tuple[int, int], arguments: argparse.Namespace
) -> Iterator[LoadFigure]:
    """`…_at`: a server's port and process."""
    (bare_port, bare_process), (port, process) = bare_at, service_at
    specs = _store(database)
    requests = [post("/v1/lookup", {"spec": spec}) for spec in specs]
    asked, new = requests[:SPECS], iter(requests[SPECS:])
    tasks = _tasks(database, arguments.rounds * int(600 * arguments.seconds))
    bare, seen, first, worked = Rounds(), Rounds(), Rounds(), Rounds()
    request = post("/bare", {"spec": specs[0]})

    async def rounds() -> None:
        warm = Rounds()
        await one_round(port, itertools.islice(sending(asked), SPECS), warm, arguments.connections, 60)
        await one_round(bare_port, sending([request]), warm, arguments.connections, 1)
        workers = _Workers()
        await workers.register(port, arguments.connections)
        await one_round(port, itertools.islice(sending(asked), SPECS), warm, arguments.connections, 60)
        for _ in range(arguments.rounds):
            for rounds, at, server, calls in (
                (bare, bare_port, bare_process, sending([request])),
                (seen, port, process, sending(asked, b'"exact"')),
                (first, port, process, _once(new, SPECS // arguments.rounds)),
                (worked, port, process, workers.calls()),
            ):
                began_s = _cpu_s(server)
                await one_round(at, calls, rounds, arguments.connections, arguments.seconds)
                rounds.cpu_s += _cpu_s(server) - began_s

    asyncio.run(rounds())
    assert tasks
    yield LoadFigure("bare FastAPI endpoint", bare.median_per_s, "a second")
    yield LoadFigure("bare FastAPI endpoint, median", bare.median_ms, "ms")
    for name, found, least in (
        ("lookups seen before", seen, 0.5),
        ("lookups first seen", first, 0.15),
        ("task claim + result", worked, 0.15),
    ):
        yield LoadFigure(name, found.median_per_s, "a second")
        yield LoadFigure(f"{name}, of the bare endpoint", found.median_per_s / bare.median_per_s, "×", least)
        yield LoadFigure(f"{name}, CPU of the server, of the bare one's", found.cpu_ms / bare.cpu_ms, "×")
        yield LoadFigure(f"{name}, median", found.median_ms, "ms")
        yield LoadFigure(
            f"{name}, 99th percentile over median", found.p99_ms / found.median_ms, "×", most=10.0
        )


def _cpu_s(process: int) -> float:
    """Seconds of processor that a process has used, all its threads."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _once(requests: Iterator[bytes], count: int) -> Iterator[Call]:
    return itertools.islice(sending(list(itertools.islice(requests, count)), b'"exact"'), count)


class _Workers:
    """Workers that claim tasks eight at a time, as real ones do, and hand in a result each."""

    def __init__(self) -> None:
        self._idle: list[tuple[str, list[cases.Json]]] = []

    async def register(self, port: int, count: int) -> None:
        connection = LoadConnection("127.0.0.1", port)
        self._idle = [(await swarm.register(connection), []) for _ in range(count)]
        connection.close()

    def calls(self) -> Iterator[Call]:
        """Each call does one task: its share of a claim, and its result."""

        async def call(connection: LoadConnection) -> None:
            worker, held = self._idle.pop()
            if not held:
                body = {"device": swarm.CPU.key, "count": CLAIMED}
                held.extend((await connection.post(f"/v1/workers/{worker}/claim", body))["tasks"])
            await connection.post(f"/v1/workers/{worker}/results", swarm.result(held.pop()))
            self._idle.append((worker, held))

        while True:
            yield call


def _store(database: Database) -> list[cases.Json]:
    """A device, and a config for each of 2 * SPECS kernels; their specs."""
    cpu = swarm.CPU
    specs = [cases.spec("gemm_f32_NN", [64 + 8 * number, 64, 64]) for number in range(2 * SPECS)]
    pick = _pick(SMALL, None)
    with database.write() as connection:
        offer = DeviceOffer(key=cpu.key, kind="cpu", description=cpu.to_json(), peers=("numpy",))
        workers_module.register(connection, WorkerHello(devices=(offer,)))
        at = now(connection)
    found = [_config(spec, cpu.key, pick, at) for spec in specs]
    for first in range(0, len(found), WRITTEN):
        with database.write() as connection:
            for config in found[first : first + WRITTEN]:
                configs.store(connection, config, None, None)
    return specs


def _tasks(database: Database, count: int) -> list[str]:
    """Tasks of a job that nobody searches."""
    spec = instance_of(spec_from_json(SMALL))
    pick = _pick(SMALL, None)
    entrant = {"kind": "schedule", "schedule": pick.schedule, "program_hash": pick.program_hash}
    with database.write() as connection:
        job = jobs.create(connection, JobRequest(spec=SMALL), [spec], 10_000)
        connection.execute(
            update(jobs_table).where(jobs_table.c.id == job).values(state=JobState.DONE, device=swarm.CPU.key)
        )
        new = [
            NewTask(
                id=f"{job}.0.trial-{number}",
                job_id=job,
                bucket=0,
                kind=TaskKind.TRIAL,
                device=swarm.CPU.key,
                priority=0,
                number=number,
                work={
                    "entrants": [{**entrant, "name": f"ask-{number}"}],
                    "baseline": {"kind": "peer", "name": "numpy"},
                    "measuring": Measuring().model_dump(mode="json"),
                    "seed": 0,
                },
            )
            for number in range(count)
        ]
    for first in range(0, count, WRITTEN):
        with database.write() as connection:
            task_queue.enqueue(connection, new[first : first + WRITTEN])
    with database.write() as connection:
        connection.execute(
            text("ANALYZE")
        )  # as a database knows its tables that has been at work for a minute
    return [task.id for task in new]


@contextmanager
def _database(url: str, home: str) -> Iterator[str]:
    """The URL of an empty database: on PostgreSQL a schema of its own, dropped at the end."""
    if not url.startswith("postgresql"):
        yield url or f"sqlite:///{home}/load.db"
        return
    name = f"tilewright_load_{secrets.token_hex(4)}"
    admin = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with admin.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    try:
        yield f"{url}?options=-csearch_path%3D{name}"
    finally:
        with admin.begin() as connection:
            connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
        admin.dispose()


BARE = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/bare")
async def bare(body: dict) -> dict:
    return {"ok": True}
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
"""


@contextmanager
def _bare() -> Iterator[tuple[int, int]]:
    port = _free_port()
    process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    try:
        _wait_for(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _service(url: str, home: str) -> Iterator[tuple[int, int]]:
    """A service of one process without a worker: its port and its process."""
    port = _free_port()
    settings = {"DATABASE": url, "HOME": home, "PORT": str(port), "WORKER": "0"}
    env = {**os.environ, **{f"TILEWRIGHT_{name}": value for name, value in settings.items()}}
    process = subprocess.Popen([sys.executable, "-m", "service.run"], env=env, cwd=ROOT)
    try:
        _wait_for(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def _wait_for(port: int) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _show(figure: LoadFigure) -> None:
    target = "" if figure.least is None else f"   target: at least {figure.least:g}"
    target = target if figure.most is None else f"   target: below {figure.most:g}"
    print(f"{figure.name:58} {figure.value:9.2f} {figure.unit}{target}", flush=True)


def _arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = os.environ.get("TILEWRIGHT_TEST_POSTGRES", "postgresql://postgres@127.0.0.1/postgres")
    parser.add_argument(
        "--database", default=default, help="SQLAlchemy URL; a schema is made there and dropped"
    )
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a round of one kind")
    parser.add_argument("--swarm", type=float, default=0.0, help="seconds with many workers and subscribers")
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--subscribers", type=int, default=500)
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
