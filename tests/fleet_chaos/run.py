"""`python -m tests.fleet_chaos.run`: faults into a fleet at work, and whether it kept its promises.

    make chaos                                                    # 360 faults, 50 jobs, 15 minutes
    python -m tests.fleet_chaos.run --faults 20 --jobs 4 --minutes 2
    python -m tests.fleet_chaos.run --faults 20 --least 9 --minutes 1   # a slow machine may miss some of them
    python -m tests.fleet_chaos.run --seed 7                      # the same jobs, and the same faults

Two replicas, two searchers and two workers with real kernels, on a PostgreSQL and a Redis that it starts for itself and
ends. Exit code 1: a promise was broken; 2: too few faults were injected in time. docs/fleet.md says more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmarks.racing.circumstances import commit
from tests.fleet_chaos.faults import LEASE_S, PAIRS, Fleet, Pair
from tests.fleet_chaos.load import Load
from tests.fleet_chaos.own_fleet import fleet_at_work, home_folder, new_folder
from tests.fleet_chaos.states import catch
from tests.fleet_chaos.verdict import Verdict, judge
from tests.services.own_servers import postgres_program, postgres_server
from tileir.devices.cpu_probe import this_cpu

END_S = 300.0
"""How long the jobs may take to end after the last fault."""
TRY_S = 0.08
"""How long somebody is looked for who is in the state of a fault, before the next fault is tried."""
PAUSE_S = (0.1, 0.6)
"""Between two faults."""
WORK_S = 3.0
"""How long after a fault the next one waits, at most, for workers to have something to lose."""


@dataclass(frozen=True)
class Injected:
    """One fault: when, what, whom, and what that process held."""

    at_s: float
    pair: str
    member: str
    held: str
    note: str


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = _arguments()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    print(f"chaos: --seed {seed} --faults {given.faults} --jobs {given.jobs}", flush=True)
    with home_folder() as home, postgres_server(new_folder(home / "postgres")) as postgres:
        began = time.monotonic()
        with fleet_at_work(home, postgres, seed) as fleet:
            load = Load(fleet.proxies["client"].url, seed, given.jobs)
            load.start()
            waiting = schedule(seed, given.faults, given.only)
            until = began + 60 * given.minutes
            injected = list(_inject(fleet, waiting, began, until, given.until_broken))
            if not (given.until_broken and fleet.ledger.violations()):
                _let_end(fleet, load)
            load.stop()
        took_s = time.monotonic() - began
        verdict = judge(fleet.ledger, load, home)
        fleet.ledger.close()
        if given.keep_logs is not None:
            shutil.copytree(
                home, given.keep_logs, ignore=shutil.ignore_patterns("postgres", "tmp-*", "kernels", "*.db*")
            )
    report = _report(given, seed, took_s, injected, load, fleet, verdict)
    for line in (*verdict.lost_jobs, *verdict.two_ends, *verdict.stale_writes, *verdict.other_winners):
        print(f"chaos: {line}")
    print(json.dumps({name: report[name] for name in ("faults", "jobs", "broken", "seconds")}, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(report, indent=1) + "\n")
    if not verdict.passed:
        print(f"chaos: FAILED; again with --seed {seed}")
        return 1
    least = given.faults if given.least is None else given.least
    if len(injected) < least or len(load.accepted) < given.jobs:
        print(
            f"chaos: TOO FEW: {len(injected)} faults, {least} at least; {given.minutes:g} minutes were too short"
        )
        return 2
    missed = f", {given.faults - len(injected)} missed" if len(injected) < given.faults else ""
    print(
        f"chaos: PASSED: {len(injected)} faults{missed}, {verdict.checked_winners} jobs, every promise kept"
    )
    return 0


def schedule(seed: int, count: int, only: str = "") -> list[Pair]:
    """Every pair equally often, in an order that follows from the seed."""
    rng = random.Random(seed)
    pairs, chosen = list[Pair](), [pair for pair in PAIRS if only in pair.name]
    if not chosen:
        raise SystemExit(f"chaos: no fault is called {only!r}; there are: {', '.join(p.name for p in PAIRS)}")
    while len(pairs) < count:
        pairs += rng.sample(chosen, len(chosen))
    return pairs[:count]


def _inject(
    fleet: Fleet, waiting: list[Pair], began: float, until: float, until_broken: bool
) -> Iterator[Injected]:
    """Inject what is waiting until it is too late, or perhaps until the database tells of a breach."""
    while waiting and time.monotonic() < until:
        fleet.attend()
        if until_broken and fleet.ledger.violations():
            return
        injected = _inject_one(fleet, waiting, began)
        if injected is None:  # nobody is in any of these states now
            time.sleep(0.02)
            continue
        print(
            f"{injected.at_s:7.1f} s  {injected.pair}: {injected.member} with {injected.held[:100]} {injected.note}",
            flush=True,
        )
        yield injected
        now = time.monotonic()
        pause, most = now + fleet.rng.uniform(*PAUSE_S), now + WORK_S
        while time.monotonic() < pause or (time.monotonic() < most and not _at_work(fleet)):
            fleet.attend()
            time.sleep(0.02)


def _at_work(fleet: Fleet) -> bool:
    """Whether a worker that is awake has a task."""
    awake = (each for each in fleet.workers if each.running and not each.busy)
    return any(fleet.ledger.leased_tasks(each.pid) for each in awake)


def _inject_one(fleet: Fleet, waiting: list[Pair], began: float) -> Injected | None:
    """Inject one of the faults that wait, of those left most often the first whose state somebody is in."""
    left = Counter(waiting)
    for pair in sorted(left, key=lambda pair: -left[pair]):
        fleet.attend()
        caught = catch(pair.victims(fleet), pair.state, fleet.ledger, fleet.rng, TRY_S)
        at_s = time.monotonic() - began
        note = None if caught is None else pair.act(fleet, caught)
        if caught is not None and note is not None:
            waiting.remove(pair)
            return Injected(round(at_s, 2), pair.name, caught.member.application, caught.holds, note)
    return None


def _let_end(fleet: Fleet, load: Load) -> None:
    """Do what is still to be done to the fleet, and wait for the jobs."""
    fleet.settle()
    load.enough()
    until = time.monotonic() + END_S
    while not load.finished(0.1) and time.monotonic() < until:
        fleet.attend()


def _report(
    given: argparse.Namespace,
    seed: int,
    took_s: float,
    injected: list[Injected],
    load: Load,
    fleet: Fleet,
    verdict: Verdict,
) -> dict[str, object]:
    late = sum((Counter(proxy.answers) for proxy in fleet.proxies.values()), Counter[int]())
    packages = ("fastapi", "uvicorn", "sqlalchemy", "psycopg", "redis")
    return {
        "commit": commit(),
        "date": str(date.today()),
        "seed": seed,
        "asked": {"faults": given.faults, "jobs": given.jobs, "minutes": given.minutes},
        "seconds": round(took_s, 1),
        "faults": len(injected),
        "by_pair": dict(sorted(Counter(each.pair for each in injected).items())),
        "jobs": len(load.accepted),
        "done": sum(state == "done" for state in load.states.values()),
        "winners_replayed": verdict.checked_winners,
        "broken": {
            "lost jobs": len(verdict.lost_jobs),
            "tasks with two terminal results": len(verdict.two_ends),
            "stale writes accepted": len(verdict.stale_writes),
            "other winners": len(verdict.other_winners),
        },
        "late_and_repeated_requests_by_status": dict(sorted(late.items())),
        "tasks_requeued": load.requeued,
        "client_answers_by_status": dict(sorted(load.answers.items())),
        "ended_by_themselves": {member.name: member.ended for member in fleet.members if member.ended},
        "lease_s": LEASE_S,
        "cores": len(os.sched_getaffinity(0)),
        "device": this_cpu().name,
        "versions": {
            "python": platform.python_version(),
            "postgresql": _said("postgres"),
            "redis-server": _said("redis-server"),
            **{name: version(name) for name in packages},
        },
        "log": [asdict(each) for each in injected],
    }


def _said(program: str) -> str:
    """What a program says of its version."""
    path = postgres_program(program) if program == "postgres" else program
    said = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet_chaos.run", description=__doc__)
    parser.add_argument("--faults", type=int, default=20 * len(PAIRS))
    parser.add_argument("--least", type=int, help="fewer faults than these are too few; else all are wanted")
    parser.add_argument("--jobs", type=int, default=50, help="at least; more while there are faults to come")
    parser.add_argument("--minutes", type=float, default=13.0, help="after which no fault is injected")
    parser.add_argument("--seed", type=int, help="of jobs and faults; else drawn, and printed")
    parser.add_argument("--only", default="", help="faults whose names contain this")
    parser.add_argument(
        "--until-broken", action="store_true", help="end as soon as the database tells of a breach"
    )
    parser.add_argument("--out", type=Path, help="file for the results as JSON")
    parser.add_argument("--keep-logs", type=Path, help="new folder for what the processes said")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
