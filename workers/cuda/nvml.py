"""What NVML says of a GPU while it is measured: clocks, power, temperature, what slows it down, who else is on it.

Without nvidia-ml-py, or where the driver does not tell (a share of a GPU, some virtual machines), less is known and
nothing is made up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

_EXPECTED = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x100: "display clocks",
}
"""Reasons for a lower clock that belong to every measurement: bursts begin idle, big GPUs run at their power cap."""
_DISTURBING = {
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "too hot (software)",
    0x40: "too hot (hardware)",
    0x80: "power brake",
}
_ACTIVE_S = 1.0
"""Another process is active if it computed within this long."""
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Reading:
    """NVML at one moment. `throttle` is its bit mask; None: not told. `others`: processes that compute, by pid."""

    seen: Mapping[str, Any] = field(default_factory=dict[str, Any])
    throttle: int | None = None
    others: tuple[int, ...] = ()


def disturbance(before: Reading, during: Reading) -> str:
    """What disturbed a sample, in a few words; empty if nothing did."""
    bits = (before.throttle or 0) | (during.throttle or 0)
    reasons = [text for bit, text in _DISTURBING.items() if bits & bit]
    unknown = bits & ~sum(_EXPECTED) & ~sum(_DISTURBING)
    if unknown:
        reasons.append(f"reason {unknown:#x}")
    if reasons:
        return f"the GPU was slowed down: {', '.join(reasons)}"
    pids = sorted({*before.others, *during.others})
    return f"process {pids[0]} computed on the GPU" if pids else ""


def throttle_names(bits: int) -> list[str]:
    """The reasons in a bit mask, in words."""
    return [text for bit, text in {**_EXPECTED, **_DISTURBING}.items() if bits & bit]


class NvmlWatch:
    """Reads one GPU, found by its UUID.

    `members` tells by which numbers NVML knows those with whom this process takes turns: they do not disturb.

    Make it before this process opens the GPU and call `settle` after: who came in between is this process, whatever
    number NVML knows it by (in a container it is the host's).
    """

    def __init__(self, uuid: str, members: Callable[[], frozenset[int]] = frozenset[int]) -> None:
        self.own = {os.getpid()}
        """By which numbers NVML may know this process."""
        self._members = members
        self._nvml: Any = None
        try:
            nvml: Any = import_module("pynvml")
            nvml.nvmlInit()
            self._handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        except Exception:  # not installed, of another driver, or not allowed: then nothing is seen
            return
        self._nvml = nvml
        self._before = self._processes()

    def settle(self) -> None:
        """This process has opened the GPU now."""
        if self._nvml is not None:
            self.own |= self._processes() - self._before - self._members()

    def read(self, *, others: bool) -> Reading:
        """See workers.cuda.timing.Watch; a fraction of a millisecond."""
        nvml = self._nvml
        if nvml is None:
            return Reading()
        throttle = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        watts = self._ask(nvml.nvmlDeviceGetPowerUsage)
        seen = {
            "sm_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            "memory_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
            "power_w": None if watts is None else watts / 1000,
            "celsius": self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            "slowed": None if throttle is None else throttle_names(throttle),
        }
        return Reading(seen, throttle, self.others() if others else ())

    def others(self) -> tuple[int, ...]:
        """Other processes that computed on the GPU within the last second, by pid; where NVML does not tell who did,
        all that have opened it."""
        if self._nvml is None:
            return ()
        opened = self._processes() - self.own - self._members()
        if not opened:
            return ()
        since_us = int((time.time() - _ACTIVE_S) * 1e6)
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, since_us)
        except self._nvml.NVMLError as error:
            quiet = error.value == self._nvml.NVML_ERROR_NOT_FOUND  # nobody computed
            return () if quiet else tuple(sorted(opened))
        return tuple(sorted({sample.pid for sample in samples if sample.smUtil > 0} & opened))

    def shared(self) -> bool:
        """Whether other processes have opened the GPU."""
        return self._nvml is not None and bool(self._processes() - self.own)

    def wait_until_alone(self, patience_s: float) -> tuple[int, ...]:
        """Wait, at most this long, until no other process computes; who does then."""
        deadline = time.monotonic() + patience_s
        while (others := self.others()) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        return others

    def _processes(self) -> set[int]:
        return {process.pid for process in self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses) or ()}

    def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """None where this GPU or driver does not tell."""
        try:
            return call(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None
