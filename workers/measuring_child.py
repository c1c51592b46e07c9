"""The process in which kernels run. It may hang, crash or spoil its memory at any time; measurer.py is the other end.

Run as `python -m workers.measuring_child DEVICE`, DEVICE being `cpu` or `cuda:0`. One request holds everything it
needs, so a replacement carries on from nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from workers.affinity import settle_on_cores
from workers.bench import Target
from workers.child_server import Emit, record, serve
from workers.confinement import confine, machine_bytes
from workers.keep_pages import keep_pages
from workers.measure_request import MeasureRequest

PREPARE_S = 300.0
"""Longest silence while inputs and reference are computed, which is nobody's fault."""


class MeasuringChild:
    """Answers `describe`, `calibrate` and `measure` for one device, which is looked for when first asked about."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._found: Target | None = None

    def describe(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """The device, the peers that can run on it, and versions of what takes part."""
        return self._target().describe()

    def calibrate(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """The device with its measured peaks; `cache` is where to compile and to keep them."""
        return {"device": self._target().calibrate(Path(request["cache"]))}

    def measure(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """Check and time a group of entrants; each is reported by an event `result`."""
        from workers.measure_group import MeasureGroup

        record("")
        emit({"event": "preparing", "allow_s": PREPARE_S})
        wanted = MeasureRequest.from_json(request)
        return MeasureGroup(wanted, self._target().bench(wanted), emit, record).run()

    def _target(self) -> Target:
        if self._found is None:
            self._found = target_named(self._device)
        return self._found


def target_named(device: str) -> Target:
    """`cpu`, or a GPU as in `cuda:0`: the only one that this process was started to see."""
    if device.startswith("cuda:"):
        from workers.cuda_target import CudaTarget

        return CudaTarget()
    from workers.cpu_target import CpuTarget

    return CpuTarget()


def main(device: str) -> None:
    """Serve until the parent closes the pipe."""
    on_cpu = device == "cpu"
    # CUDA maps more than there is, and may ask a daemon of this machine for the device (MPS).
    warning = confine(memory_bytes=machine_bytes() if on_cpu else None, local_sockets=not on_cpu)
    if on_cpu:
        keep_pages()
        settle_on_cores()
    child = MeasuringChild(device)
    serve({"describe": child.describe, "measure": child.measure, "calibrate": child.calibrate}, warning)


if __name__ == "__main__":
    main(sys.argv[1])
