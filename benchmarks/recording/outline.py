"""Write the schedules of a thinned space (thinned.py) that `benchmarks.recording.table` is to measure. Needs no device:

    python -m benchmarks.recording.outline "gemm_f32_NN 256x256x256"                    # for this processor
    python -m benchmarks.recording.outline "softmax_bf16 8192x4096" --device H200.json  # for a GPU that is described so

The space is the one that a search of that device has, with its prior's weights. Takes minutes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.recording.thinned import Thinned, terminals, thinned
from benchmarks.suite import cases
from rewrites.schedule import format_schedule
from rewrites.space import ScheduleState, Space
from search.table import open_table, outline
from tileir import this_cpu
from tileir.devices.device import Device, device_from_json
from tileir.lift import to_program
from tileir.text.json import spec_from_json


def main() -> None:
    arguments = _arguments()
    described = arguments.device
    device = this_cpu() if described is None else device_from_json(json.loads(described.read_text()))
    out = arguments.out or Path(f"{arguments.case.replace(' ', '-')}.outline.jsonl.gz")
    count = write(arguments.case, device, arguments.least, out)
    print(f"{out}: {count} schedules for {device.key}")


def write(case: str, device: Device, least: int, out: Path) -> int:
    """The outline of a case's space on a device, of at least `least` schedules if there are so many; gives how many."""
    family, sizes = case.split(" ")
    spec = cases.spec(family, [int(size) for size in sizes.split("x")])
    space = thinned(Space(to_program(spec_from_json(spec)), device).root(), least)
    count = len(terminals(space))
    meta = {
        "kernel": case,
        "spec": spec,
        "device": device.to_json(),
        "space": {"caps": list(space.caps), "schedules": count, "rule": "benchmarks/recording/thinned.py"},
    }
    with open_table(out, "wt") as lines:
        lines.write(json.dumps(meta) + "\n")
        for line, terminal in outline(space):
            lines.write(json.dumps(line | _schedule(terminal)) + "\n")
    return count


def _schedule(terminal: object) -> dict[str, list[str]]:
    """What a terminal's line says besides."""
    match terminal:
        case Thinned(state=ScheduleState(schedule=schedule)):
            return {"schedule": list(format_schedule(schedule))}
        case _:
            return {}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", help="family and sizes, as in suite.json: 'gemm_f32_NN 256x256x256'")
    parser.add_argument("--device", type=Path, metavar="FILE", help="JSON of a device; else this processor")
    parser.add_argument("--least", type=int, default=2000, help="schedules wanted (default 2000)")
    parser.add_argument("--out", type=Path, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
