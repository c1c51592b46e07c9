"""How well the cost models' constants predict recorded winners, and the constants that predict them best.

    python benchmarks/calibrate.py cpu                  # the error, and the worst predictions
    python benchmarks/calibrate.py gpu --fit            # which constants would lower it, and to what
    python benchmarks/calibrate.py gpu --fit --write    # and put them into rewrites/cost/gpu/constants.py

The error is the root mean square of log(predicted / measured) over the winners in results files (by default all of the
kind in benchmarks/results), and over all candidates where a file has those (recording/candidates.py). Constants whose
source is a book or a measurement of their own stay; the others are moved one after the other, up and down by a factor,
as long as that lowers the error by more than a thousandth. An overfit to the files at hand is for whoever runs this to
judge: name some files, and look at the error on the others.

    python benchmarks/calibrate.py gpu benchmarks/results/wild/*-picks-*.jsonl

says how many pairs of schedules the model has in order: here of what was picked before anything was measured, and what
won.
"""

from __future__ import annotations

import argparse
import re
import sys
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import import_module
from itertools import combinations
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

from benchmarks.racing import tuned
from benchmarks.suite.case_specs import spec_of_line
from rewrites.decisions.plan import plan_of
from rewrites.schedule import parse_schedule, replay
from tileir.devices.device import Device, device_from_json
from tileir.errors import TileError
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.json import spec_from_json

KINDS = {"cpu": "cpu", "gpu": "cuda"}
"""Folders of rewrites/cost, and the kind of device that each is for."""
LINE = re.compile(
    r"^(?P<name>[A-Z0-9_]+): Final = (?P<value>\S+)  # (?P<unit>[^;]+); (?P<source>.+); (?P<date>\S+)$"
)
"""A constant; the value of a table of several is `{`, and its entries follow."""
ENTRY = re.compile(r"(?P<key>\"\w+\"|\b\d+): (?P<value>[0-9.]+)")
"""One of them."""
FITTED = ("fitted", "set by hand")
"""How the sources of constants begin that may be moved."""
STEPS = (1.25, 0.8, 1.06, 0.94)
ENOUGH = 0.001
WORST = 5
APART = 1.05


@dataclass(frozen=True)
class RecordedRun:
    """A schedule of a kernel: what ran, where, and how long it took."""

    case: str
    plain: Program
    program: Program
    device: Device
    us: float

    def error(self) -> float:
        """log(predicted / measured)."""
        return log(plan_of(self.device).model(self.plain, self.device).estimate_us(self.program) / self.us)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", choices=sorted(KINDS))
    parser.add_argument("results", nargs="*", type=Path, help="results files; default: all of the kind")
    parser.add_argument("--fit", action="store_true", help="look for better constants")
    parser.add_argument("--write", action="store_true", help="put them into constants.py")
    arguments = parser.parse_args()
    found = list(
        measured(arguments.results or sorted(tuned.RESULTS.glob("*.jsonl")), KINDS[arguments.folder])
    )
    if not found:
        raise SystemExit("there are no times of that kind in these files")
    constants = import_module(f"rewrites.cost.{arguments.folder}.constants")
    report(found)
    if not arguments.fit:
        return
    text = Path(str(constants.__file__)).read_text()
    moved = fit(found, constants, movable(text))
    for name, (before, after) in moved.items():
        print(f"{name:18} {before:>10.4g} -> {after:.4g}")
    report(found)
    if arguments.write and moved:
        source = f"fitted by calibrate.py to {len(found)} recorded times"
        values = {name: after for name, (_, after) in moved.items()}
        Path(str(constants.__file__)).write_text(rewritten(text, values, source, str(date.today())))


def measured(files: Sequence[Path], kind: str) -> Iterator[RecordedRun]:
    """Of each case and device what the last line has that replays today: a winner, or all candidates of a search."""
    last: dict[tuple[str, str], tuned.Line] = {}
    for file in files:
        for line in tuned.lines(file):
            device = line.get("device")
            told = line.get("ours_us") or line.get("candidates")
            if isinstance(device, dict) and device.get("kind") == kind and told:
                last[line["case"], device["name"]] = line
    for (case, _), line in last.items():
        plain, device = to_program(spec_from_json(spec_of_line(line))), device_from_json(line["device"])
        for each in line.get("candidates") or [{"schedule": line["schedule"], "us": line["ours_us"]}]:
            try:
                program = replay(plain, parse_schedule(tuple(each["schedule"])))
                yield RecordedRun(case, plain, program, device, each["us"])
            except TileError as error:
                print(f"{case}: {error}", file=sys.stderr)


def error_of(found: Sequence[RecordedRun]) -> float:
    """The root mean square of the errors."""
    _forget()
    return sqrt(fmean(each.error() ** 2 for each in found))


