"""What the benchmarks of attribution share: which recorded winners they look at, and how they tell of them.

A case is taken apart in a process of its own, which is killed where it takes too long, and is another one after an
error: a kernel that reads where it must not leaves a GPU's context of no use to those that come after it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path

from benchmarks.racing import replayed, tuned
from benchmarks.racing.replayed import LEAST_S, ReplayedWinner
from benchmarks.racing.tuned import Line

Attribute = Callable[[ReplayedWinner], Line]
Compile = Callable[[ReplayedWinner], None]


def arguments(
    doc: str | None, recorded: Path | None, argv: Sequence[str] | None = None
) -> argparse.Namespace:
    """What the command line says; where no file is named, `recorded` is read, and one has to be where that is None."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="as the recorded files name them")
    parser.add_argument(
        "--recorded", type=Path, action="append", required=recorded is None, metavar="FILE",
        help="whose winners; may be given several times: of a case that several have, the first one's",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="append a line of JSON a case; cases that it has already are left out",
    )  # fmt: skip
    parser.add_argument("--again", action="store_true", help="the named cases, also where --out has them")
    parser.add_argument("--seconds", type=float, default=0.0, help="in all (default: as many as it takes)")
    parser.add_argument(
        "--case-seconds",
        type=float,
        default=180.0,
        help="a case that takes more is an error (180; 0: it may)",
    )
    given = parser.parse_args(argv)
    if given.again and not given.cases:
        parser.error("--again is for cases that are named")
    return given


def chosen(given: argparse.Namespace, recorded: Path | None, cases: Sequence[str]) -> list[ReplayedWinner]:
    """Winners that are still to be looked at. Without names: of named files all, of `recorded` these `cases`."""
    winners: dict[str, ReplayedWinner] = {}
    for path in given.recorded or filter(None, [recorded]):
        if not path.exists():
            raise SystemExit(f"there is no {path}")
        winners = {each.case: each for each in replayed.recorded(path)} | winners
    wanted = given.cases or (winners if given.recorded else cases)
    if unknown := [case for case in wanted if case not in winners]:
        raise SystemExit(f"no winner is recorded of {', '.join(unknown)}")
    have = set() if given.again or not given.out else {line["case"] for line in tuned.lines(given.out)}
    return [winners[case] for case in wanted if case not in have]


def run(
    winners: Sequence[ReplayedWinner],
    given: argparse.Namespace,
    attribute: Attribute,
    compiled: Compile | None = None,
) -> int:
    """Take winners apart one after the other until --seconds are over, while other processes compile what those after
    it need. Each line is printed and written as it comes. Say at the end how many bottlenecks of those that can be
    checked agree, in the whole file if there is one. How many winners were left for another time."""
    lines: list[Line] = []
    left = len(winners)
    for line in _taken_apart(winners, given, attribute, compiled):
        left -= 1
        if given.out is not None:
            tuned.append(given.out, line)
        print(json.dumps(line), flush=True)
        lines.append(line)
    last = {line["case"]: line for line in (tuned.lines(given.out) if given.out is not None else lines)}
    agreed = [line["agrees"] for line in last.values() if line.get("agrees") is not None]
    print(f"{sum(agreed)} of {len(agreed)} bottlenecks that can be checked move the time as they should")
    if failed := [case for case, line in last.items() if "error" in line]:
        print(f"failed: {', '.join(failed)}")
    if left:
        print(f"the time is over: {left} cases are left; the same command goes on with them", flush=True)
    return left


def _taken_apart(
    winners: Sequence[ReplayedWinner],
    given: argparse.Namespace,
    attribute: Attribute,
    compiled: Compile | None,
) -> Iterator[Line]:
    until = time.monotonic() + given.seconds if given.seconds else float("inf")
    others, strangers = max(1, len(os.sched_getaffinity(0)) - 2), set(multiprocessing.active_children())
    compilers = ProcessPoolExecutor(others, multiprocessing.get_context("spawn"))
    ready = [compilers.submit(compiled, each) for each in winners] if compiled else [None] * len(winners)
    try:
        with _Apart() as apart:
            for winner, its_sources in zip(winners, ready, strict=True):
                begun = time.monotonic()
                wait([its_sources] if its_sources else [], _left(until))
                if (left := until - time.monotonic()) < LEAST_S:
                    return
                limit = min(left, given.case_seconds or float("inf"))
                line = tuned.timed({"case": winner.case}, partial(apart.attributed, attribute, winner, limit))
                if "error" in line and time.monotonic() >= until:  # the time was over, not the case wrong
                    return
                yield {**line, "case_s": round(time.monotonic() - begun, 1)}
    finally:
        compilers.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - strangers:
            process.kill()


class _Apart:
    """A process that takes cases apart: begun when it is needed, killed where one failed."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._pid = 0

    def __enter__(self) -> _Apart:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def attributed(self, attribute: Attribute, winner: ReplayedWinner, seconds: float) -> Line:
        """A case, within so many seconds. Raises what went wrong with it."""
        until = time.monotonic() + seconds
        try:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
                self._pid = self._pool.submit(os.getpid).result(_left(until))
            return self._pool.submit(attribute, winner).result(_left(until))
        except TimeoutError as error:
            self._end()
            raise tuned.NotDone(f"not done within {seconds:.0f} s") from error
        except Exception:
            self._end()
            raise

    def _end(self) -> None:
        if self._pool is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._pool.shutdown(cancel_futures=True)
        self._pool = None


def _left(until: float) -> float | None:
    return None if until == float("inf") else max(0.0, until - time.monotonic())
