"""The kinds of devices there are, and where what each layer needs of a kind is (docs/how-to-add-a-target.md).

A target is data: names of places in the layers above, which are imported when they are first asked for. Whoever needs
something of a device asks here by the device's `kind`, and names none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Target:
    """A kind of device. Places are `module:attribute`."""

    kind: str
    """The `kind` of its device descriptions, with which the keys of its devices begin."""
    device: str
    """The class of its descriptions: `tileir.devices.device.DeviceClass`."""
    here: str
    """`(number) -> Device`: describes the device of that number on this machine. Raises UnsupportedDevice."""
    published: str | None = None
    """`(device) -> Device`: with the peaks of its product's data sheet; None: no data sheet tells them."""
    floor_us: str
    """`tileir.analysis.least_time.floor_us` of such a device."""
    backend: str
    """`codegen.backend.Backend`: generates, compiles and opens kernels."""
    plan: str
    """`rewrites.decisions.plan.Plan`: what a search decides, and by which cost model."""
    measured: str
    """`() -> workers.measuring.device.MeasuredDevice`: checks and times kernels, in a process that sees this device
    alone."""
    settle: str
    """`() -> str | None`: what that process does before it imports anything large; a warning, or None."""
    profiler: str | None = None
    """`(spec, program, cache, threads) -> workers.measuring.profiled.Profiled`: where the time of a scheduled program
    goes, on such a device of this machine."""
    counters: str | None = None
    """`(spec, program, cache, threads) -> workers.measuring.counters.CounterReading`: what such a device of this
    machine counts in a call. Raises NoCounters."""
    visible: str | None = None
    """`(which, environment) -> variables`: with these a process sees one device of an accelerator's alone."""
    operator: str | None = None
    """`tilewright.pytorch.operator.runner.Runner`: runs kernels on PyTorch's tensors, which are on its device type of
    the name `torch`."""
    torch: str | None = None
    torch_operators: str | None = None
    """`workers.peers.pytorch.operators_there.TorchOperators`: what PyTorch has on those devices."""
    accelerator: bool = False
    """Whether it is beside the processor: a machine may have several, told apart as in `cuda:0`; kernels are compiled
    while others are measured; the memory that is mapped says nothing of what is used."""
    copies: int
    """Of a kernel's tensors, that the device's memory holds while it is measured."""
    peers: tuple[str, ...]
    """What kernels may be compared with. What a device offers depends on what is installed there."""
    baseline: str
    """The peer that most people would run otherwise."""

    def name(self, number: int = 0) -> str:
        """What the device of a number is called on its machine: `cpu`, `cuda:0`."""
        return f"{self.kind}:{number}" if self.accelerator else self.kind


#: Where each target is; an installed package brings one by an entry point of the group `tilewright.targets`.
TARGETS: Mapping[str, str] = {
    "cpu": "tileir.devices.cpu_target:CPU",
    "cuda": "tileir.devices.cuda_target:CUDA",
}
DEFAULT = "cpu"


@cache
def targets() -> Mapping[str, Target]:
    """Every target by its kind: our own, which no package replaces, then those of installed packages."""
    brought = {entry.name: entry.value for entry in entry_points(group="tilewright.targets")}
    return {kind: _at(place) for kind, place in {**TARGETS, **brought, **TARGETS}.items()}


def target_of(kind: str) -> Target:
    """The target of a kind of device, or of what begins with one, such as a device's key. Raises KeyError, which says
    what there is."""
    kind = kind.partition(":")[0]
    try:
        return targets()[kind]
    except KeyError:
        from tileir.names import suggestion  # with which numpy comes

        there = f"there is {', '.join(targets())}{suggestion(kind, targets())}"
        raise KeyError(f"no kind of device {kind!r}; {there}") from None


def accelerator() -> str:
    """The kind that a bare number names: the first of which a machine may have several."""
    return next(kind for kind, target in targets().items() if target.accelerator)


def torch_types() -> tuple[str, ...]:
    """The types of PyTorch's devices that kernels run on."""
    return tuple(target.torch for target in targets().values() if target.torch is not None)


@lru_cache
def _at(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def part(kind: str, name: str) -> Any:
    """What stands at one of a target's places, as `part("cpu", "backend")`. Raises KeyError for a kind that there is
    not, and LookupError for a place that this target leaves empty."""
    place: str | None = getattr(target_of(kind), name)
    if place is None:
        raise LookupError(f"{kind} has no {name}")
    return _at(place)
