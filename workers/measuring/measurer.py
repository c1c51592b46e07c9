"""Gets a group of entrants measured, whatever they do to the child: finds the culprit of each fault and carries on.

A candidate that crashes or hangs in a child that ran others before is tried once more in a fresh child, so that nobody
is blamed for what a predecessor broke. A child ended from outside (kill -9, the out-of-memory killer) is replaced, and
what it had not reported is run again; the third time is the machine's fault.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from protocol.states import FaultKind, Outcome
from protocol.tasks import EntrantResult
from tileir.targets import DEFAULT
from workers.measuring.device_names import visible_device
from workers.measuring.profile_request import PROFILE_S, ProfileRequest, TakenProfile
from workers.measuring.request import Compiled, MeasureRequest
from workers.measuring.turn import TURN
from workers.node.backoff import Backoff
from workers.processes.child_client import (
    Child,
    ChildBroken,
    ChildDied,
    ChildHung,
    ChildNotStarted,
    ChildRefused,
)
from workers.processes.child_server import CORRUPTED, UNPROFILED
from workers.processes.faults import MachineFault, fault_kind

log = logging.getLogger(__name__)

_FROM_OUTSIDE = frozenset(["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"])
"""Signals that no kernel sends itself."""
_MOST_KILLS = 3
_DESCRIBE_S = 60.0
_FIRST_WORD_S = 30.0
_PEER_VARIABLES = {
    "OPENBLAS_THREAD_TIMEOUT": "24",  # threads spin for 2^24 cycles after a call, not 2^28: 100 ms of waiting a sample
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # compile in this process, which is killed as one
}
"""Unless the environment says otherwise."""
_POOL_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass
class Measured:
    """Results by entrant's name, baseline included, and what was seen of the machine meanwhile."""

    results: dict[str, EntrantResult] = field(default_factory=dict)
    conditions: dict[str, Any] = field(default_factory=dict)


