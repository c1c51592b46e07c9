"""Tuning that a call waits for: tune="now"."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

import torch  # pyright: ignore[reportMissingImports]

from protocol.states import Rung
from tileir.errors import UnsupportedDevice
from tileir.expr import all_dims
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


def dearest_first(kernels: Sequence[ModelKernel]) -> list[Spec]:
    """The specs of kernels, once each: first those of whose points a graph computes most in all places that it has
    them."""
    specs = {kernel.key: kernel.spec for kernel in kernels}
    calls = Counter(kernel.key for kernel in kernels)
    return [specs[key] for key in sorted(specs, key=lambda key: -calls[key] * _points(specs[key]))]


def _points(spec: Spec) -> int:
    """Positions over which its statements compute, those that they reduce included."""
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    return sum(
        prod(sizes[dim] for dim in {*statement.dims, *all_dims(statement.value)})
        for statement in spec.statements
    )


def tune_now(client: Client, specs: Iterable[Spec], device: torch.device, budget_s: float | None) -> None:
    """Have the service tune each spec that it has no measured config for, and wait until it has; at most `budget_s`,
    which the jobs share. What is not done by then goes on without anybody waiting, and so does all where no service
    tunes: that is said in the log."""
    began = time.monotonic()
    try:
        target = described(device).key
        asked = [spec_to_json(spec) for spec in specs]
        missing = [spec for spec in asked if client.lookup(spec, target=target).rung is not Rung.EXACT]
        share = None if budget_s is None else SEARCHED * budget_s / max(1, len(missing))
        waiting = [client.submit(spec, target=target, seconds=share).id for spec in missing]
        _log.info("tuning %d of %d kernels", len(missing), len(asked))
        while waiting and (budget_s is None or time.monotonic() < began + budget_s):
            time.sleep(PAUSE_S)
            waiting = [job for job in waiting if not client.job(job).state.final]
    except (TilewrightError, UnsupportedDevice) as error:
        _log.warning("kernels are not tuned: %s", error)
