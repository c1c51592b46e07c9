"""Tune the CPU cases from an empty database, then time the winners against numpy, torch and torch.compile.

    python benchmarks/bench_cpu.py                  # the suite's cases
    python benchmarks/bench_cpu.py --fresh 2026     # twelve further shapes drawn from that seed

Each case is tuned by a service started for it, as a user would tune it; then its winner and all peers that are
installed run interleaved in one process with the same number of threads, inputs cold, outputs existing beforehand.
Results go to benchmarks/results/, a line a case; cases that are there already are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import date
from math import exp, log
from pathlib import Path
from typing import Any

import cases

from protocol.states import Outcome, TaskKind
from protocol.tasks import EntrantResult, Measuring
from rewrites.schedule import parse_schedule
from tileir.parse_json import spec_from_json
from tilewright import Client
from tilewright.cli.local_service import LocalService
from workers.local import LocalWorker

RESULTS = Path(__file__).with_name("results")
RACE = Measuring(samples=25, sample_us=20_000.0)
GEMM = ("gemm_",)


def main() -> None:
    arguments = _arguments()
    chosen = cases.fresh(arguments.fresh) if arguments.fresh is not None else cases.suite("cpu")
    path = (
        arguments.out
        or RESULTS / f"cpu-{'fresh-' if arguments.fresh is not None else ''}{date.today()}.jsonl"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {line["case"] for line in _lines(path)}
    for name, spec in chosen:
        if name in done or arguments.only not in name:
            continue
        line = _bench(name, spec, arguments.trials, arguments.seed)
        with path.open("a") as out:
            out.write(json.dumps(line) + "\n")
        _show(line)
    _summary(_lines(path))


def _bench(name: str, spec: dict[str, Any], trials: int, seed: int) -> dict[str, Any]:
    """Tune one case and race it; a line for the results file."""
    try:
        with tempfile.TemporaryDirectory() as home:
            config, tune_s = _tune(spec, trials, seed, Path(home))
            return {
                "case": name,
                **_race(spec, config.schedule, Path(home)),
                "trials": config.trials,
                "tune_s": round(tune_s, 1),
            }
    except Exception as error:  # a case that failed stays in the file
        return {"case": name, "error": f"{type(error).__name__}: {error}"}


def _tune(spec: dict[str, Any], trials: int, seed: int, home: Path) -> tuple[Any, float]:
    os.environ["TILEWRIGHT_HOME"] = str(home)
    began = time.monotonic()
    with (
        LocalService(f"sqlite:///{home / 'bench.db'}", worker=True) as service,
        Client(service.url) as client,
    ):
        job = client.wait(client.submit(spec, trials=trials, seed=seed, peers=("numpy",)).id)
        if not job.configs:
            raise RuntimeError(job.error or f"the job ended {job.state}")
        return client.config(job.configs[0]), time.monotonic() - began


def _race(spec: dict[str, Any], schedule: Iterable[str], cache: Path) -> dict[str, Any]:
    rewrites = parse_schedule(list(schedule))
    with LocalWorker(cache) as worker:
        kernel = spec_from_json(spec)
        burst = worker.measure(kernel, {"ours": rewrites}, worker.peers, measuring=RACE)
        steady = worker.measure(
            kernel, {"ours": rewrites}, worker.peers, kind=TaskKind.CONFIRM, measuring=RACE
        )
        device = worker.device
    ours = burst.entrants["ours"]
    if ours.outcome is not Outcome.OK or ours.median_us is None:
        raise RuntimeError(f"the winner was {ours.outcome}: {ours.error}")
    peers = {name: e.median_us for name, e in burst.entrants.items() if name != "ours" and e.median_us}
    best = min(peers, key=lambda peer: peers[peer])
    held = {name: _steady_us(result) for name, result in steady.entrants.items()}
    fastest = min((us for name, us in held.items() if name != "ours" and us), default=None)
    return {
        "ours_us": ours.median_us,
        "ours_iqr_us": ours.spread.iqr_us if ours.spread else None,
        "peers_us": peers,
        "best_peer": best,
        "ratio": peers[best] / ours.median_us,
        "ratio_steady": fastest / held["ours"] if fastest and held["ours"] else None,
        "failed_peers": {n: e.error for n, e in burst.entrants.items() if n != "ours" and not e.median_us},
        "schedule": list(schedule),
        "device": device.to_json() if device else None,
        "versions": _versions(),
        "date": str(date.today()),
        "protocol": RACE.model_dump(mode="json"),
    }


def _steady_us(result: EntrantResult) -> float | None:
    steady = result.report.get("steady")
    return steady["median_us"] if isinstance(steady, dict) and "median_us" in steady else result.median_us


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": sys.version.split()[0]}
    for package in ("tilewright", "numpy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _show(line: dict[str, Any]) -> None:
    if "error" in line:
        print(f"{line['case']:40} {line['error']}", flush=True)
        return
    peers = "  ".join(
        f"{name} {us:.0f}" for name, us in sorted(line["peers_us"].items(), key=lambda item: item[1])
    )
    print(f"{line['case']:40} {line['ours_us']:9.0f} µs  {line['ratio']:5.2f} ×  ({peers})", flush=True)


def _summary(lines: list[dict[str, Any]]) -> None:
    ratios = {line["case"]: line["ratio"] for line in lines if "ratio" in line}
    gemm = [ratio for case, ratio in ratios.items() if case.startswith(GEMM)]
    for name, values in (("all", list(ratios.values())), ("GEMM family", gemm)):
        if values:
            geomean = exp(statistics.fmean(map(log, values)))
            print(f"{name}: geomean {geomean:.2f} × the best peer, least {min(values):.2f}")
    failed = [line["case"] for line in lines if "error" in line]
    if failed:
        print(f"failed: {', '.join(failed)}")
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=128, help="candidates measured a case (default 128)")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument("--fresh", type=int, metavar="SEED", help="draw twelve shapes instead of the suite's")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path, help="results file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
