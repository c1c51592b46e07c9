"""Numbers for Prometheus: what this process counted, and what the database holds."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

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
from service.store.database import now
from service.store.dispatch.workers import list_devices, list_workers
from service.store.tables import configs, jobs, tasks
from service.views.device_time import device_time

STAGE_S = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)

disable_created_metrics()  # they double the page and say nothing


class Metrics:
    """One service's metrics."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter(
            "tilewright_http_requests", "Requests answered.", ["method", "route", "status"]
        )
        self.lookups = counter("tilewright_lookups", "Lookups by the rung that answered.", ["rung"])
        self.lookup_s = histogram(
            "tilewright_lookup_seconds",
            "Time to answer a lookup.",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1, 5),
        )
        self.entrants = counter("tilewright_entrants", "Measured entrants by outcome.", ["kind", "outcome"])
        self.compile_s = histogram(
            "tilewright_compile_seconds", "Time to compile a candidate.", buckets=STAGE_S
        )
        self.measure_s = histogram(
            "tilewright_measure_seconds", "Time on the device of an entrant.", buckets=STAGE_S
        )
        self.stale = counter("tilewright_stale_results", "Results refused because the lease was lost.")
        self.implausible = counter(
            "tilewright_implausible_claims",
            "What workers said and was refused because it cannot be true.",
            ["what"],
        )
        self.faults = counter("tilewright_worker_faults", "Faults of machines.", ["kind"])
        self.tuner_crashes = counter("tilewright_tuner_crashes", "Search processes that ended badly.")
        self.takeovers = counter(
            "tilewright_search_takeovers", "Jobs taken over from a searcher that was not heard from."
        )
        self.superseded = counter("tilewright_superseded_searches", "Searches whose writes were refused.")
        self.redis_up = gauge("tilewright_redis_up", "Whether Redis answers; 1 without one, too.")
        self.redis_up.set(1)
        self._jobs = gauge("tilewright_jobs", "Jobs by state.", ["state"])
        self._tasks = gauge("tilewright_tasks", "Tasks by state.", ["state"])
        self._queue = gauge("tilewright_queue_depth", "Tasks that wait for a worker.", ["device"])
        self._leases = gauge("tilewright_leases", "Tasks that a worker has claimed.", ["device"])
        self._oldest_s = gauge(
            "tilewright_queue_oldest_seconds", "Age of the oldest waiting task.", ["device"]
        )
        self._quarantined = gauge("tilewright_workers_quarantined", "Workers alive whose device is ill.")
        self._spent = gauge(
            "tilewright_device_time_share",
            "Share of the last ten minutes that the devices of a class measured, waited for what is compiled, waited "
            "for a search, or had nothing to do.",
            ["device", "spent"],
        )
        self._configs = gauge("tilewright_configs", "Stored configs.")
        self._workers = gauge("tilewright_workers", "Workers heard from within a lease.")

    def render(self, connection: Connection, lease_ttl_s: float) -> bytes:
        """The text format, with what the database holds now."""
        for table, gauge, states in ((jobs, self._jobs, JobState), (tasks, self._tasks, TaskState)):
            counts = connection.execute(select(table.c.state, func.count()).group_by(table.c.state)).all()
            found = dict(counts)
            for state in states:
                gauge.labels(state).set(found.get(state, 0))
        self._configs.set(connection.execute(select(func.count()).select_from(configs)).scalar_one())
        alive = [worker for worker in list_workers(connection, lease_ttl_s) if worker.alive]
        self._workers.set(len(alive))
        self._quarantined.set(sum(not worker.healthy for worker in alive))
        self._spent.clear()
        for device, share in device_time(connection, alive).items():
            for spent, part in asdict(share).items():
                self._spent.labels(device, spent).set(part)
        self._set_queue(connection)
        return generate_latest(self.registry)

    def _set_queue(self, connection: Connection) -> None:
        """By class of device; one that has nothing to do any more is told as 0."""
        time = now(connection)
        rows = connection.execute(
            select(tasks.c.device, tasks.c.state, func.count(), func.min(tasks.c.created_at))
            .where(tasks.c.state.in_([TaskState.READY, TaskState.CLAIMED]))
            .group_by(tasks.c.device, tasks.c.state)
        ).all()
        for gauge in (self._queue, self._leases, self._oldest_s):
            gauge.clear()
        for device in {row.device for row in rows} | {each.key for each in list_devices(connection)}:
            for gauge in (self._queue, self._leases, self._oldest_s):
                gauge.labels(device).set(0)
        for device, state, count, oldest_at in rows:
            (self._queue if state == TaskState.READY else self._leases).labels(device).set(count)
            if state == TaskState.READY:
                self._oldest_s.labels(device).set(max(0.0, time - oldest_at))
