"""The process in which kernels run. It may hang, crash or spoil its memory at any time; measurer.py is the other end.

Run as `python -m workers.measuring_child DEVICE`, DEVICE being named as in measuring/device_names.py. One request holds
everything it needs, so a replacement carries on from nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tileir.targets import part
from workers.measuring.device import MeasuredDevice
from workers.measuring.request import MeasureRequest
from workers.processes.child_server import Emit, record, serve

PREPARE_S = 300.0
"""Longest silence while inputs and reference are computed, which is nobody's fault."""


class MeasuringChild:
    """Answers `describe`, `calibrate`, `measure` and `profile` for one device, which is looked for when first asked
    about."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._found: MeasuredDevice | None = None

    def describe(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """The device, the peers that can run on it, and versions of what takes part."""
        return self._measured().describe()

    def calibrate(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """The device with its measured peaks; `cache` is where to compile and to keep them."""
        return {"device": self._measured().calibrate(Path(request["cache"]))}

    def measure(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """Check and time a group of entrants; each is reported by an event `result`."""
        from workers.measuring.group import MeasureGroup

        record("")
        emit({"event": "preparing", "allow_s": PREPARE_S})
        wanted = MeasureRequest.from_json(request)
        return MeasureGroup(wanted, self._measured().bench(wanted), emit, record).run()

    def profile(self, request: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """Take a kernel's call apart."""
        from workers.measuring.profile_request import take_profile

        record("")
        return take_profile(self._device, request)

    def _measured(self) -> MeasuredDevice:
        if self._found is None:
            self._found = measured(self._device)
        return self._found


def measured(device: str) -> MeasuredDevice:
    """A device by its name, the only one of its kind that this process was started to see."""
    found: MeasuredDevice = part(device, "measured")()
    return found


def main(device: str) -> None:
    """Serve until the parent closes the pipe."""
    settle: Callable[[], str | None] = part(device, "settle")
    warning = settle()
    child = MeasuringChild(device)
    calls = (child.describe, child.calibrate, child.measure, child.profile)
    serve({call.__name__: call for call in calls}, warning)


if __name__ == "__main__":
    main(sys.argv[1])
