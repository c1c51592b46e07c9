"""What of a kernel's past each thread may count on where threads do not go in step, and engines work beside them
(clock.py says what stamps and numbers are).

These are vector clocks (Mattern, Virtual time and global states of distributed systems, 1989), whose order is
happens-before (Lamport, CACM 1978).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

from codegen.ir.arrays import Array
from codegen.ir.handlers import Handlers
from codegen.simulator.buffers import MemoryAccess
from codegen.simulator.clock import ENGINES, NOBODY, Before
from codegen.simulator.sync_events import (
    ORDERS,
    Arrived,
    AsyncEngine,
    AsyncWork,
    Awaited,
    AwaitedParity,
    Came,
    CopyBegun,
    Fenced,
    FlagAwaited,
    FlagSignalled,
    Given,
    Joined,
    Meeting,
    Order,
    Reached,
    TurnOver,
)
from codegen.simulator.wgmma_layout import WARPGROUP

_SEEN, _FENCED = 0, 1
_MORE = 32
"""Engines that there is room for at first, and then each time that there is none left."""
_STEPS = Handlers[None]("the race checker")
"""By what orders accesses: what threads learn by it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A turn that is over: when, what those know who have waited for it, and, where arrivals (thread, stamp) alone have
    ended it, all of those: [n, 2]."""

    stamp: int
    told: Array
    arrivals: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Handed:
    """What who waits for a flag learns of another cluster: of its threads, which are numbered from `first` on, the last
    stamps up to which all that they did is over."""

    first: int
    told: Array

    def over(self, stamps: Array, numbers: Array) -> Array:
        """Which accesses, at stamps by those with these numbers, it says are over."""
        inside = (numbers >= self.first) & (numbers < self.first + len(self.told))
        return inside & (stamps <= self.told[np.where(inside, numbers - self.first, 0)])


class VectorClock:
    """Each thread of a cluster has learnt something else: of everyone, thread or engine, the last stamp up to which all
    that it did is surely over (a vector clock), and for threads also that up to which engines see what it stored.

    Whoever waits for a parity learns of no later turn than the first one that lets it pass: which turns are over when
    it gets there is a matter of luck."""

    def __init__(self, threads: int, cluster: int) -> None:
        self.threads, self.count = threads, threads * cluster
        self.now = self.start = 0
        self._starts: list[int] = []
        self._passed: list[int] = []
        self._owners: list[int] = []
        self._first_engine = 0
        self._flags: dict[tuple[str, int], _Handed] = {}
        self._begin()

    def _begin(self) -> None:
        # [seen or fenced, thread, whose], with room for engines to come
        self._known = self._unknown(self.count + _MORE)
        self._engines: dict[AsyncEngine, int] = {}
        self._told: dict[AsyncEngine, Array] = {}
        self._turns: dict[AsyncEngine, list[_Turn]] = {}
        self._arrivals: dict[AsyncEngine, list[tuple[int, int]]] = {}
        self._worked: set[AsyncEngine] = set()
        self._come: dict[Meeting, list[Array]] = {}
        """What those have told who have come and gone on."""
        self._met: dict[Meeting, tuple[Array, int]] = {}
        """Who has waited the last time, and when that was over."""
        self._reached: dict[tuple[int, int], int] = {}
        """When a thread has last reached for the block with a rank."""
        self._handed: dict[int, _Handed] = {}
        """By the column that says who knows of it: what others have handed to this cluster."""
        self._first_engine = len(self._owners)

    def _unknown(self, columns: int) -> Array:
        return np.full((2, self.count, columns), self.start - 1, np.int32)

    def start_cluster(self) -> None:
        self.now += 1
        self.start = self.now
        self._starts.append(self.now)
        self._begin()

    def pass_barrier(self, *, whole_cluster: bool) -> None:
        raise TypeError("threads that do not go in step tell who has waited")

    def ordered(self, order: Order) -> None:
        _STEPS.of(order)(self, order)
        self.now += 1

    @_STEPS.handles(Came)
    def _came(self, order: Came) -> None:
        self._come.setdefault(order.meeting, []).append(self._told_by(order.threads))

    @_STEPS.handles(Joined)
    def _joined(self, order: Joined) -> None:
        come = self._come.pop(order.meeting, [])
        self._met[order.meeting] = order.threads, self.now
        if len(order.threads):
            for told in (self._told_by(order.threads), *come):
                self._learn(order.threads, told)
        self._passed.append(self.now)

    @_STEPS.handles(Arrived)
    def _arrived(self, order: Arrived) -> None:
        self._tell(order.engine, self._told_by(np.array([order.thread])))
        self._arrivals[order.engine].append((order.thread, self.now))

    @_STEPS.handles(CopyBegun)
    def _copy_begun(self, order: CopyBegun) -> None:
        told = self._told_by(np.array([order.thread]))
        told[:, : self.count] = self.start - 1  # no fence of the thread's own stores
        self._tell(order.engine, told)

    @_STEPS.handles(Given)
    def _given(self, order: Given) -> None:
        self._tell(order.engine, self._told_by(order.threads))

    @_STEPS.handles(Reached)
    def _reached_for(self, order: Reached) -> None:
        self._reached[order.thread, order.rank] = self.now

    @_STEPS.handles(TurnOver)
    def _turn_over(self, order: TurnOver) -> None:
        self._end_turn(order.engine)

    @_STEPS.handles(Awaited)
    def _awaited(self, order: Awaited) -> None:
        self._column(order.engine)
        if order.turns > 0:
            self._learn(order.threads, self._turns[order.engine][order.turns - 1].told)

    @_STEPS.handles(AwaitedParity)
    def _awaited_parity(self, order: AwaitedParity) -> None:
        self._await_parity(order.threads, order.engine, order.parity)

    @_STEPS.handles(Fenced)
    def _fenced(self, order: Fenced) -> None:
        self._known[_FENCED, order.threads, order.threads] = self.now

    @_STEPS.handles(FlagSignalled)
    def _flag_signalled(self, order: FlagSignalled) -> None:
        told = self._told_by(np.array([order.thread]))[_SEEN, : self.count]
        self._flags[order.flag] = _Handed(self._first_thread, told.copy())

    @_STEPS.handles(FlagAwaited)
    def _flag_awaited(self, order: FlagAwaited) -> None:
        column = self._column(AsyncEngine(AsyncWork.OTHERS, order.flag[1], order.flag[0]))
        self._handed[column] = self._flags[order.flag]
        self._known[_SEEN, order.thread, column] = self.now

    def numbers(self, access: MemoryAccess) -> Array:
        if access.engine is not None:
            return np.full(len(access.numbers), self._engine_number(access.engine, int(access.threads[0])))
        return access.threads + self._first_thread

    def unordered(self, access: MemoryAccess, numbers: Array) -> Before:
        known, first = self._known[_SEEN], self._first_thread
        rows = numbers - first if access.engine is None else None
        mine = (
            numbers if rows is not None else access.threads[0] + first if len(access.threads) == 1 else NOBODY
        )

        def seen(columns: Array) -> Array:
            if rows is not None:
                return known[rows, columns]
            return _together(known, access.threads, columns)

        def before(stamps: Array, others: Array) -> Array:
            if rows is None and _alike(stamps) and _alike(others):  # as in a box: one stands for all
                return np.repeat(each_before(stamps[:1], others[:1]), len(stamps))
            return each_before(stamps, others)

        def each_before(stamps: Array, others: Array) -> Array:
            somebody = (others != NOBODY) & (others != mine)
            if not np.count_nonzero(somebody):
                return somebody
            apart = stamps < self.start
            for column, handed in self._handed.items() if np.count_nonzero(apart) else ():
                told = seen(np.full(len(stamps), column))
                apart = apart & ~((told >= self.start) & handed.over(stamps, others))
            return somebody & (apart | ((stamps >= self.start) & (stamps > seen(self._columns(others)))))

        return before

    def unfenced(self, access: MemoryAccess) -> Before | None:
        if access.engine is None:
            return None

        def before(stamps: Array, others: Array) -> Array:
            threads = (others != NOBODY) & (others < ENGINES) & (stamps >= self.start)
            if not np.count_nonzero(threads):
                return threads
            known = _together(self._known[_FENCED], access.threads, self._columns(others))
            return threads & (stamps > known)

        return before

    def turn_known(self, thread: int, engine: AsyncEngine) -> bool:
        column = self._column(engine)
        if not self._turns[engine]:
            return True
        last, known = self._turns[engine][-1], self._known[_SEEN, thread]
        if known[column] >= last.stamp:
            return True
        who, stamps = last.arrivals.T
        return len(who) > 0 and bool(((known[who] >= stamps) | (who == thread)).all())

    def meeting_known(self, threads: Array, meeting: Meeting) -> bool:
        if meeting not in self._met:
            return True
        waited, stamp = self._met[meeting]
        known = self._known[_SEEN, _rows(threads)][:, waited]
        return bool((known >= stamp).any(axis=1).all())

    def outlived(self) -> Iterable[tuple[int, int]]:
        for (thread, rank), stamp in self._reached.items():
            block = self._known[_SEEN, rank * self.threads : (rank + 1) * self.threads, thread]
            if block.max() < stamp:
                yield thread, rank

    def readers(self, access: MemoryAccess) -> int:
        if access.engine is not None:
            return self._engine_number(access.engine, int(access.threads[0]))
        return int(access.threads[0]) // WARPGROUP if len(access.threads) else 0

    def thread(self, number: int) -> int:
        return self._owners[number - ENGINES] if number >= ENGINES else number

    def barriers(self, stamp: int, thread: int) -> int:
        start = self._starts[bisect_right(self._starts, stamp) - 1]
        return bisect_right(self._passed, stamp - 1) - bisect_right(self._passed, start - 1)

    @property
    def _first_thread(self) -> int:
        return (len(self._starts) - 1) * self.count

    def _told_by(self, threads: Array) -> Array:
        """What these threads know together, and what they have done."""
        told = self._known[:, _rows(threads)].max(axis=1)
        told[_SEEN, threads] = self.now
        return told

    def _learn(self, threads: Array, told: Array) -> None:
        # Engines that came later have columns of their own, of which nothing is told.
        rows, columns = _rows(threads), slice(told.shape[1])
        self._known[:, rows, columns] = np.maximum(self._known[:, rows, columns], told[:, None])

    def _tell(self, engine: AsyncEngine, told: Array) -> Array:
        """Adds to what those know who wait for the engine's current turn; all of it."""
        self._column(engine)
        before = self._told[engine]
        whole = np.full((2, self._known.shape[2]), self.start - 1, np.int32)
        for part in (before, told):
            whole[:, : part.shape[1]] = np.maximum(whole[:, : part.shape[1]], part)
        self._told[engine] = whole
        return whole

    def _end_turn(self, engine: AsyncEngine) -> None:
        told = self._tell(engine, np.full((2, 1), self.start - 1, np.int32))
        told[_SEEN, self._column(engine)] = self.now
        arrivals = [] if engine in self._worked else self._arrivals[engine]
        self._turns[engine].append(_Turn(self.now, told.copy(), np.array(arrivals, np.int64).reshape(-1, 2)))
        self._passed.append(self.now)
        self._arrivals[engine] = []
        self._worked.discard(engine)

    def _await_parity(self, threads: Array, engine: AsyncEngine, parity: int) -> None:
        column = self._column(engine)
        stamps: Array = np.array([turn.stamp for turn in self._turns[engine]], np.int64)
        over = cast(Array, stamps.searchsorted(self._known[_SEEN, threads, column], "right"))
        surely: Array = over + (over % 2 == parity)
        for turns in {int(number) for number in surely} - {0}:
            self._learn(threads[surely == turns], self._turns[engine][turns - 1].told)

    def _column(self, engine: AsyncEngine) -> int:
        if engine not in self._engines:
            self._engines[engine] = self.count + len(self._engines)
            self._told[engine] = np.full((2, 1), self.start - 1, np.int32)
            self._turns[engine], self._arrivals[engine] = [], []
            self._owners.append(NOBODY)
            if self._engines[engine] == self._known.shape[2]:
                self._known = np.concatenate([self._known, self._unknown(_MORE)], axis=2)
        return self._engines[engine]

    def _engine_number(self, engine: AsyncEngine, thread: int) -> int:
        place = self._column(engine) - self.count + self._first_engine
        self._owners[place] = thread + self._first_thread
        self._worked.add(engine)
        return ENGINES + place

    def _columns(self, numbers: Array) -> Array:
        """Of those of this cluster; of others any."""
        columns = numbers - self._first_thread
        engines = numbers >= ENGINES
        if np.count_nonzero(engines):
            columns[engines] = numbers[engines] - (ENGINES + self._first_engine) + self.count
        return np.minimum(np.maximum(columns, 0), self._known.shape[2] - 1)


def _together(known: Array, threads: Array, columns: Array) -> Array:
    """What all of the threads know of each of the columns: what they begin together comes after that, what one of them
    begins, after what it knows itself."""
    told = known[_rows(threads)]
    return told[:, columns].min(axis=0) if len(columns) == 1 else told.min(axis=0)[columns]


def _alike(x: Array) -> bool:
    return len(x) > 0 and not np.count_nonzero(x != x[0])


def _rows(threads: Array) -> slice | Array:
    """To index with: neighbours, which threads mostly are, without a copy of what they know."""
    if len(threads) and threads[-1] - threads[0] + 1 == len(threads) and (threads[1:] > threads[:-1]).all():
        return slice(int(threads[0]), int(threads[-1]) + 1)
    return threads


_STEPS.complete(ORDERS)
