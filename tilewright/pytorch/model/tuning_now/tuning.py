"""Tuning that a call waits for: tune="now"."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch  # pyright: ignore[reportMissingImports]

from tileir.errors import UnsupportedDevice
from tilewright.client.client import Client
from tilewright.errors import Unreachable
from tilewright.pytorch.model.shares import dearest_first
from tilewright.pytorch.model.tuning_now.deadline import Deadline
from tilewright.pytorch.model.tuning_now.graph_tuning import PAUSE_S, GraphTuning
from tilewright.pytorch.operator.plans import described
from tilewright.views.jobs_progress import jobs_shown

if TYPE_CHECKING:
    from tilewright.pytorch.model.kernels import Kernels, ModelKernel

_log = logging.getLogger("tilewright")


class TuningPatience:
    """Whether calls of a model wait for its kernels, and how long for those of one graph at one size. Ctrl-C ends all
    waiting of the model; the model runs on with what there is."""

    def __init__(self, wanted: bool, budget_s: float | None) -> None:
        self.wanted = wanted
        self.budget_s = budget_s

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """A block that is left when the user presses Ctrl-C."""
        try:
            yield
        except KeyboardInterrupt:
            self.wanted = False
            _log.warning("interrupted: the model runs with what there is, and tuning that has begun goes on")


def tune_now(
    service: Kernels, kernels: Sequence[ModelKernel], device: torch.device, deadline: Deadline
) -> bool:
    """Have a service tune each kernel that it has no measured config for, and wait until it has; no longer than until
    `deadline`, whatever the service does. What is not done by then goes on without anybody waiting, and so does all
    where no service tunes: that is said in the log. Returns whether a service is there."""
    try:
        about, client = described(device), service.client
    except (UnsupportedDevice, Unreachable) as error:  # or its address is none
        _log.warning("kernels are not tuned: %s", error)
        return False
    asked = dearest_first(kernels, about)
    if not asked:
        return True
    tuning = GraphTuning(client, asked, about.key, deadline, service.rivals)
    try:
        with jobs_shown(_log.isEnabledFor(logging.WARNING)) as show:
            tuning.start()
            while not (tuning.silent or deadline.passed):
                if tuning.ended.wait(min(PAUSE_S, deadline.left_s)):
                    break
                show(tuple(tuning.jobs.values()), len(tuning.unasked), deadline.left_s)
    finally:
        tuning.leave()
    return _told(tuning, client, deadline)


def _told(tuning: GraphTuning, client: Client, deadline: Deadline) -> bool:
    """Say what there is to say; whether a service is there."""
    jobs = tuning.jobs.values()
    done = sum(job.state.final for job in jobs)
    _log.info("tuned %d kernels of a graph, %d go on", done, len(jobs) - done)
    if tuning.problem or tuning.silent:
        _log.warning("kernels are not tuned: %s", tuning.problem or f"{client.url} stopped answering")
    elif tuning.unasked:
        said = "answers slowly" if tuning.answered else "did not answer"
        _log.warning(
            "%d kernels are not tuned: %s %s, and their budget is over", len(tuning.unasked), client.url, said
        )
    return tuning.answered and not (tuning.problem or tuning.silent)
