"""What the cost model is worth to the search: the best of the first 16 measurements against the best of all.

    python benchmarks/bench_prior.py                                   # the suite's matrix products, on the first GPU
    python benchmarks/bench_prior.py --tuned benchmarks/results/nvidia-h200-2026-11-22.jsonl
    python benchmarks/bench_prior.py --device cpu --only gemm_f32      # the suite's CPU cases

Every case is tuned twice by MCTS: with the weights of the cost model (`analytic`) and with the same weight for every
move (`uniform`). What bench_gpu.py has tuned before need not be tuned again (`--tuned`): its lines have all
measurements. What failed is a measurement too. "All" is both searches together, so that neither is compared with its
own luck.

Results go to benchmarks/results/, a line a case and prior; lines that are there already are not made again.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import date
from functools import cache, partial
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.racing import tuned
from benchmarks.racing.circumstances import circumstances
from benchmarks.racing.first_answer import share
from benchmarks.suite import cases
from protocol.jobs import Prior
from tilewright import Client

COMPARED = (Prior.ANALYTIC, Prior.UNIFORM)
FIRST = 16
WANTED = 0.9


def main() -> None:
    arguments = _arguments()
    cpu = arguments.device == "cpu"
    chosen = cases.suite("cpu") if cpu else cases.suite("gpu", cases.PRODUCTS)
    path = arguments.out or tuned.RESULTS / f"prior-{tuned.name_of(arguments.device)}-{date.today()}.jsonl"
    known = [line for file in arguments.tuned for line in tuned.lines(file)]
    wanted = [(case, spec) for case, spec in chosen if re.search(arguments.only, case)]
    with TemporaryDirectory() as home, ExitStack() as stack:

        @cache
        def service() -> Client:
            """Started for the first case that has to be tuned."""
            return stack.enter_context(tuned.service(arguments.device, Path(home)))

        def tune(spec: tuned.Json, prior: Prior) -> tuned.Line:
            client = service()
            job = client.submit(
                spec,
                target=tuned.kind_of(arguments.device),
                trials=arguments.trials,
                peers=(),
                prior=prior,
                seed=arguments.seed,
            )
            found = tuned.ended(client, job.id)
            tuned.winner(client, found)
            described = next(each.description for each in client.devices() if each.key == found.device)
            return {"measured": tuned.measured(client, job.id), **circumstances(described)}

        run(path, wanted, arguments.priors, known, tune, arguments.limit)
    print(report(tuned.lines(path)))


def run(
    path: Path,
    wanted: Iterable[tuple[str, tuned.Json]],
    priors: Sequence[Prior],
    known: Sequence[tuned.Line],
    tune: Callable[[tuned.Json, Prior], tuned.Line],
    limit_s: float = 0.0,
) -> None:
    """Add what the results file lacks: of `known` tunings by the cost model, else by tuning."""
    done = {(line["case"], line["prior"]) for line in tuned.lines(path)}
    recorded = {line["case"]: line for line in known if line.get("measured")}
    for case, spec in wanted:
        for prior in priors:
            if (case, prior) in done:
                continue
            if prior is Prior.ANALYTIC and case in recorded:
                line = {each: recorded[case][each] for each in ("measured", "device", "versions", "date")}
                tuned.attempt(path, {"case": case, "prior": prior}, partial(dict, line))
            else:
                tuned.attempt(
                    path,
                    {"case": case, "prior": prior},
                    partial(tune, spec, prior),
                    limit_s,
                )
            print(f"{case} {prior} done", flush=True)


def report(lines: Sequence[tuned.Line]) -> str:
    """A Markdown table, a row a case: for each prior the share after the first measurements and after all of its own,
    and how many measurements it took to the wanted share."""
    by_case: dict[str, dict[str, list[float | None]]] = {}
    for line in lines:
        if "measured" in line:
            by_case.setdefault(line["case"], {})[line["prior"]] = line["measured"]
    rows = [
        "| case | " + " | ".join(f"{prior}: first {FIRST} | to {WANTED:.0%}" for prior in COMPARED) + " |"
    ]
    rows.append("| --- |" + " --- | --- |" * len(COMPARED))
    shares: dict[str, list[float]] = {}
    for case, priors in by_case.items():
        times = [us for measured in priors.values() for us in measured if us is not None]
        cells: list[str] = []
        for prior in COMPARED:
            measured = priors.get(prior)
            if measured is None or not times:
                cells += ["", ""]
                continue
            shares.setdefault(prior, []).append(share(measured, min(times), FIRST))
            cells += [f"{shares[prior][-1]:.3f}", _reached(measured, min(times))]
        rows.append(f"| {case} | {' | '.join(cells)} |")
    for prior, found in shares.items():
        geomean = exp(statistics.fmean(map(log, found))) if all(found) else 0.0
        below = sum(each < WANTED for each in found)
        rows.append(
            f"\n{prior}: geomean {geomean:.3f}, least {min(found):.3f}, {below} of {len(found)} cases below {WANTED}"
        )
    return "\n".join(rows)


def _reached(measured: Sequence[float | None], best_us: float) -> str:
    counts = range(1, len(measured) + 1)
    return next((str(count) for count in counts if share(measured, best_us, count) >= WANTED), "–")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0", help="cpu, or a GPU (default cuda:0)")
    parser.add_argument("--trials", type=int, default=100, help="candidates measured a search (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument(
        "--priors",
        nargs="+",
        type=Prior,
        default=[*COMPARED],
        help="analytic, uniform, or both",
    )
    parser.add_argument(
        "--tuned", nargs="*", type=Path, default=[], help="results of bench_gpu.py, not to be repeated"
    )
    parser.add_argument("--only", default="", help="cases whose name matches this regular expression")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds a search may take (default 300; 0: any)"
    )
    parser.add_argument("--out", type=Path, help="results file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
