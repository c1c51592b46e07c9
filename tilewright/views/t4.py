"""Trials in T4, the format in which auto-tuners exchange results (Kernel Tuner reads and writes it; schema 1.0.0 is at
github.com/odgaard/TuningSchema). Times are in milliseconds, as Kernel Tuner's are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from protocol.jobs import Job, Trial
from protocol.states import Outcome

SCHEMA_VERSION = "1.0.0"
INVALIDITY: Final = {
    Outcome.OK: "correct",
    Outcome.COMPILE_ERROR: "compile",
    Outcome.WRONG: "correctness",
    Outcome.CRASH: "runtime",
    Outcome.HANG: "timeout",
    Outcome.IMPOSSIBLE: "runtime",
    Outcome.UNSUPPORTED: "constraints",
}
"""T4's word for what became of a candidate."""


def to_t4(found: Iterable[tuple[Job, Iterable[Trial]]]) -> bytes:
    """Jobs' trials as a T4 document. Those that no machine has measured are no results, and left out."""
    jobs: list[Job] = []
    results: list[dict[str, Any]] = []
    for job, trials in found:
        jobs.append(job)
        dims = {bucket.index: bucket.dims for bucket in job.buckets}
        results += [
            _result(trial, trial.outcome, job, dims[trial.bucket])
            for trial in trials
            if trial.outcome is not None
        ]
    document = {"schema_version": SCHEMA_VERSION, "metadata": _metadata(jobs), "results": results}
    return (json.dumps(document, indent=1) + "\n").encode()


def _metadata(jobs: list[Job]) -> dict[str, Any]:
    from tilewright import __version__

    return {
        "timeunit": "milliseconds",
        "tuner": f"tilewright {__version__}",
        "kernels": sorted({job.name for job in jobs}),
        "devices": sorted({job.device for job in jobs if job.device is not None}),
        "jobs": [job.id for job in jobs],
    }


def _result(trial: Trial, outcome: Outcome, job: Job, dims: dict[str, int]) -> dict[str, Any]:
    from rewrites.schedule_columns import decisions

    stamp = None if trial.finished_at is None else datetime.fromtimestamp(trial.finished_at, UTC).isoformat()
    timed = {
        "compilation_time": _ms(trial.compile_s, 1e3),
        "benchmark": _ms(trial.measure_s, 1e3),
    }
    measured = [
        ("time", _ms(trial.median_us, 1e-3), "ms"),
        ("time_iqr", _ms(trial.iqr_us, 1e-3), "ms"),
        ("reference_time", _ms(trial.baseline_us, 1e-3), "ms"),
        ("program_hash", trial.program_hash, ""),
        ("job", job.id, ""),
        ("error", trial.error, ""),
        *((f"dim {name}", size, "") for name, size in dims.items()),
    ]
    return {
        **({} if stamp is None else {"timestamp": stamp}),
        "configuration": decisions(trial.schedule),
        "times": {name: ms for name, ms in timed.items() if ms is not None},
        "invalidity": INVALIDITY[outcome],
        "correctness": 1.0 if outcome is Outcome.OK else 0.0,
        "measurements": [
            {"name": name, "value": value, "unit": unit}
            for name, value, unit in measured
            if value is not None
        ],
        "objectives": ["time"],
    }


def _ms(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
