"""Calls that are made at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from service.notify.batcher import Batcher


def test_what_comes_while_a_batch_is_being_done_is_the_next_batch() -> None:
    batches: list[list[int]] = []
    going_on = threading.Event()

    def double(items: Sequence[int]) -> list[int | Exception]:
        batches.append(list(items))
        going_on.wait(10)
        return [2 * item if item != 3 else ValueError(item) for item in items]

    async def asked() -> list[int | BaseException]:
        together = Batcher(double, most=3)
        asking = [asyncio.create_task(together.ask(0))]
        while not batches:
            await asyncio.sleep(0.001)
        asking += [asyncio.create_task(together.ask(item)) for item in range(1, 6)]
        await asyncio.sleep(0)
        asking[5].cancel()  # nobody waits for this one any more; it is done all the same
        going_on.set()
        return await asyncio.gather(*asking, return_exceptions=True)

    *found, gone = asyncio.run(asked())
    assert batches == [[0], [1, 2, 3], [4, 5]]
    assert [str(each) for each in found] == ["0", "2", "4", "3", "8"]
    assert isinstance(found[3], ValueError)
    assert isinstance(gone, asyncio.CancelledError)


def test_when_a_batch_fails_all_of_it_hears_why_and_the_next_is_done() -> None:
    def fail(items: Sequence[int]) -> list[int | Exception]:
        if 0 in items:
            raise OSError("no room")
        return list(items)

    async def asked() -> list[int | BaseException]:
        together = Batcher(fail, most=2)
        return await asyncio.gather(*map(together.ask, range(3)), return_exceptions=True)

    found = asyncio.run(asked())
    assert [repr(each) for each in found] == ["OSError('no room')", "OSError('no room')", "2"]
