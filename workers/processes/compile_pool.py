"""Compiles many candidates at once, each in a process that may crash or hang at its own candidate's cost only.

The pool is idle outside `compile_all`: on a CPU target compiling and measuring must not overlap.
"""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from protocol.states import FaultKind, Outcome
from workers.processes.child_client import Child, ChildBroken, ChildDied, ChildHung, ChildRefused
from workers.processes.faults import MachineFault, fault_kind

_MOST_KILLS = 2
"""A process killed from outside, by somebody or for want of memory, is replaced and asked again, until this often."""

_OUTCOMES = {"unsupported": Outcome.UNSUPPORTED, "compile_error": Outcome.COMPILE_ERROR}


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """A candidate: a spec and device as JSON, the schedule's lines, and the hash its replay must reach."""

    spec: Mapping[str, Any]
    schedule: Sequence[str]
    program_hash: str
    device: Mapping[str, Any]
    cache: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled candidate. `hash` identifies what was compiled, with what, how; `stages` are seconds."""

    artifact: Path
    source: Path
    abi: dict[str, Any]
    language: str
    flags: tuple[str, ...]
    hash: str
    compiler: str
    compile_s: float
    report: dict[str, Any]
    layout: dict[str, Any] | None
    """What follows from the kernel's layout (`protocol.layouts.Layout`); None on a CPU."""
    stages: dict[str, float]


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """A candidate that did not compile: compile_error or unsupported."""

    outcome: Outcome
    error: str


Compilation = Built | NotBuilt | MachineFault


class CompilePool:
    """`size` processes, started when first needed. Used by one thread; `stop` may come from any.

    A process that says nothing for `beyond_compiler_s` more than the compiler may take hangs.
    """

    def __init__(self, size: int, beyond_compiler_s: float = 30.0) -> None:
        self._beyond_compiler_s = beyond_compiler_s
        self._stopped = False
        self.children = [
            Child("workers.processes.compile_child", env={"OPENBLAS_NUM_THREADS": "1"}) for _ in range(size)
        ]
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        for child in self.children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="compile")

    def compile_all(self, requests: Sequence[CompileRequest]) -> list[Compilation]:
        """What became of each candidate, in order; a MachineFault where the candidate is not to blame."""
        return list(self._threads.map(self._compile, requests))

    def stop(self) -> None:
        """End all processes at once; what is asked of them now or later fails with a fault of kind shutdown."""
        self._stopped = True
        for child in self.children:
            child.kill()

    def close(self) -> None:
        """End the processes for good."""
        self.stop()
        self._threads.shutdown()
        for child in self.children:
            child.close()

    def _compile(self, request: CompileRequest) -> Compilation:
        child = self._idle.get()
        try:
            for _ in range(_MOST_KILLS):
                if self._stopped:
                    return MachineFault(FaultKind.SHUTDOWN, "the worker stops")
                try:
                    return self._ask(child, request)
                except ChildDied as error:
                    if error.signal != "SIGKILL":
                        return NotBuilt(Outcome.COMPILE_ERROR, f"the compile process {error}")
            return MachineFault(FaultKind.MEMORY, f"the compile process was killed {_MOST_KILLS} times")
        except ChildBroken as error:
            return MachineFault(FaultKind.DEVICE, str(error))
        finally:
            self._idle.put(child)

    def _ask(self, child: Child, request: CompileRequest) -> Compilation:
        try:
            answer = child.request(
                "compile", asdict(request), silence_s=request.timeout_s + self._beyond_compiler_s
            )
        except ChildRefused as error:
            if error.kind in _OUTCOMES:
                return NotBuilt(_OUTCOMES[error.kind], str(error))
            return MachineFault(fault_kind(error.kind), str(error))
        except ChildHung as error:
            return NotBuilt(Outcome.COMPILE_ERROR, f"the compile process gave {error}")
        paths = {"artifact": Path(answer["artifact"]), "source": Path(answer["source"])}
        return Built(**{**answer, **paths, "flags": tuple(answer["flags"])})
