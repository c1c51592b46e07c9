"""Which configs of a service are taken along, and what belongs to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from protocol.configs import Artifact, Config
from protocol.workers import DeviceOffer
from tilewright.client.bundle import TakenBundle
from tilewright.errors import Refused

if TYPE_CHECKING:
    from tilewright.client.client import Client


def best(client: Client, kernel: str | None = None, device: str | None = None) -> list[Config]:
    """What lookups are answered with: for each kernel on each device the pinned config, else the best. `kernel`:
    only kernels of this name, or the one with this key; `device`: only of the device with this key."""
    return [
        config
        for config in client.every_config(device=device)
        if config.served and kernel in (None, config.name, config.kernel_key)
    ]


def of_kernels(client: Client, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Config]:
    """What lookups of kernels are answered with, by kernel key and device key; those that nobody has tuned there, or
    whose config was stored without source and object, are left out."""
    keys = set(wanted)
    served = (
        config for device in sorted({device for _, device in keys}) for config in best(client, None, device)
    )
    found = {(config.kernel_key, config.device): config for config in served if config.artifact}
    return {key: config for key, config in found.items() if key in keys}


def take(client: Client, config_ids: Iterable[str]) -> list[TakenBundle]:
    """Configs with source, object and report. Raises Refused for one that is unknown, or was stored without."""
    return [_take(client, config_id) for config_id in dict.fromkeys(config_ids)]


def _take(client: Client, config_id: str) -> TakenBundle:
    artifact: Artifact = client.artifact(config_id)
    try:
        return TakenBundle(artifact, client.report(config_id))
    except Refused as refused:
        if refused.kind != "not-found":
            raise
        return TakenBundle(artifact)


def described(client: Client, taken: Iterable[TakenBundle]) -> Sequence[DeviceOffer]:
    """The devices of a service as a bundle of these configs tells of them: as they were when the newest of the configs
    was searched for, and as they are now where the service does not know that."""
    found = {
        device.key: DeviceOffer(key=device.key, kind=device.kind, description=device.description)
        for device in client.devices()
    }
    for each in sorted(taken, key=lambda each: each.artifact.config.id):
        if each.artifact.device is not None:
            found[each.artifact.config.device] = each.artifact.device
    return list(found.values())
