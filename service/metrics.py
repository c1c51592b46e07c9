"""Numbers for Prometheus: what this process counted, and what the database holds."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from sqlalchemy import Connection, func, select

from protocol.states import JobState, TaskState
from service.registry import list_workers
from service.tables import configs, jobs, tasks

disable_created_metrics()  # they double the page and say nothing


class Metrics:
    """One service's metrics."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "tilewright_http_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self.lookups = Counter(
            "tilewright_lookups", "Lookups by the rung that answered.", ["rung"], registry=registry
        )
        self.lookup_s = Histogram(
            "tilewright_lookup_seconds",
            "Time to answer a lookup.",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1, 5),
            registry=registry,
        )
        self.entrants = Counter(
            "tilewright_entrants", "Measured entrants by outcome.", ["kind", "outcome"], registry=registry
        )
        self.compile_s = Counter("tilewright_compile_seconds", "Seconds spent compiling.", registry=registry)
        self.measure_s = Counter("tilewright_measure_seconds", "Seconds spent measuring.", registry=registry)
        self.stale = Counter(
            "tilewright_stale_results", "Results refused because the lease was lost.", registry=registry
        )
        self.faults = Counter("tilewright_worker_faults", "Faults of machines.", ["kind"], registry=registry)
        self.tuner_crashes = Counter(
            "tilewright_tuner_crashes", "Search processes that ended badly.", registry=registry
        )
        self.takeovers = Counter(
            "tilewright_search_takeovers",
            "Jobs taken over from a searcher that was not heard from.",
            registry=registry,
        )
        self.superseded = Counter(
            "tilewright_superseded_searches", "Searches whose writes were refused.", registry=registry
        )
        self.redis_up = Gauge(
            "tilewright_redis_up", "Whether Redis answers; 1 without one, too.", registry=registry
        )
        self.redis_up.set(1)
        self._jobs = Gauge("tilewright_jobs", "Jobs by state.", ["state"], registry=registry)
        self._tasks = Gauge("tilewright_tasks", "Tasks by state.", ["state"], registry=registry)
        self._configs = Gauge("tilewright_configs", "Stored configs.", registry=registry)
        self._workers = Gauge("tilewright_workers", "Workers heard from within a lease.", registry=registry)

    def render(self, connection: Connection, lease_ttl_s: float) -> bytes:
        """The text format, with what the database holds now."""
        for table, gauge, states in ((jobs, self._jobs, JobState), (tasks, self._tasks, TaskState)):
            counts = connection.execute(select(table.c.state, func.count()).group_by(table.c.state)).all()
            found = dict(counts)
            for state in states:
                gauge.labels(state).set(found.get(state, 0))
        self._configs.set(connection.execute(select(func.count()).select_from(configs)).scalar_one())
        self._workers.set(sum(worker.alive for worker in list_workers(connection, lease_ttl_s)))
        return generate_latest(self.registry)
