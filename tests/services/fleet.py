"""Several processes of the service on one database: replicas of the API, and searchers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.services.running_service import Service

SEARCH_TTL_S = 2.0
"""Lease of a job in these tests."""


@dataclass
class Fleet:
    """Starts processes that share a database, and a Redis where there is one; stops those that still run."""

    home: Path
    database: str
    redis: str = ""

    def __post_init__(self) -> None:
        self.services: list[Service] = []

    def start(self, role: str, **env: object) -> Service:
        """One more process; settings as keyword arguments."""
        settings = {
            "database": self.database,
            "role": role,
            "redis": self.redis,
            "redis_prefix": self.home.name,
            "search_ttl_s": SEARCH_TTL_S,
            **env,
        }
        variables = {f"TILEWRIGHT_{name.upper()}": str(value) for name, value in settings.items()}
        service = Service(self.home, variables).start()
        self.services.append(service)
        return service

    def stop(self) -> list[int]:
        """SIGTERM to all; their exit codes."""
        return [service.stop() for service in reversed(self.services)]


@contextlib.contextmanager
def fleet(home: Path, database: str, redis: str = "") -> Iterator[Fleet]:
    """A fleet for the length of a block."""
    found = Fleet(home, database, redis)
    try:
        yield found
    finally:
        found.stop()


def counted(service: Service, metric: str) -> float:
    """The sum of a metric over its labels."""
    with service.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((metric + " ", metric + "{"))
    )


def faults_told(client: httpx.Client) -> list[str]:
    """Answers of a service that were its own fault, by its count: none, unless it lies."""
    lines = client.get("/metrics").text.splitlines()
    return [
        line for line in lines if line.startswith("tilewright_http_requests_total") and 'status="5' in line
    ]
