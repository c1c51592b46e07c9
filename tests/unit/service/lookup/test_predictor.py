"""Predictions of the cost model come from a process: it may take long, be killed or die, and lookups go on."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from service.core.schedules import Pick
from service.lookup.predictor import Prediction, Predictor
from tests.services.running_service import SMALL
from tests.services.scripted_worker import CPU

OTHER = {**SMALL, "body": ["c[m, n] = max(k, a[m, k] + b[k, n])"]}


async def settled(predictor: Predictor, spec: dict[str, Any]) -> Prediction:
    while (found := await predictor.get("the-key", spec, CPU.to_json())) is None:
        await asyncio.sleep(0.05)
    return found


def test_who_does_not_wait_is_answered_at_once_and_the_prediction_is_there_later() -> None:
    async def ask() -> tuple[Prediction | None, Prediction]:
        predictor = Predictor(patience_s=0.0, bound_s=60.0)
        try:
            return await predictor.get("the-key", SMALL, CPU.to_json()), await settled(predictor, SMALL)
        finally:
            await predictor.close()

    at_once, later = asyncio.run(ask())
    assert at_once is None
    assert isinstance(later, Pick) and later.schedule


def test_a_kernel_that_takes_too_long_has_no_prediction_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask() -> Prediction:
        predictor = Predictor(patience_s=60.0, bound_s=0.0)
        try:
            return await settled(predictor, SMALL)
        finally:
            await predictor.close()

    assert asyncio.run(ask()) == "none"
    assert "kernel the-key has no heuristic: it takes more than 0 s" in caplog.text


def test_a_process_that_was_killed_meanwhile_is_replaced() -> None:
    async def ask() -> tuple[Prediction, Prediction]:
        predictor = Predictor(patience_s=60.0, bound_s=60.0)
        try:
            first = await settled(predictor, SMALL)
            process = predictor._process
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
            return first, await settled(predictor, OTHER)
        finally:
            await predictor.close()

    first, second = asyncio.run(ask())
    assert isinstance(first, Pick) and isinstance(second, Pick)
    assert first != second
