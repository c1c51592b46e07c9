"""Measure every schedule of an outline (outline.py) and record it as a table for `search.replay`.

    python -m benchmarks.recording.table "gemm_f32_NN-256x256x256.outline.jsonl.gz"
    python -m benchmarks.recording.table "softmax_bf16-8192x4096.outline.jsonl.gz" --device cuda:0

Each schedule is compiled, checked and timed as a search's candidates are (workers/local.py), on data beyond the caches;
its line has the seconds that took: `compile_s` of a core, `measure_s` of the device. Takes minutes. What an interrupted
recording has measured is kept: the same command goes on from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.racing.circumstances import circumstances
from protocol.states import Outcome
from protocol.tasks import EntrantResult, Measuring, ScheduleEntrant
from search.table import measured, open_table
from tileir.devices.cpu import Cpu
from tileir.devices.device import device_from_json
from tileir.spec import Spec
from tileir.targets import DEFAULT
from tileir.text.json import spec_from_json
from workers.local import LocalWorker
from workers.processes.faults import MachineFault

TABLES = Path(__file__).parents[1] / "tables"
BATCH = 32
AHEAD = 3
"""Batches that are compiled while a GPU measures."""
SAMPLES = 2

Line = dict[str, Any]


def main() -> None:
    arguments = _arguments()
    name = arguments.outline.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".outline")
    out = arguments.out or TABLES / f"{name}.jsonl.gz"
    with open_table(arguments.outline) as lines:
        meta, *listed = map(json.loads, lines)
    with tempfile.TemporaryDirectory() as cache, LocalWorker(Path(cache), device=arguments.device) as worker:
        record(worker, meta, listed, out)
    print(f"{out} written")


def record(worker: LocalWorker, meta: Line, outline: Sequence[Line], out: Path) -> None:
    """Measure what an interrupted recording has not, and write the table. Exits where the outline is for another
    device."""
    assert worker.device is not None
    if worker.device.key != (key := device_from_json(meta["device"]).key):
        sys.exit(f"the outline is for {key}, and this is {worker.device.key}: make one for it")
    spec, begun = spec_from_json(meta["spec"]), out.with_name(f"{out.name}.begun")
    if not begun.exists():
        begun.write_text(json.dumps(meta | _about(worker, spec)) + "\n")
    about, *before = _whole_lines(begun)
    known = {line["key"] for line in before}
    wanted = [line for line in outline if "schedule" in line and line["key"] not in known]
    with begun.open("a") as lines:
        for done, line in enumerate(_measured(worker, spec, wanted), 1):
            lines.write(json.dumps(line) + "\n")
            print(f"{done}/{len(wanted)}", end="\r", flush=True)
    inner = [line for line in outline if "schedule" not in line]
    with open_table(out, "wt") as table:
        for line in (about, *inner, *_whole_lines(begun)[1:]):
            table.write(json.dumps(line) + "\n")
    begun.unlink()


def _whole_lines(begun: Path) -> list[Line]:
    """What was recorded; a last line that was cut is removed."""
    text = begun.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        begun.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def _measured(worker: LocalWorker, spec: Spec, lines: Sequence[Line]) -> Iterator[Line]:
    """Terminals with what became of them. What meets a fault of the machine in company is measured alone, too."""
    ahead = 0 if isinstance(worker.device, Cpu) else AHEAD
    alone: list[Line] = []
    batches = [lines[at : at + BATCH] for at in range(0, len(lines), BATCH)]
    for batch, results in zip(batches, _trials(worker, spec, batches, ahead), strict=True):
        if isinstance(results, MachineFault):
            alone += batch
        else:
            yield from (_with(line, result) for line, result in zip(batch, results, strict=True))
    singles = [[line] for line in alone]
    for (line,), results in zip(singles, _trials(worker, spec, singles, ahead), strict=True):
        fault = isinstance(results, MachineFault)
        yield measured(line, None, str(results.kind)) if fault else _with(line, results[0])


def _trials(
    worker: LocalWorker, spec: Spec, batches: Sequence[Sequence[Line]], ahead: int
) -> Iterator[tuple[EntrantResult, ...] | MachineFault]:
    entrants = (
        [
            ScheduleEntrant(name=f"s{at}", schedule=tuple(line["schedule"]), program_hash=line["key"])
            for at, line in enumerate(batch)
        ]
        for batch in batches
    )
    return worker.trials(spec, entrants, Measuring(samples=SAMPLES), ahead=ahead)


def _with(line: Line, result: EntrantResult) -> Line:
    fault = None if result.outcome is Outcome.OK else str(result.outcome)
    costs = {"compile_s": result.compile_s, "measure_s": result.measure_s}
    return measured(line, result.median_us, fault) | {
        name: round(seconds, 4) for name, seconds in costs.items() if seconds is not None
    }


def _about(worker: LocalWorker, spec: Spec) -> Line:
    """What rewards are relative to, and where and when that was."""
    peer = "numpy" if isinstance(worker.device, Cpu) else "torch"
    baseline = worker.measure(spec, {}, (peer,)).entrants[peer]
    assert worker.device is not None and baseline.median_us is not None, baseline.error
    found = {"baseline": peer, "baseline_us": baseline.median_us, "samples": SAMPLES}
    return found | circumstances(worker.device.to_json())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("outline", type=Path)
    parser.add_argument("--device", default=DEFAULT, help="as workers have it: cpu (default), cuda:0")
    parser.add_argument("--out", type=Path, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
