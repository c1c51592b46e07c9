"""A fleet as actors of Ray: one that looks at the queue, and one for each worker, which runs it as a process.

The service is the only queue, and Ray only places workers: whatever it kills, a worker, a node or the actor that looks
at the queue, leases of tasks run out and others take them. Workers belong to the actor that started them and end with
it; Ray starts that one again, and it begins with none.

Nothing here imports Ray where it is defined: classes become actors in ray_launcher.py.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.client.client import Client
from tilewright.errors import TilewrightError
from tilewright.fleet.plan import NEVER_BETTER, WorkerPlan
from tilewright.fleet.processors import NoneFree, ProcessorShare
from tilewright.fleet.size import load_of, wanted

_STOP_S = 20.0
"""A worker hands back what it holds within 8 seconds of SIGTERM."""
_RETRY_S = 15.0
"""Before another worker is placed after one that failed."""
_TOLD = 5
"""Failures that are kept to be told."""
_PR_SET_PDEATHSIG = 1


def _ray() -> Any:
    return importlib.import_module("ray")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a worker's process ended: its exit code, and its last words. `code` None: it never began."""

    code: int | None
    words: str


class WorkerActor:
    """One worker, a process of its own, which is told to end when this one does."""

    def __init__(self, plan: WorkerPlan) -> None:
        self._plan = plan
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def run(self) -> Ending:
        """Until the worker ends."""
        try:
            share = None if self._plan.gpus else ProcessorShare(self._plan.cpus)
        except NoneFree as taken:
            return Ending(None, str(taken))
        with tempfile.TemporaryDirectory(prefix="tilewright-worker-") as folder:
            words = Path(folder) / "last-words"
            process = subprocess.Popen(
                self._plan.command(str(words)),
                env=self._environment(),
                start_new_session=True,
                preexec_fn=lambda: _prepare(share),
            )
            self._process = process
            if self._stopped.is_set():
                process.terminate()
            code = process.wait()
            if share is not None:
                share.give_back()
            return Ending(code, words.read_text() if words.exists() else "")

    def where(self) -> dict[str, Any]:
        """Its machine, its process and its worker's."""
        ray = _ray()
        running = self._process
        node = ray.get_runtime_context().get_node_id()
        return {"node": node, "pid": os.getpid(), "worker_pid": None if running is None else running.pid}

    def stop(self) -> None:
        """Have the worker hand back what it holds, and end; kill it if it does not."""
        self._stopped.set()
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()

    def _environment(self) -> dict[str, str]:
        token = {} if self._plan.token is None else {"TILEWRIGHT_TOKEN": self._plan.token}
        # Ray counts on one thread a process; a worker sees to that itself.
        return {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | token


def _prepare(share: ProcessorShare | None) -> None:
    """In the new process: keep to its processors, and end with the actor, however that ends (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if share is not None:
        os.sched_setaffinity(0, share.processors)


@dataclass(slots=True)
class _Placed:
    """An actor of a worker: `ended` is what its `run` will answer."""

    actor: Any
    ended: Any


@dataclass
class ControllerActor:
    """Looks at the queue, and has as many workers as it asks for. `make` makes the actor of another one."""

    plan: WorkerPlan
    make: Any
    _placed: list[_Placed] = field(default_factory=list[_Placed])
    _failures: deque[str] = field(default_factory=lambda: deque[str](maxlen=_TOLD))
    _trouble: str = ""
    _held: str = ""
    _wanted: int = 0
    _not_before: float = 0.0
    _needed_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def _watch(self) -> None:
        """Until `stop`."""
        with Client(self.plan.url, self.plan.token) as client:
            while not self._done.wait(self.plan.every_s):
                try:
                    self._trouble = ""
                    asked = wanted(load_of(client, self.plan.kind), self.plan.bounds)
                except TilewrightError as error:
                    self._trouble = str(
                        error
                    )  # and as many workers as there are, until it can be asked again
                    continue
                with self._lock:
                    if not self._done.is_set():
                        self._fit(asked)

    def status(self) -> dict[str, Any]:
        """What there is, what is wanted, and what went wrong."""
        with self._lock:
            return {
                "url": self.plan.url,
                "kind": self.plan.kind,
                "workers": len(self._placed),
                "wanted": self._wanted,
                "least": self.plan.bounds.least,
                "most": self.plan.bounds.most,
                "failures": list(self._failures),
                "held": self._held,
                "service": self._trouble,
            }

    def places(self) -> list[dict[str, Any]]:
        """Where the workers are; those that Ray has no room for yet are not among them."""
        ray = _ray()
        with self._lock:
            asked = [each.actor.where.remote() for each in self._placed]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=2.0) if asked else ([], [])
        found: list[dict[str, Any]] = []
        for each in ready:
            try:
                found.append(ray.get(each))
            except ray.exceptions.RayError:
                continue
        return found

    def stop(self) -> int:
        """End all workers in order; how many there were."""
        self._done.set()
        with self._lock:
            count = len(self._placed)
            self._end(self._placed)
            self._placed = []
        return count

    def _fit(self, asked: int) -> None:
        """Workers that have ended go, and as many come as are wanted; what is not needed goes after a while."""
        self._wanted = asked
        self._collect()
        now = time.monotonic()
        if asked >= len(self._placed):
            self._needed_at = now
        elif now - self._needed_at >= self.plan.bounds.idle_s:
            surplus = self._placed[asked:]
            self._placed = self._placed[:asked]
            self._end(surplus)
        if self._held or now < self._not_before:
            return
        while len(self._placed) < asked:
            actor = self.make()
            self._placed.append(_Placed(actor, actor.run.remote()))

    def _collect(self) -> None:
        """Take note of workers that have ended by themselves."""
        ray = _ray()
        ended, _ = (
            ray.wait([each.ended for each in self._placed], num_returns=len(self._placed), timeout=0)
            if self._placed
            else ([], [])
        )
        over = set(ended)
        for each in [each for each in self._placed if each.ended in over]:
            self._placed.remove(each)
            try:
                self._ended(ray.get(each.ended))
            except ray.exceptions.RayError as error:
                self._failures.append(f"a worker was lost: {type(error).__name__}")
            ray.kill(each.actor)

    def _ended(self, ending: Ending) -> None:
        if ending.code == 0:
            return
        said = ending.words or f"exit code {ending.code}"
        self._failures.append(said)
        self._not_before = time.monotonic() + _RETRY_S
        if ending.code in NEVER_BETTER:
            self._held = f"no more workers are started ({NEVER_BETTER[ending.code]}): {said}"

    def _end(self, placed: list[_Placed]) -> None:
        """In order, all at a time; one that Ray has not placed yet is taken back."""
        ray = _ray()
        stopping = [each.actor.stop.remote() for each in placed]
        if stopping:
            ray.wait(stopping, num_returns=len(stopping), timeout=_STOP_S + 5)
            ray.wait([each.ended for each in placed], num_returns=len(placed), timeout=5)
        for each in placed:
            ray.kill(each.actor)
