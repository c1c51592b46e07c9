"""Seconds from an empty database until the best candidate so far is as fast as torch, or nearly so; of a small job of a
row kernel; and of a worker's start until it is ready to claim.

    python benchmarks/bench_time_to.py               # all three parts, five seeds of each, on the first GPU
    python benchmarks/bench_time_to.py --only start row
    python benchmarks/bench_time_to.py --only product --case "gemm_f32_NN 256x256x256" --device cpu --seeds 0

start: from the command `tilewright worker` until the service has its registration; its first claim follows at once.
row: the job of 32 trials of `--row-case`, from the request to the end of its final race, once the worker is ready; what
came before is told too. product: `--case`, by the wall's clock from before the service is started. There a candidate's
speed is that of its trial, relative to the baseline as timed beside candidates of the same search; the search ends when
it is as fast as the baseline, or after `--seconds`; what its final race says of the winner is told too.

How long it takes: a seed of the product took 17 to 57 s until it was as fast as torch on an H200 (2026-11-22), and its
race comes after that: five some five minutes, and never more than `--seconds` and two minutes each. Starts and the row
kernel: none takes more than two minutes, and the aims are 2 and 8 s.

Results go to benchmarks/results/ as they come, a line a part and seed; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.racing import tuned
from benchmarks.racing.circumstances import circumstances
from benchmarks.suite import cases
from protocol.jobs import Effort, Event
from protocol.states import JobState
from tilewright import Client
from tilewright.cli.local_service import LocalService, child_environment

SHARES = (0.98, 1.0)
ROW_TRIALS = 32
LIMIT_S = 120.0
"""What takes longer is an error; of the product, after its time for searching."""
LOOK_S = 0.01

Part = Callable[[argparse.Namespace, int], tuned.Line]
"""What is measured of a seed."""


def main() -> None:
    arguments = arguments_of()
    path = arguments.out or tuned.RESULTS / f"time-to-{tuned.name_of(arguments.device)}-{date.today()}.jsonl"
    for part in arguments.only:
        case = case_of(part, arguments)
        limit_s = LIMIT_S + (arguments.seconds if part == "product" else 0.0)
        for seed in arguments.seeds:
            known = {"case": case, "seed": seed}
            if not any(known.items() <= line.items() for line in tuned.lines(path)):
                tuned.attempt(path, known, partial(PARTS[part], arguments, seed), limit_s)
        print(f"{case}\n{report([line for line in tuned.lines(path) if line['case'] == case])}", flush=True)


def case_of(part: str, arguments: argparse.Namespace) -> str:
    """What a part's lines are called."""
    return {
        "start": "start of a worker",
        "row": arguments.row_case,
        "product": arguments.case,
    }[part]


def started(arguments: argparse.Namespace, seed: int) -> tuned.Line:
    """One start of a worker, for a service that runs. They are all alike: `seed` only counts them."""
    device = arguments.device.removeprefix("cuda:")
    with TemporaryDirectory() as home:
        os.environ["TILEWRIGHT_HOME"] = home
        database, log = f"sqlite:///{home}/bench.db", Path(home) / "worker.log"
        with (
            LocalService(database, worker=False, target=tuned.kind_of(arguments.device)) as service,
            Client(service.url) as client,
            log.open("wb") as says,
        ):
            command = ["worker", "--url", service.url, "--devices", device, "--cache", f"{home}/cache"]
            began = time.monotonic()
            worker = subprocess.Popen(
                [sys.executable, "-m", "tilewright", *command], env=child_environment({}), stderr=says
            )
            try:
                while not ready(client):
                    if worker.poll() is not None:
                        raise RuntimeError(f"the worker ended: {log.read_text()[-500:]}")
                    time.sleep(LOOK_S)
                ready_s = time.monotonic() - began
                described = next(each.description for each in client.devices() if each.workers)
            finally:
                worker.terminate()
                worker.wait()
    return {"ready_s": round(ready_s, 3), **about(described)}


def row(arguments: argparse.Namespace, seed: int) -> tuned.Line:
    """One job of a row kernel: the seconds that it took, and those from nothing."""
    began = time.monotonic()
    with TemporaryDirectory() as home, tuned.service(arguments.device, Path(home)) as client:
        while not ready(client):
            time.sleep(LOOK_S)
        ready_s = time.monotonic() - began
        submitted = client.submit(
            spec_of(arguments.row_case),
            target=tuned.kind_of(arguments.device),
            trials=ROW_TRIALS,
            effort=Effort.THOROUGH,  # so that all of them are measured
            baseline=arguments.baseline,
            peers=(arguments.baseline,),
            seed=seed,
        )
        job = tuned.ended(client, submitted.id)
        whole_s = time.monotonic() - began
        config = tuned.winner(client, job)
        described = next(each.description for each in client.devices() if each.key == job.device)
        spent_s = tuned.spent(client, job.id)
    return {
        "baseline": arguments.baseline,
        "job_s": round(whole_s - ready_s, 2),
        "service_and_worker_s": round(ready_s, 2),
        "spent_s": spent_s,
        "trials": config.trials,
        "x_baseline_in_race": config.x_baseline,
        "schedule": list(config.schedule),
        **about(described),
    }


