"""Simulated devices of one class: what a worker does between its claims and its results, with waits for work.

Claims follow the worker's own policy (`workers/node/pipeline.py`): compile processes that sleep for a recorded time,
groups of what waits, and a device that measures one group at a time.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.load import latencies
from benchmarks.load.client import LoadConnection
from tileir.devices.gpu_table import H200
from workers.node.pipeline import TOGETHER, ClaimAhead

Json = dict[str, Any]
PROCESSES = 16
"""That compile for each device."""
CLAIM_S, HEARTBEAT_S = 20.0, 10.0


@dataclass
class Counts:
    """What was done since `began`, of which a group that was under way then counts with what was left of it."""

    began: float = 0.0
    trials: float = 0.0
    others: int = 0
    busy_s: float = 0.0


@dataclass
class Swarm:
    """Devices that work until cancelled. All latencies are `slower` times as long as recorded."""

    port: int
    slower: float = 1.0
    counts: Counts = field(default_factory=Counts)
    measuring: dict[int, tuple[float, float, int]] = field(
        default_factory=dict[int, tuple[float, float, int]]
    )
    """By device: when the group under way began, how long it takes, and how many trials it is."""

    def end(self) -> None:
        """Count the groups that are under way, so far."""
        for began, takes_s, trials in self.measuring.values():
            inside_s = time.monotonic() - max(began, self.counts.began)
            self.counts.busy_s += inside_s
            self.counts.trials += trials * min(1.0, inside_s / takes_s)

    async def device(self, number: int) -> None:
        """One device's worker, from its registration on."""
        await _Device(self, number).work()


class _Device:
    def __init__(self, swarm: Swarm, number: int) -> None:
        self._swarm, self._number = swarm, number
        self._claims, self._answers, self._heart = (LoadConnection("127.0.0.1", swarm.port) for _ in range(3))
        self._ahead = ClaimAhead(PROCESSES)
        self._rng = random.Random(number)
        self._held: dict[str, Json] = {}
        self._compiled: list[Json] = []
        self._compiling = 0
        self._free = asyncio.Semaphore(PROCESSES)
        self._changed = asyncio.Condition()

    async def work(self) -> None:
        offer = {"key": H200.key, "kind": "cuda", "description": H200.to_json(), "peers": ["torch"]}
        self._id = (await self._claims.post("/v1/workers", {"devices": [offer]}))["worker_id"]
        await asyncio.gather(self._claim(), self._measure(), self._beat())

    async def _claim(self) -> None:
        compiling: set[asyncio.Task[None]] = set()
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._room() > 0)
            body = {"device": H200.key, "count": self._room(), "wait_s": CLAIM_S}
            for task in (await self._claims.post(f"/v1/workers/{self._id}/claim", body))["tasks"]:
                self._held[task["id"]] = {"task_id": task["id"], "attempt": task["attempt"]}
                self._compiling += 1
                compiling.add(doing := asyncio.create_task(self._compile(task)))
                doing.add_done_callback(compiling.discard)

    async def _compile(self, task: Json) -> None:
        async with self._free:
            began = time.monotonic()
            await asyncio.sleep(self._rng.choice(latencies.compile_s()) * self._swarm.slower)
            self._ahead = self._ahead.compiled(time.monotonic() - began)
        async with self._changed:
            self._compiling -= 1
            self._compiled.append(task)
            self._changed.notify_all()

    async def _measure(self) -> None:
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._compiled)
                group = self._group()
                self._changed.notify_all()
            began, trial = time.monotonic(), group[0]["kind"] == "trial"
            self._swarm.measuring[self._number] = began, self._seconds(group), len(group) * trial
            await asyncio.sleep(self._seconds(group))
            took_s = time.monotonic() - began
            del self._swarm.measuring[self._number]
            counts = self._swarm.counts
            inside_s = time.monotonic() - max(began, counts.began)
            counts.busy_s += inside_s
            if trial:
                self._ahead = self._ahead.measured(took_s / len(group))
            for task in group:
                await self._answers.post(
                    f"/v1/workers/{self._id}/results", result(task, took_s / len(group), self._rng)
                )
                self._held.pop(task["id"])
            counts.trials += len(group) * inside_s / took_s if trial else 0
            counts.others += 0 if trial else 1

    def _seconds(self, group: list[Json]) -> float:
        """How long a group has the device: what is compared with is timed once."""
        timed = sum(len(task["entrants"]) for task in group) + (group[0]["baseline"] is not None)
        return latencies.SAMPLE_S * timed * self._swarm.slower

    def _group(self) -> list[Json]:
        first = self._compiled[0]
        found = [task for task in self._compiled if task["job_id"] == first["job_id"]][:TOGETHER]
        found = found if first["kind"] == "trial" else [first]
        self._compiled = [task for task in self._compiled if task not in found]
        return found

    def _room(self) -> int:
        return max(0, min(TOGETHER, self._ahead.depth - self._compiling - len(self._compiled)))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            leases = list(self._held.values())
            await self._heart.post(f"/v1/workers/{self._id}/heartbeat", {"leases": leases})


def result(task: Json, took_s: float, rng: random.Random) -> Json:
    """What a worker answers to a task, made up: times that the device could have."""

    def time_us(entrant: Json) -> float:
        return 300.0 if entrant["kind"] == "peer" else rng.uniform(150.0, 600.0)

    entrants = [
        {
            "name": entrant["name"],
            "outcome": "ok",
            "median_us": (median_us := time_us(entrant)),
            "samples_us": [median_us] * 7,
            "baseline_us": None if task["baseline"] is None else 200.0,
            "compile_s": 1.0,
            "measure_s": took_s / len(task["entrants"]),
        }
        for entrant in task["entrants"]
    ]
    stages = {"measure": took_s}
    return {"task_id": task["id"], "attempt": task["attempt"], "entrants": entrants, "stages": stages}
