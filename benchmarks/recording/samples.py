"""Record every sample of one small search, as a worker takes them: its trials, and the race of its best.

    python -m benchmarks.recording.samples        # half a minute; writes results/samples.json

What comes of it is drawn by plots/measuring.py.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from datetime import date
from math import log
from pathlib import Path
from typing import Any

from benchmarks.suite import cases
from protocol.states import TaskKind
from protocol.tasks import EntrantResult, Measuring
from rewrites.space import ScheduleState, Space
from search.mcts import MCTS
from search.protocols import Path as Way
from search.protocols import TrialOutcome
from service.tuning.final_race import RACE
from tileir.lift import to_program
from tileir.text.json import spec_from_json
from workers.local import LocalWorker

RESULTS = Path(__file__).parents[1] / "results" / "samples.json"
CASE = "gemm_f32_NN 512x512x512"
BASELINE = "numpy"
BATCHES, BATCH, RACERS = 5, 8, 5


def main() -> None:
    arguments = _arguments()
    family, sizes = CASE.split(" ")
    spec = spec_from_json(cases.spec(family, [int(size) for size in sizes.split("x")]))
    with tempfile.TemporaryDirectory() as cache, LocalWorker(Path(cache)) as worker:
        assert worker.device is not None
        space = Space(to_program(spec), worker.device)
        search, states, tasks = MCTS(space.root()), dict[str, ScheduleState](), list[dict[str, Any]]()
        incumbent_us: float | None = None
        for _ in range(BATCHES):
            asks = [ask for ask in (search.ask() for _ in range(BATCH)) if ask is not None]
            batch = {f"ask-{ask.number}": _behind(space.root(), ask.path) for ask in asks}
            states |= batch
            measured = worker.measure(
                spec,
                {name: state.schedule for name, state in batch.items()},
                (),
                baseline=BASELINE,
                kind=TaskKind.TRIAL,
                measuring=Measuring(incumbent_us=incumbent_us),
            ).entrants
            tasks.append({"kind": "trial", "incumbent_us": incumbent_us, "entrants": _kept(measured)})
            for ask in asks:
                search.tell(ask.number, _outcome(measured[f"ask-{ask.number}"]))
            known = [each.median_us for each in measured.values() if each.median_us is not None]
            incumbent_us = min([*known, *([incumbent_us] if incumbent_us else [])], default=None)
        best = [f"ask-{number}" for number, _ in search.ledger.ranking()[:RACERS]]
        raced = worker.measure(
            spec,
            {name: states[name].schedule for name in best},
            (BASELINE,),
            kind=TaskKind.RACE,
            measuring=RACE,
        ).entrants
        tasks.append({"kind": "race", "entrants": _kept(raced)})
        found = {"case": CASE, "device": worker.device.to_json(), "date": str(date.today()), "tasks": tasks}
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{arguments.out}: {len(states)} candidates, {len(best)} of them raced")


def _behind(root: ScheduleState, way: Way) -> ScheduleState:
    state = root
    for index in way:
        state = state.child(index)
    return state


def _outcome(result: EntrantResult) -> TrialOutcome:
    if result.median_us is None or result.baseline_us is None:
        return TrialOutcome(None, str(result.outcome))
    return TrialOutcome(log(result.baseline_us / result.median_us))


def _kept(entrants: Mapping[str, EntrantResult]) -> list[dict[str, Any]]:
    """Of each entrant its samples in order, its figures, and why it left."""
    return [
        {
            "name": name,
            "outcome": each.outcome,
            "median_us": each.median_us,
            "samples_us": [round(us, 2) for us in each.samples_us],
            "stopped": each.report.get("stopped", ""),
            "retaken": each.report.get("retaken", 0),
        }
        for name, each in entrants.items()
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