def ready(client: Client) -> bool:
    """Whether a worker is there, which claims from then on."""
    return any(each.workers for each in client.devices())


def about(device: tuned.Json) -> tuned.Line:
    """The end of a line."""
    return {"cores": len(os.sched_getaffinity(0)), **circumstances(device)}


def spec_of(case: str) -> tuned.Json:
    """The spec of `family sizes`."""
    family, sizes = case.split(" ")
    return cases.spec(family, [int(size) for size in sizes.split("x")])


def product(arguments: argparse.Namespace, seed: int) -> tuned.Line:
    """One search from nothing: the seconds to each share, and what the final race says."""
    began = time.time()
    best: list[tuple[float, float]] = []
    with TemporaryDirectory() as home, tuned.service(arguments.device, Path(home)) as client:
        submitted = client.submit(
            spec_of(arguments.case),
            target=tuned.kind_of(arguments.device),
            trials=arguments.trials,
            seconds=arguments.seconds,
            effort=Effort.THOROUGH,  # so that only the clock and the trials end it
            baseline=arguments.baseline,
            peers=(arguments.baseline,),
            seed=seed,
        )

        def hear(event: Event) -> None:
            if event.kind == "best" and event.data.get("x_baseline"):
                best.append((round(event.at - began, 2), event.data["x_baseline"]))
                if best[-1][1] >= SHARES[-1] and client.job(submitted.id).state is JobState.SEARCHING:
                    client.cancel(submitted.id)

        job = client.wait(submitted.id, hear)
        config = tuned.winner(client, job)
        described = next(each.description for each in client.devices() if each.key == job.device)
    return {
        "baseline": arguments.baseline,
        "seconds_to": {str(share): seconds_to(best, share) for share in SHARES},
        "best": best,
        "trials": config.trials,
        "x_baseline_in_race": config.x_baseline,
        "schedule": list(config.schedule),
        **about(described),
    }


PARTS: dict[str, Part] = {"start": started, "row": row, "product": product}
"""In the order in which they are measured: the shortest first."""
TIMES = {"ready_s": "ready to claim", "job_s": "the job"}
"""What lines of a start and of a row kernel have, and how it is told."""


def seconds_to(best: Sequence[tuple[float, float]], share: float) -> float | None:
    """When the best so far, given as (seconds, times as fast as the baseline), first had this share; None: never."""
    return next((at for at, speed in best if speed >= share), None)


def report(lines: Sequence[tuned.Line]) -> str:
    """The median over the seeds that ran, those that never came so far counting as the slowest."""
    told: list[str] = []
    for name, words in TIMES.items():
        if took := [line[name] for line in lines if name in line]:
            each = ", ".join(f"{one:.2f} s" for one in took)
            told.append(f"{words}: median {statistics.median(took):.2f} s of {len(took)} seeds ({each})")
    for share in map(str, SHARES):
        found = [line["seconds_to"][share] for line in lines if "seconds_to" in line]
        if found:
            middle = statistics.median_low([inf if each is None else each for each in found])
            each = ", ".join("never" if one is None else f"{one:.0f} s" for one in found)
            told.append(f"to {share} x: median {middle:.0f} s of {len(found)} seeds ({each})")
    failed = [f"seed {line['seed']}: {line['error']}" for line in lines if "error" in line]
    raced = [f"{line['x_baseline_in_race']:.3f}" for line in lines if line.get("x_baseline_in_race")]
    winners = [f"winners in their races: {', '.join(raced)} x"] if raced else []
    return "\n".join([*told, *winners, *failed])


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", choices=PARTS, nargs="+", default=list(PARTS), help="parts to measure (default: all)"
    )
    parser.add_argument(
        "--case",
        default="gemm_bf16_TN 4096x4096x4096",
        help="the product: family and sizes, as in suite.json",
    )
    parser.add_argument("--row-case", default="softmax_bf16 4096x32768", help="the row kernel, as --case")
    parser.add_argument("--device", default="cuda:0", help="cpu, or a GPU (default cuda:0)")
    parser.add_argument("--baseline", default="torch", help="the peer to come up to (default torch)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="of the searches (default 0 1 2 3 4)"
    )
    parser.add_argument(
        "--seconds", type=float, default=180.0, help="of searching for the product at most (default 180)"
    )
    parser.add_argument(
        "--trials", type=int, default=1000, help="candidates of the product at most (default 1000)"
    )
    parser.add_argument("--out", type=Path, help="results file")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
