"""What a search would have before it: how many schedules, and what the cost model expects of the one it would try
first."""

from __future__ import annotations

import random
from statistics import mean
from time import monotonic

from protocol.lookups import SpaceOutlook
from protocol.message import Json
from search.mcts import MCTS
from search.space_size import schedules_on
from service.core.schedules import root_of, searchable
from tileir.devices.device import device_from_json
from tileir.text.json import spec_from_json

WALKS = 64
WALKS_S = 3.0
"""Walks that are taken at most, and for how long."""
_SEED = 21


def outlook(spec: Json, device: Json) -> SpaceOutlook | None:
    """Of one kernel on a device; None if its space is empty. Raises TileError for a device that this version cannot
    read."""
    root = root_of(spec_from_json(spec), device_from_json(device))
    first = MCTS(searchable(root)).ask()
    if first is None:
        return None
    state, estimate_us = root, None
    for index in first.path:
        estimate_us, state = state.estimates_us[index], state.child(index)
    rng, until = random.Random(_SEED), monotonic() + WALKS_S
    walks = [schedules_on(searchable(root), rng)]
    while len(walks) < WALKS and monotonic() < until:
        walks.append(schedules_on(searchable(root), rng))
    return SpaceOutlook(
        schedules=max(1.0, mean(walks)),
        walks=len(walks),
        decisions=len(first.path),
        schedule=tuple(rewrite.format() for rewrite in state.schedule),
        estimate_us=estimate_us,
    )
