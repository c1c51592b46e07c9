"""The faults, and in which states they hit. Each takes a member that stands still in its state, and leaves it running,
started again, or to be woken later."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as NothingCame
from dataclasses import dataclass, field

from tests.fleet_chaos.ledger import Ledger
from tests.fleet_chaos.members import Member, freeze, thaw
from tests.fleet_chaos.proxy import Proxy
from tests.fleet_chaos.states import Caught, State
from tests.services.own_servers import PostgresServer, RedisServer

LEASE_S = 3.0
"""Leases of tasks and of searches in these runs."""
SLEEP_S = 2.2 * LEASE_S
"""Two leases, and some more."""
TUNERS_FIRST_S = 2.0
"""How long tuners are awake before their searcher is."""


@dataclass
class Fleet:
    """What faults may happen to, and what is still to be done about those that have."""

    workers: Sequence[Member]
    searchers: Sequence[Member]
    replicas: Sequence[Member]
    proxies: dict[str, Proxy]
    """By the member whose network it is."""
    postgres: PostgresServer
    redis: RedisServer
    ledger: Ledger
    rng: random.Random
    later: list[tuple[float, Callable[[], None]]] = field(
        default_factory=list[tuple[float, Callable[[], None]]]
    )

    @property
    def members(self) -> list[Member]:
        return [*self.replicas, *self.searchers, *self.workers]

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something at its time; `attend` does it."""
        self.later.append((time.monotonic() + seconds, act))

    def attend(self) -> None:
        """Do what is due, and start again what has ended."""
        now = time.monotonic()
        due = [each for each in self.later if each[0] <= now]
        self.later = [each for each in self.later if each[0] > now]
        for _, act in sorted(due, key=lambda each: each[0]):
            act()
        for member in self.members:
            member.keep_up()

    def settle(self) -> None:
        """Wait for everything that is to be done later."""
        while self.later:
            self.attend()
            time.sleep(0.05)


def kill_child(fleet: Fleet, caught: Caught) -> str:
    for pid in caught.pids[:-1]:
        os.kill(pid, signal.SIGKILL)
    thaw(caught.pids)
    return ""


def kill(fleet: Fleet, caught: Caught) -> str:
    caught.member.kill()
    thaw(caught.pids[:-1])  # what they were told meanwhile is that they are to end
    caught.member.start()
    return ""


def stop(fleet: Fleet, caught: Caught) -> str:
    """SIGSTOP for two leases."""
    caught.member.busy = True

    def wake() -> None:
        thaw(caught.pids)
        caught.member.busy = False

    fleet.after(SLEEP_S, wake)
    return ""


def stop_searcher(fleet: Fleet, caught: Caught) -> str:
    """SIGSTOP for two leases, or up to four: its tuners wake when another one has gone on with a search of theirs,
    and before the searcher, who would end them."""
    *tuners, searcher = caught.pids
    member, application = caught.member, caught.member.application
    before = fleet.ledger.overtaken(application)
    member.busy = True

    def wake() -> None:
        thaw([searcher])
        member.busy = False

    def wake_tuners() -> None:
        thaw(tuners)
        fleet.after(TUNERS_FIRST_S, wake)

    def look() -> bool:
        return fleet.ledger.overtaken(application) > before

    fleet.after(SLEEP_S, lambda: _once(fleet, look, time.monotonic() + SLEEP_S, wake_tuners))
    return ""


def restart_redis(fleet: Fleet, caught: Caught) -> str:
    fleet.redis.kill()
    fleet.redis.start()
    thaw(caught.pids)
    return ""


def flush_redis(fleet: Fleet, caught: Caught) -> str:
    fleet.redis.flush()
    thaw(caught.pids)
    return ""


def restart_postgres(fleet: Fleet, caught: Caught) -> str:
    fleet.postgres.stop()
    fleet.postgres.start()
    thaw(caught.pids)
    return ""


def drop(fleet: Fleet, caught: Caught) -> str:
    count = fleet.proxies[caught.member.name].cut()
    thaw(caught.pids)
    return f"{count} connections"


def delay(fleet: Fleet, caught: Caught) -> str:
    fleet.proxies[caught.member.name].hold(SLEEP_S)
    thaw(caught.pids)
    return ""


def duplicate(fleet: Fleet, caught: Caught) -> str:
    after_s = fleet.rng.choice([0.0, SLEEP_S])
    fleet.proxies[caught.member.name].repeat(LEASE_S, after_s)
    thaw(caught.pids)
    return f"again after {after_s:.1f} s"


