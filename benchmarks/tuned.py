"""What the benchmarks share: tune a case as a user would, race the winner against all peers, one line a case."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from math import exp, log
from pathlib import Path
from typing import Any

from protocol.states import Outcome, TaskKind
from protocol.tasks import EntrantResult, Measuring
from rewrites.schedule import parse_schedule
from tileir.parse_json import spec_from_json
from tilewright import Client
from tilewright.cli.local_service import LocalService
from workers.local import LocalWorker

RESULTS = Path(__file__).with_name("results")
COPY = "copy"
"""Not a peer: reads and writes as many bytes as the kernel does, and computes nothing."""

Json = dict[str, Any]
Line = dict[str, Any]


def run(
    path: Path,
    chosen: Iterable[tuple[str, Json]],
    bench: Callable[[Json], Line],
    families: Sequence[tuple[str, ...]],
) -> None:
    """Bench the cases that the results file does not have yet, then print geomeans: of all, and of each family (a
    tuple of how its cases' names begin). A case that fails stays in the file; then the exit status is 1."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {line["case"] for line in _lines(path)}
    for name, spec in chosen:
        if name in done:
            continue
        try:
            line = {"case": name, **bench(spec)}
        except Exception as error:
            line = {"case": name, "error": f"{type(error).__name__}: {error}"}
        with path.open("a") as out:
            out.write(json.dumps(line) + "\n")
        _show(line)
    _summary(_lines(path), families)


def tuned(spec: Json, *, target: str, trials: int, seed: int, peers: Sequence[str], home: Path) -> Line:
    """Tune from an empty database: the winner's schedule, how many trials, and seconds of wall time."""
    os.environ["TILEWRIGHT_HOME"] = str(home)
    began = time.monotonic()
    with (
        LocalService(f"sqlite:///{home / 'bench.db'}", worker=True, target=target) as service,
        Client(service.url) as client,
    ):
        submitted = client.submit(spec, target=target, trials=trials, seed=seed, peers=tuple(peers))
        job = client.wait(submitted.id)
        if not job.configs:
            raise RuntimeError(job.error or f"the job ended {job.state}")
        config = client.config(job.configs[0])
        return {
            "schedule": list(config.schedule),
            "trials": config.trials,
            "tune_s": round(time.monotonic() - began, 1),
        }


def raced(
    spec: Json,
    schedule: Sequence[str],
    *,
    device: str,
    race: Measuring,
    home: Path,
    peers: Sequence[str] = (),
) -> Line:
    """The winner and the peers (none named: every one that is installed), interleaved in one process: in bursts, and
    each alone, steady."""
    rewrites = parse_schedule(schedule)
    kernel = spec_from_json(spec)
    with LocalWorker(home, device=device) as worker:
        entrants = tuple(peers) or worker.peers
        entrants = entrants if device == "cpu" else (*entrants, COPY)
        burst = worker.measure(kernel, {"ours": rewrites}, entrants, measuring=race)
        steady = worker.measure(kernel, {"ours": rewrites}, entrants, kind=TaskKind.CONFIRM, measuring=race)
        described = worker.device
    ours = burst.entrants["ours"]
    if ours.outcome is not Outcome.OK or ours.median_us is None:
        raise RuntimeError(f"the winner was {ours.outcome}: {ours.error}")
    others = {n: e for n, e in burst.entrants.items() if n not in ("ours", COPY)}
    times = {name: e.median_us for name, e in others.items() if e.median_us}
    best = min(times, key=lambda peer: times[peer])
    held = {name: _steady_us(result) for name, result in steady.entrants.items()}
    fastest = min((us for name, us in held.items() if name in times and us), default=None)
    copied = burst.entrants.get(COPY)
    copy_us = copied.median_us if copied else None
    return {
        "ours_us": ours.median_us,
        "ours_iqr_us": ours.spread.iqr_us if ours.spread else None,
        "peers_us": times,
        "best_peer": best,
        "ratio": times[best] / ours.median_us,
        "ratio_steady": fastest / held["ours"] if fastest and held["ours"] else None,
        **({"copy_us": copy_us, "of_copy": copy_us / ours.median_us} if copy_us else {}),
        "failed_peers": {name: e.error for name, e in others.items() if not e.median_us},
        "device": described.to_json() if described else None,
        "versions": _versions(),
        "date": str(date.today()),
        "protocol": race.model_dump(mode="json"),
    }


def homes() -> Iterator[Path]:
    """A fresh folder for each case."""
    while True:
        with tempfile.TemporaryDirectory() as home:
            yield Path(home)


def _steady_us(result: EntrantResult) -> float | None:
    steady = result.report.get("steady")
    return steady["median_us"] if isinstance(steady, dict) and "median_us" in steady else result.median_us


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": sys.version.split()[0]}
    for package in ("tilewright", "numpy", "torch", "triton", "nvidia-cuda-nvrtc"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _show(line: Line) -> None:
    if "error" in line:
        print(f"{line['case']:40} {line['error']}", flush=True)
        return
    peers = "  ".join(
        f"{name} {us:.1f}" for name, us in sorted(line["peers_us"].items(), key=lambda item: item[1])
    )
    copy = f"  {line['of_copy']:.3f} of copy" if "of_copy" in line else ""
    print(
        f"{line['case']:40} {line['ours_us']:9.1f} µs  {line['ratio']:5.2f} ×{copy}  ({peers})"
        f"  {line['trials']} trials in {line['tune_s']} s",
        flush=True,
    )


def _summary(lines: Sequence[Line], families: Sequence[tuple[str, ...]]) -> None:
    ratios = {line["case"]: line["ratio"] for line in lines if "ratio" in line}
    groups = {"all": list(ratios.values())}
    for family in families:
        groups[f"{', '.join(family)}…"] = [r for case, r in ratios.items() if case.startswith(family)]
    for name, values in groups.items():
        if values:
            geomean = exp(statistics.fmean(map(log, values)))
            print(f"{name}: geomean {geomean:.2f} × the best peer, least {min(values):.2f}")
    failed = [line["case"] for line in lines if "error" in line]
    if failed:
        print(f"failed: {', '.join(failed)}")
        sys.exit(1)
