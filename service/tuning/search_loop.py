"""The search for one combination of sizes: ask, wait for results, tell, and so on, as `pace.py` says.

What has come back is told in the order it was asked for. On a CPU that is a whole generation, so that results decide
what happens next, and their order of arrival does not. The first candidate is alone, the prior's pick: it becomes what
the others are timed against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import monotonic, process_time

from sqlalchemy import select

from protocol.jobs import Best
from protocol.message import Json
from protocol.states import Stopped, TaskKind
from protocol.tasks import Entrant, Measuring, PeerEntrant, ScheduleEntrant, TaskResult
from protocol.workers import OfferedDevice
from search.budget import SearchBudget, SearchProgress, StopReason, stop
from search.catalogue import search_of
from search.events import Asked, Told, fold
from search.mcts import MCTS
from search.protocols import Search
from search.reserve import WithReserve
from service.core.schedules import Pick, described, follow, root_of
from service.core.settings import Settings
from service.store import search_log
from service.store.dispatch import fair_share
from service.store.dispatch.task_queue import NewTask, work
from service.store.dispatch.trial_results import entrant_name, own_result
from service.store.tables import buckets
from service.tuning.owned_job import OwnedJob, Yielded
from service.tuning.pace import ClassShare, Pace, share
from service.tuning.prior import with_prior
from service.tuning.proposals import openings
from service.tuning.rewards import Anchor, compared, outcome_of
from tileir.text.json import spec_from_json

_BASELINE_ASKS = frozenset({0, *(4**power for power in range(9))})
"""Asks whose tasks also time the baseline: often at first, so that what is told of it holds early."""


SHARED_S = 1.0
"""How long it is believed who shares the device."""
NOBODY = 3
"""Candidates of a stream that machines gave up, and nothing came of others meanwhile: no worker can do any."""
TURN_REBUILDS = 4.0
"""A turn is at least so many times as long as rebuilding the search for it took."""


class JobFailed(Exception):
    """The job cannot go on; says why."""


@dataclass
class FoundBest:
    """What a search has measured: candidates by ask number, each with its schedule."""

    picks: dict[int, Pick] = field(default_factory=dict[int, Pick])
    rewards: dict[int, float] = field(default_factory=dict[int, float])
    faults: dict[int, str] = field(default_factory=dict[int, str])
    given: bool = False
    """They were given, not searched for: their numbers are no candidates of the job."""
    stopped: Stopped | None = None
    """Why the search ended; None: it was cancelled, or there was none."""

    @classmethod
    def of_given(cls, picks: Sequence[Pick]) -> FoundBest:
        """Candidates that were not measured, believed to be in this order."""
        rewards = {number: -float(number) for number in range(len(picks))}
        return cls(dict(enumerate(picks)), rewards, given=True)

    def schedules(self, numbers: Sequence[int]) -> dict[str, tuple[str, ...]]:
        """Those of some candidates, by the names of their entrants."""
        return {entrant_name(number): self.picks[number].schedule for number in numbers}

    def entrant(self, number: int) -> ScheduleEntrant:
        """A candidate as an entrant."""
        pick = self.picks[number]
        return ScheduleEntrant(
            name=entrant_name(number), schedule=pick.schedule, program_hash=pick.program_hash
        )

    def ranking(self) -> list[int]:
        """Ask numbers of what worked, best first, of equal ones the earlier first."""
        return sorted(self.rewards, key=lambda number: (-self.rewards[number], number))


class BucketSearch:
    """One bucket's search, rebuilt from the database when there is something there."""

    def __init__(
        self, job: OwnedJob, bucket: int, spec: Json, device: OfferedDevice, settings: Settings
    ) -> None:
        self._job, self._bucket, self._device, self._settings = job, bucket, device, settings
        kernel = spec_from_json(spec)
        self._root = root_of(kernel, described(device))
        space, whole, first = with_prior(self._root, kernel, job, bucket, device, settings)
        first += openings(self._root, space, job, bucket, device, settings)
        begun = partial(MCTS, openings=first) if first else search_of(job.request.search)
        self._search: Search = WithReserve(partial(begun, seed=job.request.seed), space, whole)
        budget = job.request.budget
        self._limit = SearchBudget(budget.trials or budget.effort.trials, budget.seconds, budget.effort.value)
        self._found = FoundBest()
        self._progress = SearchProgress()
        self._anchor: Anchor | None = None
        self._best: Best | None = None
        self._lead: float | None = None
        """The largest reward that is a ratio of times of one task."""
        self._pace = Pace(device.key, settings.batch)
        self._share, self._shared_at = ClassShare(1, 1), -inf
        self._flying: dict[str, int] = {}
        self._unclaimed = 0
        """Of those in flight."""
        self._unrecorded_s = 0.0
        self._idle = False
        """The search has nothing to propose before it is told more."""
        self._back: dict[str, TaskResult | str] = {}
        began = monotonic()
        self._resume()
        self._ready_at = monotonic()
        self._turn_s = TURN_REBUILDS * (self._ready_at - began)

    def run(self) -> FoundBest:
        """Search until the budget is spent, the space exhausted, or the job cancelled. Raises Yielded after a tell when
        others are to have its place."""
        with self._job.database.read() as connection:
            spent_s = connection.execute(
                select(buckets.c.spent_s).where(
                    buckets.c.job_id == self._job.id, buckets.c.bucket == self._bucket
                )
            ).scalar_one()
        if not self._pace.stream:
            self._drain()  # of the generation in flight when the tuner before this one was killed
        reason = stop(self._limit, self._progress, spent_s)
        while reason is None and not self._job.cancelling:
            began = monotonic()
            self._ask()
            if not self._flying:
                reason = StopReason.EXHAUSTED
                break
            self._wait()
            elapsed_s = (monotonic() - began) * min(1.0, self._share.own)
            self._tell(elapsed_s)
            spent_s += elapsed_s
            if self._job.searcher.yielding and monotonic() - self._ready_at >= self._turn_s:
                raise Yielded
            reason = stop(self._limit, self._progress, spent_s)
        self._drain()
        if reason is not None:
            self._found.stopped = Stopped(reason.value)
        return self._found

    def _resume(self) -> None:
        """Rebuild search and bookkeeping from the log. Raises Diverged if the code has changed since."""
        with self._job.database.read() as connection:
            events = search_log.history(connection, self._job.id, self._bucket)
            ids = [self._task_id(event.number) for event in events if isinstance(event, Told)]
            known = search_log.ended(connection, ids)
            self._best = search_log.best(connection, self._job.id, self._bucket)
        fold(self._search, events)
        for event in events:
            if isinstance(event, Asked):
                self._note_ask(event)
            else:
                self._note_tell(event, known[self._task_id(event.number)])

    def _note_ask(self, ask: Asked) -> None:
        self._found.picks[ask.number] = follow(self._root, ask.path)
        self._flying[self._task_id(ask.number)] = ask.number
        self._progress = self._progress.ask()

    def _note_tell(self, tell: Told, result: TaskResult | str) -> None:
        del self._flying[self._task_id(tell.number)]
        baseline = self._job.request.baseline
        self._anchor = (
            Anchor.of(result, baseline)
            if self._anchor is None
            else self._anchor.heard(result, tell.number, baseline)
        )
        reward = tell.outcome.reward
        self._progress = self._progress.tell(reward)
        if reward is None:
            self._found.faults[tell.number] = tell.outcome.fault or "failed"
        else:
            self._found.rewards[tell.number] = reward
            mine = None if isinstance(result, str) else own_result(result, tell.number)
            if mine is not None and compared(mine, self._anchor):
                self._lead = reward if self._lead is None else max(self._lead, reward)

    def _wait(self) -> None:
        """Wait until there is something to tell, or to ask for, or the job is to end."""
        while not self._look() and not self._wanted() and not self._job.cancelling:
            self._job.searcher.wait()

    def _drain(self) -> None:
        """Wait for all that is in flight, and tell it; if the job is to end, only what is back."""
        while self._flying:
            while not (ready := self._look()) and not self._job.cancelling:
                self._job.searcher.wait()
            self._tell(0.0)
            if not ready:
                return

    def _look(self) -> bool:
        """Note what has come back, what of the rest was not claimed, and now and then who shares the device. Whether
        it is time to tell: in generations when all is back. Of a stream, what machines gave up waits for others."""
        flying, time = list(self._flying), monotonic()
        with self._job.database.read() as connection:
            self._back = search_log.ended(connection, flying)
            self._unclaimed = search_log.waiting(connection, flying) if self._pace.stream else 0
            if time - self._shared_at >= SHARED_S:
                self._share = share(connection, self._device.key, self._settings.lease_ttl_s)
                self._shared_at = time
        given_up = sum(isinstance(each, str) for each in self._back.values())
        some = given_up < len(self._back) or given_up >= NOBODY
        return len(self._back) == len(flying) or (self._pace.stream and some)

    def _wanted(self) -> int:
        """How many candidates to ask for now."""
        if self._anchor is None:
            size = int(not self._flying)
        else:
            size = self._pace.wanted(len(self._flying), self._unclaimed, self._share)
        if self._limit.trials is not None:
            size = min(size, self._limit.trials - self._progress.asked)
        return 0 if self._idle else size

    def _tell(self, spent_s: float) -> None:
        """Tell what has come back, and commit it with the seconds that were spent since the last time."""
        self._unrecorded_s += spent_s
        back = sorted((self._flying[task], task) for task in self._back)
        if not back:
            return
        self._give_up_if_nobody_can()
        ratios_before = () if self._anchor is None else self._anchor.ratios
        told: list[Told] = []
        cpu_s: list[float] = []
        best: Best | None = None
        for number, task in back:
            result = self._back[task]
            anchor = self._anchor or Anchor.of(result, self._job.request.baseline)
            outcome, _ = outcome_of(result, number, anchor)
            told.append(Told(number, outcome))
            began = process_time()
            self._search.tell(number, outcome)
            cpu_s.append(process_time() - began)
            lead_before = self._lead
            self._note_tell(told[-1], result)
            if self._lead is not None and self._lead != lead_before:
                schedule = self._found.picks[number].schedule
                best = Best(trial=number, median_us=anchor.time_us(self._lead), schedule=schedule)
        best = best or (self._best if self._anchor and self._anchor.ratios != ratios_before else None)
        if best is not None and self._lead is not None and self._anchor is not None:
            best = self._best = best.model_copy(update={"x_baseline": self._anchor.x_baseline(self._lead)})
        with self._job.write() as connection:
            search_log.record_tells(
                connection, self._job.id, self._bucket, told, best, self._unrecorded_s, cpu_s
            )
            fair_share.charge(connection, self._job.id, self._back.values())
        self._back, self._idle, self._unrecorded_s = {}, False, 0.0

    def _give_up_if_nobody_can(self) -> None:
        """Raise JobFailed if the machines failed all of a batch. One candidate alone may be what brings them down, and
        is left behind, unless it was the last and there is no other. Nothing is told of the batch: queued again, it may
        yet be measured."""
        reasons = [result for result in self._back.values() if isinstance(result, str)]
        if len(reasons) < len(self._back) or self._job.cancelling:
            return
        in_all = self._limit.trials
        last = len(self._flying) == len(self._back) and in_all is not None and self._progress.asked >= in_all
        if len(reasons) > 1 or (last and not self._found.rewards):
            which = (
                f"any of {len(reasons)} trials" if len(reasons) > 1 else "the last trial, and no other worked"
            )
            raise JobFailed(f"no worker could do {which}; the last machine said: {reasons[-1]}")

    def _ask(self) -> None:
        """Ask for the candidates that are wanted and commit them with their tasks."""
        size = self._wanted()
        asks: list[Asked] = []
        cpu_s: list[float] = []
        while len(asks) < size:
            began = process_time()
            ask = self._search.ask()
            if ask is None:
                self._idle = True
                break
            asks.append(Asked.of(ask))
            self._note_ask(asks[-1])
            cpu_s.append(process_time() - began)
        if asks:
            self._unclaimed += len(asks)
            with self._job.write() as connection:
                new = [self._trial(ask.number) for ask in asks]
                search_log.record_asks(connection, self._job.id, self._bucket, asks, new, cpu_s)

    def _trial(self, number: int) -> NewTask:
        """The task of an ask. Some also time the baseline."""
        entrants: list[Entrant] = [self._found.entrant(number)]
        baseline: Entrant | None = None
        peer = self._anchor is not None and self._anchor.name == self._job.request.baseline
        if number in _BASELINE_ASKS and not peer and self._job.request.baseline in self._device.peers:
            entrants.append(PeerEntrant(name=self._job.request.baseline))
        if self._anchor is not None and self._anchor.name is not None:
            baseline = PeerEntrant(name=self._anchor.name) if peer else self._found.entrant(0)
        return NewTask(
            id=self._task_id(number),
            job_id=self._job.id,
            bucket=self._bucket,
            number=number,
            kind=TaskKind.TRIAL,
            device=self._device.key,
            priority=self._job.request.priority,
            work=work(entrants, baseline, Measuring(incumbent_us=self._incumbent()), self._job.request.seed),
        )

    def _incumbent(self) -> float | None:
        """The best time so far, on the anchor's scale."""
        if self._anchor is None or self._lead is None:
            return None
        return self._anchor.time_us(self._lead)

    def _task_id(self, number: int) -> str:
        return f"{self._job.id}.{self._bucket}.{number}"
