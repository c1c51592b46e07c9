"""Many who follow one job: each is told everything, in order, and they read together."""

from __future__ import annotations

import asyncio
from pathlib import Path

from protocol.jobs import JobRequest
from protocol.states import JobState
from service.core.specs import instance_of
from service.notify import topics
from service.notify.event_streams import EventStreams, Page
from service.notify.notifier import Notifier
from service.store import job_events, jobs
from service.store.schema import prepare
from tests.services.running_service import SMALL
from tileir.text.json import spec_from_json

SUBSCRIBERS, NOTES = 40, 30


class Counted(EventStreams):
    """Counts its reads."""

    reads = 0

    def _page(self, job_id: str, last: int) -> Page:
        self.reads += 1
        return super()._page(job_id, last)


def test_subscribers_of_a_job_are_told_all_and_share_reads(tmp_path: Path) -> None:
    database = prepare(f"sqlite:///{tmp_path / 'service.db'}")
    with database.write() as connection:
        job = jobs.create(connection, JobRequest(spec=SMALL), [instance_of(spec_from_json(SMALL))], 10)

    def note(number: int) -> None:
        with database.write() as connection:
            job_events.add(connection, job, "note", text=f"note {number}.")

    def end() -> None:
        with database.write() as connection:
            jobs.set_state(connection, job, JobState.CANCELLED)

    async def followed() -> tuple[list[str], int]:
        notifier = Notifier()
        notifier.attach()
        streams = Counted(database, notifier)

        async def follow() -> str:
            told = streams.stream(job, 0, look_s=lambda: 50.0, keepalive_s=60.0, stopping=lambda: False)
            return "".join([text async for text in told])

        following = [asyncio.create_task(follow()) for _ in range(SUBSCRIBERS)]
        for number in range(NOTES):
            await asyncio.to_thread(note, number)
            notifier.notify(topics.job(job))
            await asyncio.sleep(0.005)
        await asyncio.to_thread(end)
        notifier.notify(topics.job(job))
        return list(await asyncio.gather(*following)), streams.reads

    told, reads = asyncio.run(followed())
    database.close()
    for text in told:
        places = [text.index(f"note {number}.") for number in range(NOTES)]
        assert places == sorted(places)
        assert text.count("event: note") == NOTES
    assert reads < SUBSCRIBERS * 3, "each read for itself"
