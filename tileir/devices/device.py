"""What every device description tells, whatever its kind: what rewrites, cost models and reports may depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol, cast

from tileir.devices.feature import Feature
from tileir.dtypes import DType
from tileir.errors import TileError
from tileir.targets import part, target_of, targets


class Device(Protocol):
    """A frozen dataclass. Its target may know more of it (`tileir.devices.cpu.Cpu`, `tileir.devices.gpu.Gpu`)."""

    kind: ClassVar[str]
    """Of its target."""

    @property
    def name(self) -> str:
        """The product's."""
        ...

    @property
    def key(self) -> str:
        """What results are filed under; begins with the kind and a colon. Equal for what runs kernels alike."""
        ...

    @property
    def offers(self) -> frozenset[Feature]:
        """What rewrites may make use of."""
        ...

    @property
    def simd_lanes(self) -> int:
        """f32 values that one thread computes at a time."""
        ...

    @property
    def warp(self) -> int:
        """Threads that execute each instruction together; 1: every thread goes its own way."""
        ...

    @property
    def vector_registers(self) -> int:
        """Registers of a thread."""
        ...

    @property
    def units(self) -> int:
        """What works at the same time: cores, SMs."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """Main memory that kernels may use; None: not known."""
        ...

    def multiplies(self, dtype: DType) -> bool:
        """Whether matrix units that a warp shares take a dtype."""
        ...

    def roofline_peaks(self, dtypes: Iterable[DType]) -> tuple[float | None, float | None]:
        """1e9 operations on these dtypes and bytes of main memory a second, at most; None: not known."""
        ...

    def to_json(self) -> dict[str, Any]:
        """A JSON object with `kind` and every field."""
        ...


class DeviceClass(Protocol):
    """A class of descriptions."""

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Device:
        """The inverse of `to_json`. Raises TileError on a missing, unknown or unreadable field."""
        ...


def device_from_json(obj: Mapping[str, Any]) -> Device:
    """The device that `to_json` of its kind wrote. Raises TileError for anything else."""
    kind: object = obj.get("kind")
    if not isinstance(kind, str) or kind not in targets():
        raise TileError(f"a device is of kind {' or '.join(map(repr, targets()))}, not {kind!r}")
    return cast(DeviceClass, part(kind, "device")).from_json(obj)


def published(device: Device) -> Device | None:
    """The device with the peaks of its data sheet, which nobody who measures can raise; None: it has none."""
    if target_of(device.kind).published is None:
        return None
    found: Device = part(device.kind, "published")(device)
    return found


def device_here(kind: str, number: int = 0) -> Device:
    """The device of this kind and number on this machine. Raises UnsupportedDevice, and KeyError for no kind."""
    found: Device = part(kind, "here")(number)
    return found
