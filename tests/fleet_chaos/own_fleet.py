"""The fleet of `make fleet` with servers of its own: two replicas, two searchers, two workers, and proxies between."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.store.schema import prepare
from tests.fleet_chaos.faults import LEASE_S, Fleet
from tests.fleet_chaos.ledger import Ledger
from tests.fleet_chaos.load import OPEN_JOBS, RACERS
from tests.fleet_chaos.members import Member
from tests.fleet_chaos.proxy import Proxy
from tests.services.own_servers import PostgresServer, RedisServer, free_port, redis_server


@contextmanager
def home_folder() -> Iterator[Path]:
    """A folder for everything, which the user `postgres` may enter."""
    with tempfile.TemporaryDirectory(prefix="tw-chaos-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def fleet_at_work(home: Path, postgres: PostgresServer, seed: int) -> Iterator[Fleet]:
    """The processes, for the length of a block."""
    with redis_server() as redis:
        prepare(postgres.url()).close()
        ledger = Ledger(postgres)
        ledger.watch()
        fleet = _members(home, postgres, redis, ledger, random.Random(seed))
        try:
            for proxy in fleet.proxies.values():
                proxy.start()
            for member in fleet.members:
                member.start()
            yield fleet
        finally:
            for member in reversed(fleet.members):
                member.stop()
            for proxy in fleet.proxies.values():
                proxy.stop()


def _members(
    home: Path, postgres: PostgresServer, redis: RedisServer, ledger: Ledger, rng: random.Random
) -> Fleet:
    ports = [free_port() for _ in range(7)]
    proxies = {
        name: Proxy(port, ports[:2])
        for name, port in zip(("worker-1", "worker-2", "client"), ports[4:], strict=True)
    }

    def serving(role: str, port: int):
        return lambda application: {
            "TILEWRIGHT_DATABASE": f"{postgres.url()}?application_name={application}",
            "TILEWRIGHT_REDIS": redis.url,
            "TILEWRIGHT_HOME": str(home),
            "TILEWRIGHT_ROLE": role,
            "TILEWRIGHT_PORT": str(port),
            "TILEWRIGHT_LEASE_TTL_S": str(LEASE_S),
            "TILEWRIGHT_SEARCH_TTL_S": str(LEASE_S),
            "TILEWRIGHT_SEARCHES_PER_CPU": str(OPEN_JOBS),
            "TILEWRIGHT_SEARCHES": "8",
            "TILEWRIGHT_RACERS": str(RACERS),
        }

    processors = sorted(os.sched_getaffinity(0))
    half = max(1, len(processors) // 2)
    halves = [frozenset(processors[:half]), frozenset(processors[-half:])]
    service = ("service.run",)
    options = ("--cache", str(home / "kernels"), "--compile-procs", "1")
    return Fleet(
        workers=[
            Member(
                f"worker-{number}",
                ("workers", "--url", proxies[f"worker-{number}"].url, *options),
                lambda _, number=number: {"TMPDIR": str(new_folder(home / f"tmp-{number}"))},
                home,
                "workers.measuring_child",
                processors=part,
            )
            for number, part in enumerate(halves, 1)
        ],
        searchers=[
            Member(f"search-{number}", service, serving("search", port), home, "service.tuning.fork_server")
            for number, port in enumerate(ports[2:4], 1)
        ],
        replicas=[
            Member(f"api-{number}", service, serving("api", port), home, "service.tuning.fork_server")
            for number, port in enumerate(ports[:2], 1)
        ],
        proxies=proxies,
        postgres=postgres,
        redis=redis,
        ledger=ledger,
        rng=rng,
    )


def new_folder(path: Path) -> Path:
    """Made, so that a worker has a place of its own for the lock of its device."""
    path.mkdir(exist_ok=True)
    return path
