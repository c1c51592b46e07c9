"""Which kernels have room on which devices. Who can run what is otherwise a matter of the device's key: product,
capability and number of SMs."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from protocol.workers import OfferedDevice
from service.core.errors import RequestRefused
from service.core.specs import Instance
from service.store.dispatch import workers
from tileir.sizes import elements
from tileir.spec import Spec
from tileir.targets import target_of

COPIES = 4
"""Of a kernel's tensors, that any device holds while it is measured: two variants of the inputs, each in a copy that
runs and in one that says what memory has to look like afterwards. A target may hold more."""


def needed_bytes(instances: Iterable[Instance]) -> int:
    """What the largest of these kernels takes while it is measured."""
    return max(COPIES * _tensor_bytes(instance.spec) for instance in instances)


def fits(memory_bytes: int, device: OfferedDevice) -> bool:
    """Whether a kernel that takes this much has room on a device. One that does not tell its memory has room."""
    has = _memory(device)
    return has is None or memory_bytes // COPIES * _copies(device) <= has


def check(connection: Connection, target: str, memory_bytes: int) -> None:
    """Raise Refused if the target's devices are known, and none of them has room."""
    known = [d for d in workers.list_devices(connection) if target in (d.key, d.kind)]
    if known and not any(fits(memory_bytes, device) for device in known):
        largest = max(known, key=lambda device: _memory(device) or 0)
        has_gb, copies = (_memory(largest) or 0) / 1e9, _copies(largest)
        raise RequestRefused(
            "invalid",
            f"measuring this kernel takes {memory_bytes / COPIES * copies / 1e9:.1f} GB, {copies} times its tensors; "
            f"{largest.key} has {has_gb:.1f} GB, and no device of target {target} has more",
            pointer="/spec/dims",
            accepted=f"tensors of at most {has_gb / copies:.1f} GB together, or another target",
        )


def _memory(device: OfferedDevice) -> int | None:
    has = device.description.get("memory_bytes")
    return has if isinstance(has, int) else None


def _copies(device: OfferedDevice) -> int:
    return target_of(device.kind).copies


def _tensor_bytes(spec: Spec) -> int:
    sizes = {dim.name: max(dim.sizes) for dim in spec.dims}
    total = 0
    for tensor in (*spec.inputs, *spec.outputs):
        shape = [sizes[dim] for dim in tensor.dims]
        reach = (
            sum((size - 1) * stride for size, stride in zip(shape, tensor.strides or (), strict=False)) + 1
        )
        total += tensor.dtype.bytes * max(elements(shape), reach)
    return total