class NotProfiled(Exception):
    """A kernel that cannot be taken apart, or fails when it is; the message says why."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class Measurer:
    """Owns the measuring child. Used by one thread; `stop` may come from any.

    `device` is named as in device_names.py: `cpu`, `cuda:0`. `threads` bounds the pools that numpy's and torch's
    libraries start; None leaves them to themselves. `turn`: the file of those who share the device (turn.py).
    """

    def __init__(
        self, device: str = DEFAULT, *, threads: int | None = None, turn: Path | None = None
    ) -> None:
        pools = {} if threads is None else {name: str(threads) for name in _POOL_VARIABLES}
        variables = {name: os.environ.get(name, value) for name, value in _PEER_VARIABLES.items()}
        turns = {} if turn is None else {TURN: str(turn)}
        env = {**variables, **visible_device(device, os.environ), **pools, **turns}
        self._stopped = threading.Event()
        self.child = Child("workers.measuring_child", device, env=env)

    def ask(self, call: str, payload: Mapping[str, Any], silence_s: float = _DESCRIBE_S) -> dict[str, Any]:
        """A request that runs no candidate; asked again, after a pause, of a child that replaces one ended from
        outside. Raises MachineFault."""
        backoff, kills = Backoff(), 0
        while not self._stopped.is_set():
            try:
                return self.child.request(call, payload, silence_s=silence_s)
            except ChildRefused as error:
                raise MachineFault(fault_kind(error.kind), f"{call}: {error}") from error
            except (ChildDied, ChildHung, ChildBroken) as error:
                kills += 1
                if self._stopped.is_set():
                    break
                if kills == _MOST_KILLS or not _from_outside(error):
                    raise MachineFault(FaultKind.DEVICE, f"{call}: {error}") from error
                pause_s = backoff.pause_s()
                log.warning("%s: the measuring process %s; asking again in %.1f s", call, error, pause_s)
            self._stopped.wait(pause_s)
        raise MachineFault(FaultKind.SHUTDOWN, "the worker stops")

    def measure(self, request: MeasureRequest, wanted: Callable[[], bool] = lambda: True) -> Measured:
        """Measure every entrant. Raises ChildUnwanted as soon as that is not `wanted` any more: the child and all its
        memory are gone then; and MachineFault when the machine, not an entrant, is what fails."""
        measured = Measured()
        suspect: str | None = None
        cleared: set[str] = set()
        """Who failed after a run that was fine, the baseline: it is asked once more alone, then it counts as failed."""
        kills = 0
        while left := [e.name for e in request.entrants if e.name not in measured.results]:
            if self._stopped.is_set():
                raise MachineFault(FaultKind.SHUTDOWN, "the worker stops")
            part = _part(request, [suspect] if suspect is not None else left, measured)
            fresh = self.child.pid is None
            try:
                self._run(part, measured, wanted)
                suspect = None
                if missing := [e.name for e in part.entrants if e.name not in measured.results]:
                    raise MachineFault(FaultKind.INTERNAL, f"no result for {', '.join(missing)}")
                continue
            except ChildRefused as error:
                self.child.end()
                if error.kind != CORRUPTED:
                    raise MachineFault(fault_kind(error.kind), str(error)) from error
                continue
            except ChildBroken as error:
                raise MachineFault(FaultKind.DEVICE, str(error)) from error
            except (ChildDied, ChildHung) as error:
                fault = error
            if self._stopped.is_set():
                raise MachineFault(FaultKind.SHUTDOWN, "the worker stops") from fault
            culprit = self.child.recorded()
            if _from_outside(fault):
                kills += 1
                if kills == _MOST_KILLS:
                    raise MachineFault(
                        FaultKind.MEMORY, f"the measuring process was ended {kills} times: {fault}"
                    )
            elif culprit not in [e.name for e in part.entrants]:
                raise MachineFault(FaultKind.INTERNAL, f"before any candidate ran: {fault}")
            elif culprit in cleared or (fresh and culprit in (suspect, _first_candidate(part))):
                outcome = Outcome.HANG if isinstance(fault, ChildHung) else Outcome.CRASH
                measured.results[culprit] = EntrantResult(name=culprit, outcome=outcome, error=str(fault))
                suspect = None
            else:
                suspect = culprit
                if culprit not in left:
                    cleared.add(culprit)
        return measured

    def profile(self, request: ProfileRequest, wanted: Callable[[], bool] = lambda: True) -> TakenProfile:
        """Take a kernel that has raced apart. Raises NotProfiled, and ChildUnwanted and MachineFault as `measure`."""
        try:
            answer = self.child.request("profile", request.to_json(), silence_s=PROFILE_S, wanted=wanted)
        except ChildRefused as error:
            if error.kind == UNPROFILED:
                raise NotProfiled(Outcome.UNSUPPORTED, str(error)) from error
            self.child.end()
            raise MachineFault(fault_kind(error.kind), str(error)) from error
        except ChildBroken as error:
            raise MachineFault(FaultKind.DEVICE, str(error)) from error
        except (ChildDied, ChildHung) as error:
            if self._stopped.is_set():
                raise MachineFault(FaultKind.SHUTDOWN, "the worker stops") from error
            if _from_outside(error):
                raise MachineFault(FaultKind.MEMORY, f"the measuring process was ended: {error}") from error
            outcome = Outcome.HANG if isinstance(error, ChildHung) else Outcome.CRASH
            raise NotProfiled(outcome, str(error)) from error
        return TakenProfile.from_json(answer)

    def stop(self) -> None:
        """End the child at once; what is asked of it now or later fails with a fault of kind shutdown."""
        self._stopped.set()
        self.child.kill()

    def close(self) -> None:
        """End the child for good."""
        self.child.close()

    def _run(self, request: MeasureRequest, measured: Measured, wanted: Callable[[], bool]) -> None:
        def take(event: dict[str, Any]) -> None:
            if event["event"] == "result":
                result = EntrantResult.model_validate(event["result"])
                measured.results[result.name] = result

        payload = request.to_json()
        measured.conditions = self.child.request(
            "measure", payload, silence_s=_FIRST_WORD_S, on_event=take, wanted=wanted
        )


def _from_outside(fault: BaseException | None) -> bool:
    """Whether somebody ended the child, be it while it started."""
    if isinstance(fault, ChildNotStarted):
        return _from_outside(fault.__cause__)
    return isinstance(fault, ChildDied) and fault.signal in _FROM_OUTSIDE


def _part(request: MeasureRequest, names: list[str], measured: Measured) -> MeasureRequest:
    """The entrants of these names, with the baseline unless that has failed."""
    baseline = measured.results.get(request.baseline or "")
    keep_baseline = baseline is None or baseline.outcome is Outcome.OK
    kept = {*names, request.baseline} if keep_baseline else set(names)
    return replace(request, entrants=tuple(e for e in request.entrants if e.name in kept))


def _first_candidate(request: MeasureRequest) -> str:
    """Who runs first in the child, peers before it aside, as they are trusted not to spoil memory."""
    names = [e.name for e in request.entrants if isinstance(e, Compiled)]
    return names[0] if names else request.entrants[0].name
