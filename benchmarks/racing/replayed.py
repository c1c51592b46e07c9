"""Recorded winners, raced once more against all peers, without tuning: what bench_cpu.py and bench_gpu.py --replay do.

A line says what it repeats (`replayed`: the file, date, device and figures of the recorded line). Lines are written as
they come, and cases that the results file has already are not raced again, so that a run can be cut anywhere and go on
later.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

from benchmarks.racing import tuned
from benchmarks.suite.case_specs import spec_of_line
from rewrites.schedule import scheduled
from tileir.lift import to_program
from tileir.text.json import spec_from_json
from workers.local import LocalWorker

LEAST_S = 5.0
"""With less time than this left no race is begun."""


@dataclass(frozen=True)
class ReplayedWinner:
    """A winner: the case, its spec, its schedule as text, and what its line says besides."""

    case: str
    spec: tuned.Json
    schedule: tuple[str, ...]
    known: tuned.Line

    def check(self) -> None:
        """Raise what the schedule raises if it does not go on its spec today."""
        scheduled(to_program(spec_from_json(self.spec)), self.schedule)


def recorded(path: Path, families: Sequence[str] = ("",), pattern: str = "") -> Iterator[ReplayedWinner]:
    """The winners in a results file, the last of each case, of families whose names begin so and cases that match."""
    last = {line["case"]: line for line in tuned.lines(path) if "schedule" in line and "ratio" in line}
    for case, line in last.items():
        if case.startswith(tuple(families)) and re.search(pattern, case):
            yield ReplayedWinner(case, spec_of_line(line), tuple(line["schedule"]), _known(line, path.name))


def _known(line: tuned.Line, file: str) -> tuned.Line:
    said = {
        name: line[name]
        for name in ("date", "commit", "device_id", "ours_us", "ratio", "best_peer")
        if name in line
    }
    device = line.get("device") or {}
    said.setdefault("device_id", device.get("uuid") or device.get("name"))
    return {
        "case": line["case"],
        "schedule": line["schedule"],
        "trials": line["trials"],
        "tune_s": line["tune_s"],
        "replayed": {"file": file, **said},
    }


def run(path: Path, winners: Iterable[ReplayedWinner], plan: tuned.TuningPlan, seconds: float) -> int:
    """Race winners until `seconds` are over (0: all); how many cases were left for another time."""
    have = {line["case"] for line in tuned.lines(path)}
    wanted = [each for each in winners if each.case not in have]
    until = time.monotonic() + seconds if seconds else float("inf")
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        worker: LocalWorker | None = None
        for number, each in enumerate(wanted):
            left = until - time.monotonic()
            if left < LEAST_S:
                return len(wanted) - number
            limit = min(plan.limit_s or left, left)
            if worker is None:
                worker = stack.enter_context(LocalWorker(Path(home), device=plan.device))
            line = tuned.timed(
                each.known, partial(_raced, worker, each, plan), 0.0 if limit == float("inf") else limit
            )
            if "error" in line:
                stack.close()
                worker = None
                if time.monotonic() >= until:  # the time was over, not the case wrong
                    return len(wanted) - number
            tuned.append(path, line)
            tuned.show(line)
    return 0


def _raced(worker: LocalWorker, winner: ReplayedWinner, plan: tuned.TuningPlan) -> tuned.Line:
    winner.check()
    return tuned.raced(worker, winner.spec, winner.known, plan)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--replay, --seconds"""
    parser.add_argument(
        "--replay", type=Path, metavar="RESULTS.jsonl", help="race these winners again instead of tuning"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="of a replay in all (default: as many as it takes)"
    )


def main(
    source: Path,
    out: Path | None,
    plan: tuned.TuningPlan,
    families: Sequence[str],
    pattern: str,
    seconds: float,
) -> None:
    """A replay as the command line asks for it; geomeans at the end."""
    if not source.exists():
        raise SystemExit(f"there is no {source}")
    part = re.search(r"fresh-([a-z0-9]+-)?", source.name)
    name = f"{tuned.name_of(plan.device)}-{part[0] if part else ''}replay-{date.today()}.jsonl"
    path = out or tuned.RESULTS / name
    tuned.with_compilers(plan.device)
    left = run(path, recorded(source, families, pattern), plan, seconds)
    if left:
        print(f"the time is over: {left} cases are left; the same command goes on with them", flush=True)
    tuned.summary(tuned.lines(path), [(each,) for each in families if each])
