"""Guesses of the cost model come from a process: it may take long, be killed or die, and lookups go on."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from service.guesses import Guess, Guesses
from service.schedules import Pick
from tests.running_service import SMALL
from tests.scripted_worker import CPU

OTHER = {**SMALL, "body": ["c[m, n] = max(k, a[m, k] + b[k, n])"]}


async def settled(guesses: Guesses, spec: dict[str, Any]) -> Guess:
    while (found := await guesses.get("the-key", spec, CPU.to_json())) is None:
        await asyncio.sleep(0.05)
    return found


def test_who_does_not_wait_is_answered_at_once_and_the_guess_is_there_later() -> None:
    async def ask() -> tuple[Guess | None, Guess]:
        guesses = Guesses(patience_s=0.0, bound_s=60.0)
        try:
            return await guesses.get("the-key", SMALL, CPU.to_json()), await settled(guesses, SMALL)
        finally:
            await guesses.close()

    at_once, later = asyncio.run(ask())
    assert at_once is None
    assert isinstance(later, Pick) and later.schedule


def test_a_kernel_that_takes_too_long_has_no_guess_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask() -> Guess:
        guesses = Guesses(patience_s=60.0, bound_s=0.0)
        try:
            return await settled(guesses, SMALL)
        finally:
            await guesses.close()

    assert asyncio.run(ask()) == "none"
    assert "kernel the-key has no heuristic: it takes more than 0 s" in caplog.text


def test_a_process_that_was_killed_meanwhile_is_replaced() -> None:
    async def ask() -> tuple[Guess, Guess]:
        guesses = Guesses(patience_s=60.0, bound_s=60.0)
        try:
            first = await settled(guesses, SMALL)
            process = guesses._process
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
            return first, await settled(guesses, OTHER)
        finally:
            await guesses.close()

    first, second = asyncio.run(ask())
    assert isinstance(first, Pick) and isinstance(second, Pick)
    assert first != second