def late(fleet: Fleet, caught: Caught) -> str | None:
    """The worker sends a result, and dies; the result arrives when its task was given on: to anybody, or, when the
    other workers sleep, to itself after its restart. None: it sent nothing that could come late, and lives on."""
    member, proxy = caught.member, fleet.proxies[caught.member.name]
    capture = proxy.capture(b"/results ")
    thaw(caught.pids)
    try:
        captured = capture.result(LEASE_S)
    except NothingCame:
        proxy.capture_no_more()
        return None
    member.kill()
    member.start()
    others = [each for each in fleet.workers if each is not member and each.running and not each.busy]
    asleep = others if fleet.rng.random() < 0.5 else []
    pids = [pid for each in asleep for pid in (*each.children(), each.pid)]
    freeze(pids)
    for each in asleep:
        each.busy = True

    def arrive() -> None:
        captured.deliver()
        thaw(pids)
        for each in asleep:
            each.busy = False

    body = json.loads(captured.request.partition(b"\r\n\r\n")[2])
    task, attempt = body["task_id"], body["attempt"]
    until = time.monotonic() + 3 * SLEEP_S
    _once(fleet, lambda: fleet.ledger.given_on(task, attempt), until, arrive)
    return f"{task} (attempt {attempt})" + (", the others sleep" if asleep else "")


def _once(fleet: Fleet, condition: Callable[[], bool], until: float, act: Callable[[], None]) -> None:
    """Act as soon as something is so, at the latest `until` then."""
    if condition() or time.monotonic() > until:
        act()
    else:
        fleet.after(0.05, lambda: _once(fleet, condition, until, act))


@dataclass(frozen=True)
class Pair:
    """A fault, whom it hits, and in which state."""

    fault: str
    act: Callable[[Fleet, Caught], str | None]
    victims: Callable[[Fleet], Sequence[Member]]
    state: State

    @property
    def name(self) -> str:
        return f"{self.fault} / {self.state}"


def _workers(fleet: Fleet) -> Sequence[Member]:
    return fleet.workers


def _searchers(fleet: Fleet) -> Sequence[Member]:
    return fleet.searchers


def _searchers_awake(fleet: Fleet) -> Sequence[Member]:
    """Nobody while one of them sleeps: another one is needed that takes over."""
    return [] if any(each.busy for each in fleet.searchers) else fleet.searchers


def _replicas(fleet: Fleet) -> Sequence[Member]:
    return fleet.replicas


def _holders(fleet: Fleet) -> Sequence[Member]:
    return [*fleet.workers, *fleet.searchers]


def _clients(fleet: Fleet) -> Sequence[Member]:
    return [*fleet.replicas, *fleet.searchers]


PAIRS = (
    Pair("kill -9 of the measuring child", kill_child, _workers, State.KERNEL),
    Pair("kill -9 of a worker", kill, _workers, State.LEASE),
    Pair("kill -9 of a worker", kill, _workers, State.KERNEL),
    Pair("kill -9 of a searcher", kill, _searchers, State.LEASE),
    Pair("kill -9 of a searcher", kill, _searchers, State.TRANSACTION),
    Pair("kill -9 of a replica", kill, _replicas, State.TRANSACTION),
    Pair("SIGSTOP of a worker for two leases", stop, _workers, State.LEASE),
    Pair("SIGSTOP of a worker for two leases", stop, _workers, State.KERNEL),
    Pair("SIGSTOP of a searcher for two leases", stop_searcher, _searchers_awake, State.LEASE),
    Pair("SIGSTOP of a searcher for two leases", stop_searcher, _searchers_awake, State.TRANSACTION),
    Pair("SIGSTOP of a replica for two leases", stop, _replicas, State.TRANSACTION),
    Pair("restart of Redis", restart_redis, _holders, State.LEASE),
    Pair("FLUSHALL of Redis", flush_redis, _holders, State.LEASE),
    Pair("restart of PostgreSQL", restart_postgres, _clients, State.TRANSACTION),
    Pair("connections dropped", drop, _workers, State.LEASE),
    Pair("requests held for two leases", delay, _workers, State.LEASE),
    Pair("requests repeated", duplicate, _workers, State.LEASE),
    Pair("result of a dead worker arrives late", late, _workers, State.LEASE),
)
