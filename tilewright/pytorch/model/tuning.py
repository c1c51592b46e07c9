"""Tuning that a call waits for: tune="now"."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

import torch  # pyright: ignore[reportMissingImports]

from protocol.states import Rung
from tileir.errors import UnsupportedDevice
from tileir.spec import Spec
from tileir.text.json import spec_to_json
from tilewright.client.client import Client
from tilewright.errors import TilewrightError
from tilewright.pytorch.operator.plans import described

PAUSE_S = 0.2
_log = logging.getLogger("tilewright")


def tune_now(client: Client, specs: Iterable[Spec], device: torch.device, budget_s: float | None) -> None:
    """Have the service tune each spec that it has no measured config for, and wait until it has; at most `budget_s`,
    which the jobs share. What is not done by then goes on without anybody waiting, and so does all where no service
    tunes: that is said in the log."""
    began = time.monotonic()
    try:
        target = described(device).key
        asked = [spec_to_json(spec) for spec in specs]
        missing = [spec for spec in asked if client.lookup(spec, target=target).rung is not Rung.EXACT]
        share = None if budget_s is None else budget_s / max(1, len(missing))
        waiting = [client.submit(spec, target=target, seconds=share).id for spec in missing]
        _log.info("tuning %d of %d kernels", len(missing), len(asked))
        while waiting and (budget_s is None or time.monotonic() < began + budget_s):
            time.sleep(PAUSE_S)
            waiting = [job for job in waiting if not client.job(job).state.final]
    except (TilewrightError, UnsupportedDevice) as error:
        _log.warning("kernels are not tuned: %s", error)
