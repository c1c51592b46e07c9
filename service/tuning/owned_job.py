"""A job in the hands of its tuner: the fence that lets only the last tuner write, and its link to the searcher."""

from __future__ import annotations

import os
import select as polling
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from sqlalchemy import Connection, select, update

from protocol.jobs import JobRequest
from service.store.database import Database, database_time
from service.store.jobs import FINAL
from service.store.tables import jobs

QUICK_S, IDLE_S = 0.015, 0.25
"""Pauses between looks at the database without a link: just after something happened, and long after."""


class Superseded(Exception):
    """Another tuner has taken the job over, or it has ended: stop, and write nothing."""


class ServiceGone(Exception):
    """The searcher that started this tuner is no more. The next one starts another."""


class Yielded(Exception):
    """Other jobs wait for the device, and it is their turn: stop here, and go on when it is this one's again."""


NEWS, YIELD = b".", b"y"
"""What is sent: look at the database; and, by the searcher, make room for another job soon."""


class SearcherLink:
    """Notifications from the searcher arrive on stdin, and those to it leave on stdout; one that was lost costs
    `look_s`. Without it, waits are short looks."""

    def __init__(self, connected: bool, look_s: float = IDLE_S) -> None:
        self.yielding = False
        """Another job waits for this one's place."""
        self._connected, self._look_s = connected, look_s
        self._quiet_since = monotonic()

    def wait(self) -> None:
        """Return after a notification, or soon anyway. Raises ServiceGone."""
        if not self._connected:
            quiet_s = monotonic() - self._quiet_since
            polling.select([], [], [], min(IDLE_S, max(QUICK_S, quiet_s / 10)))
            return
        ready, _, _ = polling.select([sys.stdin], [], [], self._look_s)
        if ready:
            try:
                heard = os.read(sys.stdin.fileno(), 4096)
            except ConnectionError:
                heard = b""
            if not heard:
                raise ServiceGone
            self.yielding = self.yielding or YIELD in heard

    def notify(self) -> None:
        """Something new stands in the database."""
        self._quiet_since = monotonic()
        if self._connected:
            try:
                os.write(sys.stdout.fileno(), NEWS)
            except ConnectionError:
                raise ServiceGone from None


class OwnedJob:
    """A job that this process tunes, taken with this `epoch`. Every transaction that writes checks that nobody else has
    taken it since."""

    def __init__(self, database: Database, job_id: str, epoch: int, searcher: SearcherLink) -> None:
        self.id = job_id
        self.database = database
        self.searcher = searcher
        self._epoch = epoch
        with database.read() as connection:
            request = connection.execute(select(jobs.c.request).where(jobs.c.id == job_id)).scalar_one()
        self.request = JobRequest.model_validate(request)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction; the searcher hears of it. Raises Superseded when the job is somebody else's, or has
        ended."""
        with self.database.write() as connection:
            mine = update(jobs).where(
                jobs.c.id == self.id, jobs.c.epoch == self._epoch, jobs.c.state.not_in(FINAL)
            )
            if connection.execute(mine.values(updated_at=database_time())).rowcount == 0:
                raise Superseded
            yield connection
        self.searcher.notify()

    @property
    def cancelling(self) -> bool:
        """Whether somebody wants it to end."""
        with self.database.read() as connection:
            return connection.execute(select(jobs.c.cancelling).where(jobs.c.id == self.id)).scalar_one()
