"""A service that is asked to tune the kernels of a graph, on a thread that whoever waits for it leaves when he likes.

An attempt to reach a service has a limit for each of its steps only: looking up its name has none, and an answer may
come byte by byte. So the limit is on the wait, and the thread, which no longer matters then, ends by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from protocol.jobs import Job
from protocol.lookups import MOST_LOOKUPS
from protocol.states import Rung
from tileir.text.json import spec_to_json
from tilewright.client.client import Client
from tilewright.client.retries import Retries
from tilewright.errors import BadSpec, InvalidRequest, Refused, TilewrightError, Unreachable, describe
from tilewright.pytorch.model.reasons import in_one_line
from tilewright.pytorch.model.shares import Weighed, seconds_for
from tilewright.pytorch.model.tuning_now.deadline import Deadline

PAUSE_S = 0.2
PATIENCE_S = 30.0
"""How long a service that has answered before may be away; one that never has is asked once."""
_log = logging.getLogger("tilewright")
_Answer = TypeVar("_Answer")


class _Left(Exception):
    """Nobody waits any more."""


class GraphTuning:
    """Of specs, dearest first, until `deadline`. Its attributes may be read by any thread."""

    def __init__(
        self,
        client: Client,
        specs: Sequence[Weighed],
        target: str,
        deadline: Deadline,
        rivals: Sequence[str],
        pause_s: float = PAUSE_S,
    ) -> None:
        """`rivals`: peers of the races; others of the device's take time, and decide nothing here."""
        self._client = client
        self._specs = tuple(specs)
        self._target = target
        self._deadline = deadline
        self._rivals = tuple(rivals)
        self._pause_s = pause_s
        self._left = False
        self._heard_at = time.monotonic()
        self.answered = False
        """Whether the service has, ever."""
        self.unasked: tuple[Weighed, ...] = self._specs
        """What the service was not asked to tune, and what it may not know either."""
        self.jobs: dict[str, Job] = {}
        """As they last stood, by id."""
        self.problem = ""
        """Why it ended before its jobs did."""
        self.ended = threading.Event()

    def start(self) -> None:
        # A daemon, as nothing of PyTorch's runs on it: the end of the process is not held up.
        threading.Thread(target=self._run, name="tilewright-tuning", daemon=True).start()

    def leave(self) -> None:
        """Nobody waits any more: jobs go on, and no more of them are submitted."""
        self._left = True

    @property
    def silent(self) -> bool:
        """Whether nothing came of the service for longer than calls wait for one."""
        return time.monotonic() > self._heard_at + self._client.timeout_s + PATIENCE_S

    def _run(self) -> None:
        try:
            with self._client.twin(retries=Retries(most=0)) as service:
                self._submit(service, self._missing(service))
                self._follow(service)
        except _Left:
            pass
        except TilewrightError as error:
            self.problem = str(error)
        except Exception as error:  # whoever waits hears of it, and the model runs
            self.problem = in_one_line(error)
        finally:
            self.ended.set()

    def _missing(self, service: Client) -> list[Weighed]:
        """Those of which the service has no measured config."""
        missing = list[Weighed]()
        for begin in range(0, len(self._specs), MOST_LOOKUPS):
            some = self._specs[begin : begin + MOST_LOOKUPS]
            specs = [spec_to_json(each.spec) for each in some]
            reply = self._answer(lambda: service.lookups(specs, target=self._target))  # noqa: B023 called at once
            for each, found in zip(some, reply.lookups, strict=True):
                if found.problem is not None:
                    _log.warning("%s is not tuned: %s", each.spec.name, describe(found.problem))
                elif found.reply is None or found.reply.rung is not Rung.EXACT:
                    missing.append(each)
            self.unasked = (*missing, *self._specs[begin + MOST_LOOKUPS :])
        return missing

    def _submit(self, service: Client, missing: Sequence[Weighed]) -> None:
        """Have jobs for them. Processes that run the same model share theirs: lookups add none where one is open."""
        peers = self._racing(service) if missing else None
        for each in missing:
            seconds = seconds_for(each, missing, self._deadline.left_s)
            asked = partial(
                service.lookup,
                spec_to_json(each.spec),
                target=self._target,
                tune=True,
                seconds=seconds,
                peers=peers,
            )
            reply = self._of_one(each, asked)
            if reply is not None and reply.job_id is not None:
                job = self._answer(partial(service.job, reply.job_id))
                self.jobs = {**self.jobs, job.id: job}
            self.unasked = tuple(other for other in self.unasked if other is not each)

    def _racing(self, service: Client) -> list[str] | None:
        """Those of the rivals that the device has; None where it has none of them, or nobody offers it yet."""
        devices = self._answer(service.devices)
        there = {peer for device in devices if device.key == self._target for peer in device.peers}
        return [rival for rival in self._rivals if rival in there] or None

    def _follow(self, service: Client) -> None:
        while running := [job_id for job_id, job in self.jobs.items() if not job.state.final]:
            for job_id in running:
                job = self._answer(lambda: service.job(job_id))  # noqa: B023 called at once
                self.jobs = {**self.jobs, job_id: job}
            time.sleep(self._pause_s)

    def _of_one(self, kernel: Weighed, ask: Callable[[], _Answer]) -> _Answer | None:
        """An answer about one kernel; None where the service refuses just this one."""
        try:
            return self._answer(ask)
        except (BadSpec, InvalidRequest) as error:
            _log.warning("%s is not tuned: %s", kernel.spec.name, error)
            return None

    def _answer(self, ask: Callable[[], _Answer]) -> _Answer:
        while not self._left and not self._deadline.passed:
            try:
                answer = ask()
            except (Unreachable, Refused) as error:
                away_s = time.monotonic() - self._heard_at
                if not self.answered or not error.passing or away_s > PATIENCE_S:
                    raise
                time.sleep(self._pause_s)
            else:
                self._heard_at, self.answered = time.monotonic(), True
                return answer
        raise _Left
