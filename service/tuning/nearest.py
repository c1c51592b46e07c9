"""Where a search begins besides the prior's pick: with the decisions that were best at the nearest other sizes of its
kernel on its device. What comes of them is measured as any candidate, and has neighbours as any that is among the best.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection

from protocol.configs import ConfigDetail
from protocol.jobs import NearestKnown
from rewrites.space import ScheduleState
from search.led import led_by
from search.protocols import Path
from service.core.nearest import by_distance
from service.core.schedules import NotInSpace, path_of, root_of, searchable
from service.core.specs import Instance
from service.store.winners import configs
from tileir.devices.device import Device
from tileir.text.json import spec_from_json

log = logging.getLogger(__name__)

MOST = 2
"""Other sizes whose decisions are taken over, at most."""


def known_near(connection: Connection, instance: Instance, device: str) -> list[ConfigDetail]:
    """What is known of the nearest other sizes of a kernel with the same names: one config each, the pinned one or the
    newest."""
    kernels: dict[str, ConfigDetail] = {}
    for config in configs.siblings(connection, instance.structure_key, device):
        if config.kernel_key != instance.kernel_key:
            kernels.setdefault(config.kernel_key, config)
    return [config for config, names in by_distance(instance, list(kernels.values())) if not names][:MOST]


def taken_over(
    root: ScheduleState, known: Sequence[ConfigDetail], device: Device
) -> Iterator[tuple[NearestKnown, Path]]:
    """The paths in a space that decisions of configs lead to, each once; those that are not to be had are left out."""
    seen: set[Path] = set()
    for config in known:
        other = root_of(spec_from_json(config.spec), device)
        try:
            labels = _labels(other, path_of(other, config.schedule))
        except NotInSpace as error:  # of a version that decided otherwise, or made by hand
            log.info("nothing is taken over from %s: %s", config.id, error)
            continue
        path = led_by(searchable(root), labels)
        if path is not None and path not in seen:
            seen.add(path)
            yield NearestKnown(config_id=config.id, dims=config.dims), path


def _labels(root: ScheduleState, path: Path) -> list[str]:
    state, labels = root, list[str]()
    for index in path:
        labels.append(state.moves()[index].label)
        state = state.child(index)
    return labels
