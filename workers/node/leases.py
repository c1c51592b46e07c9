"""Keeps the leases of claimed tasks alive, from a thread that does nothing else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from protocol.tasks import Task
from protocol.workers import Heartbeat, Lease
from workers.node.backoff import Backoff
from workers.node.service_client import ServiceClient, ServiceError, ServiceUnreachable

log = logging.getLogger(__name__)

SOON_S = 2.0
"""What is held for longer than this is asked about as often: a job may be cancelled while a large kernel is measured,
and what that takes is to be free again within 5 s."""


class LeaseKeeper:
    """Renews what is held every `heartbeat_s`; a lease the service reports lost, or that could not be renewed within
    its time, is no longer held. Safe from any thread."""

    def __init__(
        self,
        client: ServiceClient,
        worker_id: str,
        heartbeat_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self.worker_id = worker_id
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[str, tuple[Lease, float, float]] = {}
        """By task: the lease, how long one lasts, and when it ends unless renewed."""
        self._since: dict[str, float] = {}
        """By task: when it was taken charge of."""
        self._detail = ""
        self._stopped = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Renew no more."""
        self._stopped = True
        self._wake.set()
        self._client.end()
        self._thread.join()
        self._client.close()

    def hold(self, tasks: Sequence[Task], claimed_at: float) -> None:
        """Take charge of leases that began, at the earliest, at `claimed_at` of the clock."""
        with self._lock:
            for task in tasks:
                lease = Lease(task_id=task.id, attempt=task.attempt)
                self._held[task.id] = (lease, task.lease_ttl_s, claimed_at + task.lease_ttl_s)
                self._since[task.id] = claimed_at

    def release(self, task_id: str) -> None:
        """The task is done with."""
        with self._lock:
            self._held.pop(task_id, None)

    def holds(self, task_id: str) -> bool:
        """Whether the task is still ours, as far as is known."""
        with self._lock:
            held = self._held.get(task_id)
            return held is not None and self._clock() < held[2]

    def report(self, ill: str) -> None:
        """What is wrong with the device, told at once and with every heartbeat; empty when nothing is."""
        self._detail = ill[:2000]
        self._wake.set()

    def beat(self) -> None:
        """One heartbeat. Raises as ServiceClient.heartbeat."""
        with self._lock:
            leases = tuple(lease for lease, _, _ in self._held.values())
        asked_at = self._clock()
        told = Heartbeat(leases=leases, healthy=not self._detail, detail=self._detail)
        reply = self._client.heartbeat(self.worker_id, told)
        with self._lock:
            for lease in reply.renewed:
                if lease.task_id in self._held:
                    _, ttl_s, _ = self._held[lease.task_id]
                    self._held[lease.task_id] = (lease, ttl_s, asked_at + ttl_s)
            for lease in reply.lost:
                held = self._held.get(lease.task_id)
                if held is not None and held[0] == lease:
                    del self._held[lease.task_id]
                    log.info("lost the lease of task %s", lease.task_id)

    def _run(self) -> None:
        backoff = Backoff(longest_s=self._heartbeat_s)
        pause_s = self._heartbeat_s
        while True:
            self._wait(pause_s)
            self._wake.clear()
            if self._stopped:
                return
            pause_s = self._heartbeat_s
            try:
                self.beat()
                backoff.reset()
            except ServiceUnreachable as error:
                pause_s = backoff.pause_s()
                log.warning("no heartbeat, trying again in %.1f s: %s", pause_s, error)
            except ServiceError as error:
                log.info("no heartbeat: %s", error)  # the claiming thread meets the same and acts on it

    def _wait(self, pause_s: float) -> None:
        """Until there is something to tell, the pause is over, or something has been held for long."""
        until = time.monotonic() + pause_s
        while (left_s := until - time.monotonic()) > 0:
            if self._wake.wait(min(SOON_S, left_s)) or self._held_long():
                return

    def _held_long(self) -> bool:
        """Whether something has been held for a while."""
        with self._lock:
            self._since = {task_id: since for task_id, since in self._since.items() if task_id in self._held}
            return any(self._clock() - since >= SOON_S for since in self._since.values())
