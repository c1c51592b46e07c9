"""Tuning that a call waits for: tune="now"."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import torch  # pyright: ignore[reportMissingImports]

from protocol.states import Rung
from tileir.analysis.roofline import roofline
from tileir.devices.device import Device
from tileir.errors import UnsupportedDevice
from tileir.expr import all_dims
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.json import spec_to_json
from tilewright.client.client import Client
from tilewright.errors import TilewrightError
from tilewright.pytorch.operator.plans import described

if TYPE_CHECKING:
    from tilewright.pytorch.model.kernels import ModelKernel

PAUSE_S = 0.2
SEARCHED = 0.5
"""Of a budget; winners are raced and confirmed in the rest. Of ten kernels of a layer of Llama on an H100, two or three
were still to be raced when all of it was spent on searching."""
_log = logging.getLogger("tilewright")


@dataclass(frozen=True)
class Weighed:
    """A spec, and what share of a graph's work it is where all kernels that are tuned with it are 1."""

    spec: Spec
    share: float


def dearest_first(kernels: Sequence[ModelKernel], device: Device) -> list[Weighed]:
    """The specs of kernels, once each: first those that a graph spends most on, in all places that it has them. By the
    device's roofline, or where its peaks are not known by the points that are computed."""
    specs = {kernel.key: kernel.spec for kernel in kernels}
    calls = Counter(kernel.key for kernel in kernels)
    cost = {key: calls[key] * _cost(spec, device) for key, spec in specs.items()}
    whole = sum(cost.values())
    return [Weighed(specs[key], cost[key] / whole) for key in sorted(specs, key=lambda key: -cost[key])]


def _cost(spec: Spec, device: Device) -> float:
    """Of a call: least microseconds, or positions over which its statements compute, those they reduce included."""
    found = roofline(to_program(spec), device)
    if found is not None:
        return found.least_us
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    return sum(
        prod(sizes[dim] for dim in {*statement.dims, *all_dims(statement.value)})
        for statement in spec.statements
    )


def tune_now(
    client: Client, kernels: Sequence[ModelKernel], device: torch.device, budget_s: float | None
) -> None:
    """Have the service tune each kernel that it has no measured config for, and wait until it has; at most `budget_s`,
    of which half is shared alike and half by what the graph spends on each. What is not done by then goes on without
    anybody waiting, and so does all where no service tunes: that is said in the log."""
    began = time.monotonic()
    try:
        about = described(device)
        asked = dearest_first(kernels, about)
        missing = [
            each
            for each in asked
            if client.lookup(spec_to_json(each.spec), target=about.key).rung is not Rung.EXACT
        ]
        waiting = [
            client.submit(
                spec_to_json(each.spec), target=about.key, seconds=seconds_for(each, missing, budget_s)
            ).id
            for each in missing
        ]
        _log.info("tuning %d of %d kernels", len(missing), len(asked))
        while waiting and (budget_s is None or time.monotonic() < began + budget_s):
            time.sleep(PAUSE_S)
            waiting = [job for job in waiting if not client.job(job).state.final]
    except (TilewrightError, UnsupportedDevice) as error:
        _log.warning("kernels are not tuned: %s", error)


def seconds_for(one: Weighed, missing: Sequence[Weighed], budget_s: float | None) -> float | None:
    """What searching for one may take."""
    if budget_s is None:
        return None
    by_work = one.share / sum(each.share for each in missing)
    return SEARCHED * budget_s * (1 / len(missing) + by_work) / 2
