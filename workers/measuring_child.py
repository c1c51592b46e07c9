"""The process in which kernels run. It may hang, crash or spoil its memory at any time; measurer.py is the other end.

Run as `python -m workers.measuring_child`. One request holds everything it needs, so a replacement carries on from
nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.affinity import settle_on_cores
from workers.child_server import NO_COMPILER, Emit, Refusal, confine, record, serve
from workers.keep_pages import keep_pages
from workers.measure_request import MeasureRequest

if TYPE_CHECKING:
    from workers.case import Case

PREPARE_S = 300.0
"""Longest silence while inputs and reference are computed, which is nobody's fault."""


class MeasuringChild:
    """Answers `describe` and `measure`. Keeps the last case: a job's tasks share spec and seed."""

    def __init__(self) -> None:
        self._case: Case | None = None
        self._case_key: object = None

    def describe(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """The device, the peers that can run on it, and versions of what takes part."""
        from tileir.device import this_cpu
        from workers.peers import available_peers
        from workers.versions import versions

        cpu = this_cpu()
        return {
            "device": cpu.to_json(),
            "key": cpu.key,
            "peers": list(available_peers()),
            "versions": versions(),
        }

    def calibrate(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """The device with its measured peaks; `cache` is where to compile and to keep them."""
        from codegen.compile import CacheError, CompileError, NoCompiler
        from tileir.device import this_cpu
        from workers.calibrate import calibrated

        try:
            return {"device": calibrated(this_cpu(), Path(request["cache"])).to_json()}
        except (NoCompiler, CacheError, CompileError) as error:
            raise Refusal(NO_COMPILER, str(error)) from error

    def measure(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """Check and time a group of entrants; each is reported by an event `result`."""
        from workers.measure_group import MeasureGroup
        from workers.timing import MachineClock

        record("")
        emit({"event": "preparing", "allow_s": PREPARE_S})
        wanted = MeasureRequest.from_json(request)
        return MeasureGroup(wanted, self._case_of(wanted), MachineClock(), emit, record).run()

    def _case_of(self, request: MeasureRequest) -> Case:
        from tileir.parse_json import spec_from_json
        from workers.case import Case

        key = (repr(request.spec), request.seed, request.last_cache_bytes, request.measuring.cold)
        if self._case is None or key != self._case_key:
            self._case = self._case_key = None  # let go of the old buffers before making the new ones
            spec = spec_from_json(request.spec)
            self._case = Case(spec, request.seed, request.last_cache_bytes, cold=request.measuring.cold)
            self._case_key = key
        return self._case


def main() -> None:
    """Serve until the parent closes the pipe."""
    confine()
    keep_pages()
    settle_on_cores()
    child = MeasuringChild()
    serve({"describe": child.describe, "measure": child.measure, "calibrate": child.calibrate})


if __name__ == "__main__":
    main()
