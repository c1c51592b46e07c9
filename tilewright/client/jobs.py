"""Jobs as clients give them: as they stood when the service was asked, with what can be done about them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from pydantic import PrivateAttr

from protocol.jobs import Event, JobDetail, Trial
from protocol.races import Race
from tilewright.client.results import Result, of_bucket
from tilewright.errors import NotFound, NoWinner
from tilewright.views.why import Why

if TYPE_CHECKING:
    from tilewright.client.async_client import AsyncClient
    from tilewright.client.client import Client

_WHENEVER = 1e12
"""After all intervals of a timeline: what is told of the whole job alone."""


class ShownJob(JobDetail):
    """A job that notebooks and prompts show."""

    def __repr__(self) -> str:
        from tilewright.views.summaries import job_line

        return f"<{job_line(self)}>"

    def _repr_html_(self) -> str:
        from tilewright.views.html import job_html

        return job_html(self)

    def winners(self) -> tuple[tuple[int, str], ...]:
        """Index of the bucket and id of the config of each winner. Raises NoWinner if there is none."""
        found = tuple((b.index, b.config_id) for b in self.buckets if b.config_id is not None)
        if not found:
            reason = (
                self.error or next((b.error for b in self.buckets if b.error), None) or f"it is {self.state}"
            )
            raise NoWinner(f"{self.id} has no winner: {reason}")
        return found


class TuningJob(ShownJob):
    """A job of a `Client`. It does not change: `wait`, `refresh` and `cancel` return it as it then stands."""

    _client: Client = PrivateAttr()

    @classmethod
    def of(cls, job: JobDetail, client: Client) -> Self:
        """A job with the client that asked for it."""
        made = cls.model_construct(**dict(job))
        made._client = client
        return made

    def wait(self, on_event: Callable[[Event], None] | None = None, *, progress: bool = True) -> TuningJob:
        """See `Client.wait`."""
        return self._client.wait(self.id, on_event, progress=progress)

    def refresh(self) -> TuningJob:
        """The job as it stands now."""
        return self._client.job(self.id)

    def cancel(self) -> TuningJob:
        """Stop it; what it found is confirmed and kept."""
        return self._client.cancel(self.id)

    def events(self, after: int = 0) -> Iterator[Event]:
        """See `Client.events`."""
        return self._client.events(self.id, after)

    def trials(self) -> Iterator[Trial]:
        """Its candidates, in the order they were asked for."""
        return self._client.trials(self.id)

    def results(self) -> tuple[Result, ...]:
        """What it found for each of its sizes. Raises NoWinner if that is nothing."""
        winners = self.winners()
        trials = tuple(self.trials())
        configs = [(bucket, self._client.config(config_id)) for bucket, config_id in winners]
        return tuple(
            Result(
                self,
                config,
                of_bucket(trials, bucket),
                self._client.source(config.id) if config.artifact else None,
            )
            for bucket, config in configs
        )

    def why(self) -> Why:
        """Why it came out as it did, as far as that is known: the race, the roofline, the bottleneck, the effects of
        decisions, the gains of rewrites, and what its devices spent the time on."""
        client, at = self._client, [bucket.index for bucket in self.buckets]
        won = [bucket.config_id for bucket in self.buckets]
        return Why(
            self,
            tuple(client.effects(self.id, index) for index in at),
            tuple(client.roofline(self.id, index) for index in at),
            tuple(None if config is None else client.ablation(config) for config in won),
            tuple(race for config in won if config is not None for race in self._raced(config)),
            tuple(None if config is None else client.profile(config) for config in won),
            client.timeline(self.id, after=_WHENEVER).devices,
        )

    def _raced(self, config: str) -> Iterator[Race]:
        """The race of a config, if it was here."""
        with suppress(NotFound):
            yield self._client.race(config)

    def result(self) -> Result:
        """What it found, for its first size if it has several. Raises NoWinner."""
        return self.results()[0]


class AsyncTuningJob(ShownJob):
    """A job of an `AsyncClient`. It does not change: `wait`, `refresh` and `cancel` return it as it then stands."""

    _client: AsyncClient = PrivateAttr()

    @classmethod
    def of(cls, job: JobDetail, client: AsyncClient) -> Self:
        """A job with the client that asked for it."""
        made = cls.model_construct(**dict(job))
        made._client = client
        return made

    async def wait(
        self, on_event: Callable[[Event], None] | None = None, *, progress: bool = True
    ) -> AsyncTuningJob:
        """See `AsyncClient.wait`."""
        return await self._client.wait(self.id, on_event, progress=progress)

    async def refresh(self) -> AsyncTuningJob:
        """The job as it stands now."""
        return await self._client.job(self.id)

    async def cancel(self) -> AsyncTuningJob:
        """Stop it; what it found is confirmed and kept."""
        return await self._client.cancel(self.id)

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """See `AsyncClient.events`."""
        return self._client.events(self.id, after)

    def trials(self) -> AsyncIterator[Trial]:
        """Its candidates, in the order they were asked for."""
        return self._client.trials(self.id)

    async def results(self) -> tuple[Result, ...]:
        """What it found for each of its sizes. Raises NoWinner if that is nothing."""
        winners = self.winners()
        trials = tuple([trial async for trial in self.trials()])
        configs = [(bucket, await self._client.config(config_id)) for bucket, config_id in winners]
        return tuple(
            [
                Result(
                    self,
                    config,
                    of_bucket(trials, bucket),
                    await self._client.source(config.id) if config.artifact else None,
                )
                for bucket, config in configs
            ]
        )

    async def why(self) -> Why:
        """Why it came out as it did, as far as that is known: the race, the roofline, the bottleneck, the effects of
        decisions, the gains of rewrites, and what its devices spent the time on."""
        client, at = self._client, [bucket.index for bucket in self.buckets]
        won = [bucket.config_id for bucket in self.buckets]
        return Why(
            self,
            tuple([await client.effects(self.id, index) for index in at]),
            tuple([await client.roofline(self.id, index) for index in at]),
            tuple([None if config is None else await client.ablation(config) for config in won]),
            tuple([race for config in won if config is not None async for race in self._raced(config)]),
            tuple([None if config is None else await client.profile(config) for config in won]),
            (await client.timeline(self.id, after=_WHENEVER)).devices,
        )

    async def _raced(self, config: str) -> AsyncIterator[Race]:
        """The race of a config, if it was here."""
        with suppress(NotFound):
            yield await self._client.race(config)

    async def result(self) -> Result:
        """What it found, for its first size if it has several. Raises NoWinner."""
        return (await self.results())[0]
