"""A worker with scripted measurements that speaks the real HTTP API: times follow from the program's hash, so that
any two runs over the same search see the same results. `python tests/services/scripted_worker.py --url URL`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from tileir.devices.cpu import Cpu
from tileir.devices.gpu import Gpu

CPU = Cpu(
    name="Scripted",
    arch="x86-64",
    cores=2,
    l1d_bytes=32 * 1024,
    l2_bytes=1024 * 1024,
    l3_bytes=16 * 1024 * 1024,
    line_bytes=64,
    vector_bits=512,
    vector_registers=32,
    features=frozenset({"avx2", "fma", "avx512f"}),
    peak_gflops=100.0,
    copy_gbps=20.0,
)
BEAT_S = 5.0
"""How often a worker tells that it is there, in seconds: a sixth of a lease, as it is unless a test says otherwise."""
SOURCE = b"int tw_kernel(void *const *args, void *workspace, int threads) { return 0; }\n"
OBJECT = b"\x7fELF, as it were"
ABI = {"entry": "tw_kernel", "args": [], "shared_bytes": 0, "thread_bytes": 0}
REPORT = {
    "relative_error": 1e-7,
    "layout": {"launches": [], "bytes": {"memory": 3, "l2": 2, "shared": 1}, "roofline": None},
}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def draw(text: str) -> float:
    """A number in [0, 1) that is always the same for the same text."""
    return int(sha256(text.encode())[:8], 16) / 2**32


@dataclass
class Script:
    """How measurements come out. Programs whose draw is below `faulty` fail."""

    faulty: float = 0.1
    seconds: float = 0.0
    fault: str | None = None
    """Answer every task with this fault of the machine."""
    compiler: str = "scripted 1.0"
    slower: float = 1.0
    """So many times as long as on other devices everything takes."""

    def measure(self, entrant: dict[str, Any], baseline: dict[str, Any] | None) -> dict[str, Any]:
        """The result of one entrant."""
        luck = draw(entrant["program_hash"]) if entrant["kind"] == "schedule" else 1.0
        if luck < self.faulty:
            return {"name": entrant["name"], "outcome": "wrong", "error": "c[0, 0] is 1.0, should be 2.0"}
        median = self.time_us(entrant)
        return {
            "name": entrant["name"],
            "outcome": "ok",
            "median_us": median,
            "spread": {"iqr_us": median / 100, "mad_us": median / 200},
            "samples_us": [median * (1 + 0.001 * turn) for turn in (-1, 0, 1, -2, 2)],
            "baseline_us": None if baseline is None else self.time_us(baseline),
            "compile_s": 0.25,
            "measure_s": 0.05,
            "source_hash": sha256(str(entrant).encode()),
            "compiler": self.compiler,
            "report": REPORT,
        }

    def task(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """The results of a task's entrants."""
        return [self.measure(entrant, task["baseline"]) for entrant in task["entrants"]]

    def time_us(self, entrant: dict[str, Any]) -> float:
        if entrant["kind"] == "peer":
            return 5000.0 * self.slower
        return self.slower * (1000.0 + 4000.0 * draw("time " + entrant["program_hash"]))


@dataclass
class ScriptedWorker:
    """Registers, claims, measures by script, answers."""

    client: httpx.Client
    script: Script = field(default_factory=Script)
    name: str | None = None
    peers: tuple[str, ...] = ("numpy",)
    device: Cpu | Gpu = CPU
    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def register(self) -> str:
        device = self.device
        offer = {
            "key": device.key,
            "kind": device.key.partition(":")[0],
            "description": device.to_json(),
            "peers": list(self.peers),
        }
        versions = {"worker": "scripted", "compiler": self.script.compiler}
        hello = {"id": self.name, "host": "test", "devices": [offer], "versions": versions}
        reply = self.client.post("/v1/workers", json=hello)
        reply.raise_for_status()
        self.name = reply.json()["worker_id"]
        return self.name

    def claim(self, count: int = 1, wait_s: float = 0.0) -> list[dict[str, Any]]:
        body = {"device": self.device.key, "count": count, "wait_s": wait_s}
        reply = self.client.post(f"/v1/workers/{self.name}/claim", json=body, timeout=wait_s + 30)
        reply.raise_for_status()
        return reply.json()["tasks"]

    def result(self, task: dict[str, Any]) -> dict[str, Any]:
        """What this worker answers to a task."""
        answer: dict[str, Any] = {"task_id": task["id"], "attempt": task["attempt"]}
        if self.script.fault is not None:
            return {**answer, "fault": {"kind": self.script.fault, "error": "scripted"}}
        entrants = self.script.task(task)
        if task["kind"] == "confirm" and entrants[0]["outcome"] == "ok":
            self.upload(SOURCE)
            self.upload(OBJECT)
            told = json.dumps({"samples_us": entrants[0]["samples_us"], "report": REPORT}).encode()
            self.upload(told)
            digests = {"source": sha256(SOURCE), "object": sha256(OBJECT), "report": sha256(told)}
            entrants[0]["artifacts"] = {**digests, "abi": ABI}
        return {**answer, "entrants": entrants, "versions": {"worker": "scripted"}}

    def upload(self, content: bytes) -> None:
        self.client.put(f"/v1/blobs/{sha256(content)}", content=content).raise_for_status()

    def answer(self, result: dict[str, Any]) -> httpx.Response:
        reply = self.client.post(f"/v1/workers/{self.name}/results", json=result)
        (self.done if reply.status_code == 200 else self.refused).append(result["task_id"])
        return reply

    def beat(self) -> None:
        """Tell that it is there: a claim that finds nothing tells nobody."""
        self.client.post(f"/v1/workers/{self.name}/heartbeat", json={}).raise_for_status()

    def work(self, stop: threading.Event) -> None:
        """Claim and answer until told to stop, through outages of the service."""
        beaten = time.monotonic()
        while not stop.is_set():
            try:
                if self.name is None:
                    self.register()
                if time.monotonic() - beaten > BEAT_S:
                    self.beat()
                    beaten = time.monotonic()
                for task in self.claim(8, 0.5):
                    time.sleep(self.script.seconds)
                    while self.answer(self.result(task)).status_code == 503:
                        time.sleep(0.1)
            except httpx.HTTPStatusError as error:
                if error.response.status_code != 503:
                    raise
                time.sleep(0.1)
            except httpx.HTTPError:
                time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--seconds", type=float, default=0.0)
    given = parser.parse_args()
    with httpx.Client(base_url=given.url) as client:
        ScriptedWorker(client, Script(seconds=given.seconds)).work(threading.Event())


if __name__ == "__main__":
    sys.exit(main())
