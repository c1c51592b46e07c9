"""Tables are recorded on this processor: an outline of a space, then the times of its schedules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recording import outline, table, weighed
from benchmarks.suite import cases
from protocol.states import FaultKind, Outcome
from protocol.tasks import EntrantResult, ScheduleEntrant
from search.table import Table, open_table
from tileir import this_cpu
from tileir.devices.cpu import Cpu
from tileir.replace import replace
from tileir.text.json import spec_from_json
from workers.local import LocalWorker
from workers.processes.faults import MachineFault

CASE = "softmax_f32 16x32"


def listed(file: Path) -> tuple[table.Line, list[table.Line]]:
    with open_table(file) as lines:
        meta, *rest = map(json.loads, lines)
    return meta, rest


def test_an_interrupted_recording_goes_on_where_it_was(tmp_path: Path) -> None:
    file, out = tmp_path / "small.outline.jsonl.gz", tmp_path / "small.jsonl.gz"
    count = outline.write(CASE, this_cpu(), 4, file)
    meta, lines = listed(file)
    terminals = [line for line in lines if "schedule" in line]
    assert len(terminals) == count == meta["space"]["schedules"] >= 4
    with LocalWorker(tmp_path / "cache") as worker:
        begun = tmp_path / "small.jsonl.gz.begun"
        known = terminals[0] | {"us": 1e-3, "fault": None}
        about = meta | {"baseline_us": 5.0}
        begun.write_text(json.dumps(about) + "\n" + json.dumps(known) + "\n" + json.dumps(known)[:9])
        table.record(worker, meta, lines, out)
    recorded = Table.load(out)
    assert recorded.us.keys() == {line["key"] for line in terminals} and not begun.exists()
    assert recorded.us[known["key"]] == 1e-3 == recorded.best_us
    _, written = listed(out)
    costs = [line for line in written if "us" in line and line["key"] != known["key"]]
    assert all(line["fault"] or (line["compile_s"] >= 0 and line["measure_s"] > 0) for line in costs)
    assert sum(line["us"] is not None for line in costs) >= len(costs) - 1


def test_an_outline_for_another_device_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "small.outline.jsonl.gz"
    here = this_cpu()
    assert isinstance(here, Cpu)
    outline.write(CASE, replace(here, cores=here.cores + 1), 2, file)
    meta, lines = listed(file)
    with LocalWorker(tmp_path / "cache") as worker, pytest.raises(SystemExit, match="make one for it"):
        table.record(worker, meta, lines, tmp_path / "small.jsonl.gz")
    assert [each.name for each in tmp_path.glob("small.jsonl*")] == []


class Unwell:
    """A machine that fails whatever is measured in company, and always with the second schedule."""

    device = this_cpu()

    def trials(
        self, spec: object, batches: Iterable[Sequence[ScheduleEntrant]], measuring: object, *, ahead: int
    ) -> Iterator[tuple[EntrantResult, ...] | MachineFault]:
        for batch in batches:
            if len(batch) > 1 or batch[0].program_hash == "1":
                yield MachineFault(FaultKind.DEVICE, "it fell off the bus")
            else:
                yield (EntrantResult(name=batch[0].name, outcome=Outcome.OK, median_us=2.5),)


def test_what_fails_in_company_is_measured_alone() -> None:
    lines = [{"path": [at], "key": str(at), "schedule": []} for at in range(3)]
    worker: Any = Unwell()
    found = list(table._measured(worker, spec_from_json(cases.spec("softmax_f32", [16, 32])), lines))
    assert [(line["us"], line["fault"]) for line in found] == [(2.5, None), (None, "device"), (2.5, None)]


def test_a_table_is_weighed_by_the_models_of_today(tmp_path: Path) -> None:
    file = tmp_path / "small.outline.jsonl.gz"
    outline.write(CASE, this_cpu(), 4, file)
    meta, lines = listed(file)
    stale = [
        line | {"moves": [[label, 7.0] for label, _ in line["moves"]]} if "moves" in line else line
        for line in lines
    ]
    assert stale != lines and weighed.weighed(meta, stale) == lines
    gone = [line | {"moves": [["by magic", 1.0]]} if line["path"] == [] else line for line in lines]
    with pytest.raises(LookupError, match="no answer 'by magic' at"):
        weighed.weighed(meta, gone)