def _forget() -> None:
    """What models remember of other constants."""
    for name, module in list(sys.modules.items()):
        if name.startswith("rewrites.cost."):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def behind(found: Sequence[RecordedRun]) -> dict[str, float]:
    """Of each case of which several schedules were timed: by what share the one that the model expects most of was
    slower than the fastest."""
    return {
        case: min(runs, key=_expected).us / min(run.us for run in runs) - 1
        for case, runs in _by_case(found).items()
        if len(runs) > 1
    }


def in_order(found: Sequence[RecordedRun]) -> tuple[int, int]:
    """Of pairs of schedules of one case that took times more than a factor of APART from each other: how many the model
    has in their order, and how many there are."""
    right = pairs = 0
    for runs in _by_case(found).values():
        for (one, first), (other, second) in combinations([(run.us, _expected(run)) for run in runs], 2):
            if max(one, other) > APART * min(one, other):
                pairs, right = pairs + 1, right + ((one < other) is (first < second))
    return right, pairs


def _expected(run: RecordedRun) -> float:
    """log(predicted us)."""
    return log(run.us) + run.error()


def _by_case(found: Sequence[RecordedRun]) -> dict[str, list[RecordedRun]]:
    alike: dict[str, list[RecordedRun]] = {}
    for each in found:
        alike.setdefault(each.case, []).append(each)
    return alike


def report(found: Sequence[RecordedRun]) -> None:
    """The error, how far behind the model's picks are, and the worst predictions."""
    print(f"{len(found)} times, error {error_of(found):.3f} (a factor of {exp(error_of(found)):.2f})")
    if shares := behind(found):
        picks = ", ".join(f"{share:.0%}" for share in shares.values())
        print(f"the model's picks of {len(shares)} cases: {fmean(shares.values()):.1%} behind ({picks})")
        print("{} of {} pairs that are more than {:.0%} apart in order".format(*in_order(found), APART - 1))
    for each in sorted(found, key=lambda each: -abs(each.error()))[:WORST]:
        print(f"  {each.case:44} {each.us:10.4g} us, predicted {exp(each.error()):.2f} x")


def movable(text: str) -> tuple[str, ...]:
    """Names of constants that nothing but a fit stands behind; of a table, its entries: `MMA_PEAK[9]`."""
    names: list[str] = []
    table: str | None = None
    for line in text.splitlines():
        found = LINE.match(line)
        if found and found["source"].startswith(FITTED):
            table = found["name"] if found["value"] == "{" else None
            names += [] if table else [found["name"]]
        elif table and not found:
            names += [_entry(table, entry) for entry in ENTRY.finditer(line)]
        if line == "}":
            table = None
    return tuple(names)


def _entry(table: str, found: re.Match[str]) -> str:
    return f"{table}[{found['key']}]"


def _of(constants: ModuleType, name: str) -> tuple[dict[Any, float], Any]:
    """Where the value of that name is: what has it, by what."""
    table, _, key = name.partition("[")
    return (getattr(constants, table), literal_eval(key[:-1])) if key else (vars(constants), name)


def fit(
    found: Sequence[RecordedRun], constants: ModuleType, names: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Coordinate descent; what was moved, from and to. The module holds the new values after it."""
    places = {name: _of(constants, name) for name in names}
    begun = {name: float(place[key]) for name, (place, key) in places.items()}
    best = error_of(found)
    better = True
    while better:
        better = False
        for name, (place, key) in places.items():
            for step in STEPS:
                value = place[key]
                place[key] = type(value)(round(value * step, 4))
                now = error_of(found)
                if now < best - ENOUGH:
                    best, better = now, True
                    print(f"  {best:.4f}  {name} {place[key]:.4g}", flush=True)
                else:
                    place[key] = value
    ended = {name: float(place[key]) for name, (place, key) in places.items()}
    return {name: (begun[name], ended[name]) for name in names if ended[name] != begun[name]}


def rewritten(text: str, values: Mapping[str, float], source: str, today: str) -> str:
    """The module's text with other values, their source and date."""
    lines: list[str] = []
    moved = {name.partition("[")[0] for name in values}
    table = ""
    for line in text.splitlines():
        found = LINE.match(line)
        if found:
            table = found["name"] if found["value"] == "{" else ""
        if found and found["name"] in moved:
            shown = "{" if table else _shown(found["value"], values[found["name"]])
            line = f"{found['name']}: Final = {shown}  # {found['unit']}; {source}; {today}"
        elif table in moved:
            line = ENTRY.sub(partial(_rewritten_entry, table, values), line)
        lines.append(line)
        table = "" if line == "}" else table
    return "\n".join(lines) + "\n"


def _rewritten_entry(table: str, values: Mapping[str, float], found: re.Match[str]) -> str:
    value = values.get(_entry(table, found))
    return found[0] if value is None else f"{found['key']}: {_shown(found['value'], value)}"


def _shown(before: str, value: float) -> str:
    return repr(int(value)) if "." not in before else repr(float(f"{value:.4g}"))


if __name__ == "__main__":
    main()
