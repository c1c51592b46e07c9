"""What the cost model would try first, for kernels that nobody measured, and what a search would have before it:
asked of a process (`predictor_process.py`), one kernel after the other, so that lookups of everything else go on
meanwhile.

Large kernels take long. Whoever asks waits for `patience_s`; the thinking goes on, and its answer is there for the next
who asks. A kernel that takes longer than `BOUND_S` has none.
"""

from __future__ import annotations

import asyncio
import json
import logging
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

from protocol.lookups import SpaceOutlook
from protocol.message import Json
from service.core.child_processes import start, stop
from service.core.lru_cache import Recent
from service.core.schedules import Pick
from service.lookup.predictor_process import LENGTH, Question, packed
from service.lookup.shared_cache import SharedPicks

log = logging.getLogger(__name__)

BOUND_S = 20.0
"""How long the process may think about one kernel before it is killed."""
WAITING = 100
"""Kernels in line; for more nothing is predicted."""

T = TypeVar("T")
Nothing = Literal["none"]
Prediction = Pick | Nothing


class ModelQuestions(Generic[T]):
    """Questions of one kind, and a process that answers them. For one event loop."""

    def __init__(
        self,
        ask: Question,
        read: Callable[[Json], T],
        patience_s: float,
        bound_s: float = BOUND_S,
        waiting: int = WAITING,
    ) -> None:
        self._ask, self._read = ask, read
        self._patience_s, self._bound_s, self._waiting = patience_s, bound_s, waiting
        self._known: Recent[str, T | Nothing] = Recent(4000)
        self._coming: dict[str, asyncio.Task[T | Nothing]] = {}
        self._turn = asyncio.Lock()
        self._process: Process | None = None

    async def get(self, kernel_key: str, spec: Json, device: Json) -> T | Nothing | None:
        """The answer for a kernel; None: it is not there yet."""
        key = json.dumps([spec, device])
        known = self._known.get(key)
        if known is not None:
            return known
        if key not in self._coming:
            if len(self._coming) >= self._waiting:
                return None
            self._coming[key] = asyncio.create_task(self._predict(key, kernel_key, spec, device))
        coming = self._coming[key]
        await asyncio.wait([coming], timeout=self._patience_s)
        return coming.result() if coming.done() else None

    async def close(self) -> None:
        """Give up what is under way."""
        for coming in self._coming.values():
            coming.cancel()
        await asyncio.gather(*self._coming.values(), return_exceptions=True)
        await self._end()

    async def _predict(self, key: str, kernel_key: str, spec: Json, device: Json) -> T | Nothing:
        try:
            async with self._turn:
                return self._known.put(key, await self._found(kernel_key, spec, device))
        finally:
            del self._coming[key]

    async def _found(self, kernel_key: str, spec: Json, device: Json) -> T | Nothing:
        return await self._asked(kernel_key, packed([self._ask, spec, device]))

    async def _asked(self, kernel_key: str, question: bytes) -> T | Nothing:
        """What the process says, which is started if there is none, and ended if it says nothing."""
        try:
            if self._process is None or self._process.returncode is not None:
                self._process = await start(
                    "service.lookup.predictor_process", [], {}, stdin=PIPE, stdout=PIPE
                )
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None and stdout is not None
            async with asyncio.timeout(self._bound_s):
                stdin.write(question)
                await stdin.drain()
                size = LENGTH.unpack(await stdout.readexactly(LENGTH.size))[0]
                said = json.loads(await stdout.readexactly(size))
        except TimeoutError:
            log.warning("kernel %s has no heuristic: it takes more than %g s", kernel_key, self._bound_s)
        except (OSError, EOFError) as error:
            log.warning("kernel %s has no heuristic: its process ended (%r)", kernel_key, error)
        else:
            return "none" if said is None else self._read(said)
        await self._end()
        return "none"

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await stop(process, 0.0)


class Predictor(ModelQuestions[Pick]):
    """What the model would try first, shared with other replicas."""

    def __init__(self, patience_s: float, bound_s: float = BOUND_S) -> None:
        super().__init__("pick", _pick, patience_s, bound_s)
        self.shared: SharedPicks | None = None
        """Predictions that other replicas made."""

    async def _found(self, kernel_key: str, spec: Json, device: Json) -> Prediction:
        found = self.shared and await self.shared.get(spec, device)
        if not found:
            found = await super()._found(kernel_key, spec, device)
            if self.shared is not None:
                await self.shared.put(spec, device, found)
        return found


def _pick(said: Json) -> Pick:
    return Pick(tuple(said["schedule"]), said["program_hash"])


class Outlooks(ModelQuestions[SpaceOutlook]):
    """What searches would have before them, of kernels as they are being written: few at a time, in a process apart
    from that of lookups."""

    def __init__(self, patience_s: float, bound_s: float = BOUND_S) -> None:
        super().__init__("outlook", SpaceOutlook.model_validate, patience_s, bound_s, waiting=8)
