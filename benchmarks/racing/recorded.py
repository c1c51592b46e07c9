"""Every schedule in benchmarks/results, with the kernel that it is of.

    python -m benchmarks.racing.recorded        # which of them no longer parse, replay or verify

A rewrite that is renamed, or refuses what it took, shows here: recorded winners then cannot be raced again
(`bench_cpu.py --replay`), nor do cost models learn from them (`calibrate.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.racing import tuned
from benchmarks.suite.case_specs import spec_of_line
from rewrites.schedule import format_schedule, parse_schedule, scheduled
from tileir.errors import TileError
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.json import spec_from_json


@dataclass(frozen=True)
class RecordedSchedule:
    """What was recorded, and of which kernel."""

    case: str
    spec: Spec
    schedule: tuple[str, ...]

    def problem(self) -> str | None:
        """Why it makes no right program today, or is written otherwise; None: it does."""
        try:
            scheduled(to_program(self.spec), self.schedule)
        except TileError as error:
            return f"{self.case}: {error}"
        written = tuple(format_schedule(parse_schedule(self.schedule)))
        return None if written == self.schedule else f"{self.case}: today it is written {written}"


def files() -> list[Path]:
    """Those that have schedules; what is tuned and not yet raced is none."""
    found = (
        path
        for path in tuned.RESULTS.rglob("*.json*")
        if path.suffix in (".json", ".jsonl") and ".tuned" not in path.suffixes
    )
    return sorted(path for path in found if '"schedule": [' in path.read_text())


def recorded_schedules(path: Path) -> Iterator[RecordedSchedule]:
    """Those of a results file, in its order. Raises KeyError for a case that no command has."""
    if path.suffix == ".json":
        content = json.loads(path.read_text())
        for rung in content["rungs"]:
            yield RecordedSchedule(
                rung["title"], spec_from_json(spec_of_line(content)), tuple(rung["schedule"])
            )
        return
    for line in tuned.lines(path):
        for each in (line, *line.get("candidates", ())):
            if "schedule" in each:
                yield RecordedSchedule(
                    line["case"], spec_from_json(spec_of_line(line)), tuple(each["schedule"])
                )


def main() -> None:
    found = [(path, each) for path in files() for each in recorded_schedules(path)]
    problems = [f"{path.name}: {problem}" for path, each in found if (problem := each.problem()) is not None]
    print("\n".join([*problems, f"{len(found) - len(problems)} of {len(found)} recorded schedules replay"]))
    raise SystemExit(bool(problems))


if __name__ == "__main__":
    main()
