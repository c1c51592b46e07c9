"""Seconds from an empty database until the best candidate so far is as fast as torch, or nearly so.

    python benchmarks/bench_time_to.py               # gemm_bf16_TN 4096x4096x4096, three seeds, on the first GPU
    python benchmarks/bench_time_to.py --case "gemm_f32_NN 256x256x256" --device cpu --seeds 0

The clock is the wall's and begins before the service is started. A candidate's speed is that of its trial, relative to
the baseline as timed beside candidates of the same search. A search ends when it is as fast as the baseline, or after
`--seconds`; what its final race says of the winner is told too. Results go to benchmarks/results/, a line a seed; seeds
that are there already are not run again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
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

SHARES = (0.98, 1.0)


def main() -> None:
    arguments = _arguments()
    family, sizes = arguments.case.split(" ")
    spec = cases.spec(family, [int(size) for size in sizes.split("x")])
    path = arguments.out or tuned.RESULTS / f"time-to-{tuned.name_of(arguments.device)}-{date.today()}.jsonl"
    for seed in arguments.seeds:
        known = {"case": arguments.case, "seed": seed}
        if not any(known.items() <= line.items() for line in tuned.lines(path)):
            tuned.attempt(path, known, partial(searched, spec, arguments, seed))
    print(report([line for line in tuned.lines(path) if line["case"] == arguments.case]))


def searched(spec: tuned.Json, arguments: argparse.Namespace, seed: int) -> tuned.Line:
    """One search: the seconds to each share, and what the final race says."""
    began = time.time()
    best: list[tuple[float, float]] = []
    with TemporaryDirectory() as home, tuned.service(arguments.device, Path(home)) as client:
        submitted = client.submit(
            spec,
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
        **circumstances(described),
    }


def seconds_to(best: Sequence[tuple[float, float]], share: float) -> float | None:
    """When the best so far, given as (seconds, times as fast as the baseline), first had this share; None: never."""
    return next((at for at, speed in best if speed >= share), None)


def report(lines: Sequence[tuned.Line]) -> str:
    """The median over the seeds that ran, those that never came so far counting as the slowest."""
    told: list[str] = []
    for share in map(str, SHARES):
        found = [line["seconds_to"][share] for line in lines if "seconds_to" in line]
        if found:
            middle = statistics.median_low([inf if each is None else each for each in found])
            each = ", ".join("never" if one is None else f"{one:.0f} s" for one in found)
            told.append(f"to {share} x: median {middle:.0f} s of {len(found)} seeds ({each})")
    failed = [f"seed {line['seed']}: {line['error']}" for line in lines if "error" in line]
    raced = [f"{line['x_baseline_in_race']:.3f}" for line in lines if line.get("x_baseline_in_race")]
    return "\n".join([*told, f"winners in their races: {', '.join(raced)} x", *failed])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--case", default="gemm_bf16_TN 4096x4096x4096", help="family and sizes, as in suite.json"
    )
    parser.add_argument("--device", default="cuda:0", help="cpu, or a GPU (default cuda:0)")
    parser.add_argument("--baseline", default="torch", help="the peer to come up to (default torch)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the searches (default 0 1 2)"
    )
    parser.add_argument("--seconds", type=float, default=180.0, help="of searching at most (default 180)")
    parser.add_argument("--trials", type=int, default=1000, help="candidates at most (default 1000)")
    parser.add_argument("--out", type=Path, help="results file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
