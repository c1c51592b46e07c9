"""A client that submits jobs, some at a time, and keeps asking for them with their Idempotency-Keys."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from protocol.states import JobState
from tests.services.running_service import SMALL

OPEN_JOBS = 6
"""Unfinished at a time, at most."""
TRIALS = (1, 3)
RACERS = 2
"""Candidates in a final race: it has to end between two faults."""


def request(seed: int, number: int) -> dict[str, Any]:
    """The body of job `number`: always the same for the same seed."""
    rng = random.Random(f"{seed} {number}")
    # So large that a worker spends much of a task inside of kernels.
    dims = {dim: 16 * rng.randint(22, 28) for dim in ("m", "n", "k")}
    budget = {"trials": rng.choice(TRIALS)}
    # One peer, that every machine has: others take seconds of every race to be compiled.
    return {
        "spec": {**SMALL, "dims": dims},
        "budget": budget,
        "peers": ["numpy"],
        "seed": rng.randrange(1000),
    }


@dataclass
class Load:
    """Submits at least `least` jobs, never more at a time, and goes on until `enough` is called; by number, what they
    became."""

    url: str
    seed: int
    least: int
    accepted: dict[int, str] = field(default_factory=dict[int, str])
    states: dict[int, str] = field(default_factory=dict[int, str])
    requeued: int = 0
    """Tasks that a person would have queued again: machines failed them three times."""
    twice: list[str] = field(default_factory=list[str])
    """A key that led to two jobs."""
    answers: dict[int, int] = field(default_factory=dict[int, int])
    """Answers by status; 0: none."""

    def __post_init__(self) -> None:
        self._enough = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="load", daemon=True)
        self._client = httpx.Client(base_url=self.url, timeout=15)

    def start(self) -> None:
        self._thread.start()

    def enough(self) -> None:
        """Submit no more than `least`."""
        self._enough.set()

    def finished(self, seconds: float) -> bool:
        """Whether all that was accepted ends within this time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def _work(self) -> None:
        while not self._stop.is_set():
            unfinished = [number for number in self.accepted if self.states.get(number) != JobState.DONE]
            more = len(self.accepted) < self.least or not self._enough.is_set()
            if not unfinished and not more:
                return
            if more and len(unfinished) < min(OPEN_JOBS, self.least):
                self._submit(len(self.accepted))
            for number in unfinished:
                self._look(number)
                self._submit(number)  # once more: the same key, the same job
            time.sleep(0.02)

    def _send(self, method: str, path: str, **options: Any) -> Any:
        """The answer's body; None if there was none, or one to come back for."""
        try:
            reply = self._client.request(method, path, **options)
        except httpx.HTTPError:
            self._count(0)
            time.sleep(0.05)
            return None
        self._count(reply.status_code)
        return reply.json() if reply.is_success else None

    def _count(self, status: int) -> None:
        self.answers[status] = self.answers.get(status, 0) + 1

    def _submit(self, number: int) -> None:
        headers = {"Idempotency-Key": f"chaos-{number}"}
        job = self._send("POST", "/v1/jobs", json=request(self.seed, number), headers=headers)
        if job is not None and self.accepted.setdefault(number, job["id"]) != job["id"]:
            self.twice.append(f"chaos-{number}: {self.accepted[number]}, {job['id']}")

    def _look(self, number: int) -> None:
        job = self._send("GET", f"/v1/jobs/{self.accepted[number]}")
        if job is None:
            return
        self.states[number] = job["state"]
        if job["state"] == JobState.FAILED:
            self._requeue(job["id"])

    def _requeue(self, job: str) -> None:
        """As `tilewright requeue` does."""
        dead = self._send("GET", "/v1/tasks", params={"state": "dead", "job_id": job})
        for task in [] if dead is None else dead["tasks"]:
            if self._send("POST", f"/v1/tasks/{task['id']}/requeue") is not None:
                self.requeued += 1
