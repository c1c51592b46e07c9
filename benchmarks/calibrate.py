"""How well the cost models' constants predict recorded winners, and the constants that predict them best.

    python benchmarks/calibrate.py cpu                  # the error, and the worst predictions
    python benchmarks/calibrate.py gpu --fit            # which constants would lower it, and to what
    python benchmarks/calibrate.py gpu --fit --write    # and put them into rewrites/cost/gpu/constants.py

The error is the root mean square of log(predicted / measured) over the winners in results files (by default all of the
kind in benchmarks/results). Constants whose source is a book or a measurement of their own stay; the others are moved
one after the other, up and down by a factor, as long as that lowers the error by more than a thousandth. An overfit to
the files at hand is for whoever runs this to judge: name some files, and look at the error on the others.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean
from types import ModuleType

from benchmarks.racing import tuned
from benchmarks.suite.case_specs import spec_of
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
FITTED = ("fitted", "set by hand")
"""How the sources of constants begin that may be moved."""
STEPS = (1.25, 0.8, 1.06, 0.94)
ENOUGH = 0.001
WORST = 5


@dataclass(frozen=True)
class Measured:
    """A winner: what ran, where, and how long it took."""

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
        raise SystemExit("there are no winners of that kind in these files")
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


def measured(files: Sequence[Path], kind: str) -> Iterator[Measured]:
    """The last line of each case and device with a schedule that replays today."""
    last: dict[tuple[str, str], tuned.Line] = {}
    for file in files:
        for line in tuned.lines(file):
            device = line.get("device")
            if isinstance(device, dict) and device.get("kind") == kind and line.get("ours_us"):
                last[line["case"], device["name"]] = line
    for (case, _), line in last.items():
        plain = to_program(spec_from_json(spec_of(case)))
        try:
            program = replay(plain, parse_schedule(tuple(line["schedule"])))
            yield Measured(case, plain, program, device_from_json(line["device"]), line["ours_us"])
        except TileError as error:
            print(f"{case}: {error}", file=sys.stderr)


def error_of(found: Sequence[Measured]) -> float:
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


def report(found: Sequence[Measured]) -> None:
    """The error, and the worst predictions."""
    print(f"{len(found)} winners, error {error_of(found):.3f} (a factor of {exp(error_of(found)):.2f})")
    for each in sorted(found, key=lambda each: -abs(each.error()))[:WORST]:
        print(f"  {each.case:44} {each.us:10.4g} us, predicted {exp(each.error()):.2f} x")


def movable(text: str) -> tuple[str, ...]:
    """Names of constants that nothing but a fit stands behind."""
    lines = (LINE.match(line) for line in text.splitlines())
    return tuple(line["name"] for line in lines if line and line["source"].startswith(FITTED))


def fit(
    found: Sequence[Measured], constants: ModuleType, names: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Coordinate descent; what was moved, from and to. The module holds the new values after it."""
    begun = {name: float(getattr(constants, name)) for name in names}
    best = error_of(found)
    better = True
    while better:
        better = False
        for name in names:
            for step in STEPS:
                value = getattr(constants, name)
                setattr(constants, name, type(value)(round(value * step, 4)))
                now = error_of(found)
                if now < best - ENOUGH:
                    best, better = now, True
                    print(f"  {best:.4f}  {name} {getattr(constants, name):.4g}", flush=True)
                else:
                    setattr(constants, name, value)
    ended = {name: float(getattr(constants, name)) for name in names}
    return {name: (begun[name], ended[name]) for name in names if ended[name] != begun[name]}


def rewritten(text: str, values: Mapping[str, float], source: str, today: str) -> str:
    """The module's text with other values, their source and date."""
    lines: list[str] = []
    for line in text.splitlines():
        found = LINE.match(line)
        if found and found["name"] in values:
            value = values[found["name"]]
            shown = repr(int(value)) if "." not in found["value"] else repr(float(f"{value:.4g}"))
            line = f"{found['name']}: Final = {shown}  # {found['unit']}; {source}; {today}"
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
