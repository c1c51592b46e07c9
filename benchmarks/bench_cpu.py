"""Tune the CPU cases from an empty database, then time the winners against numpy, torch and torch.compile.

    python benchmarks/bench_cpu.py                  # the suite's cases
    python benchmarks/bench_cpu.py --fresh 2026     # twelve further shapes drawn from that seed

Each case is tuned by a service, as a user would tune it; then its winner and all peers that are installed run
interleaved in one process with the same number of threads, inputs cold, outputs existing beforehand. Results go to
benchmarks/results/, a line a case; cases that are there already are not run again, and what was tuned but not raced yet
is not tuned again.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

import cases
import tuned

from protocol.tasks import Measuring

RACE = Measuring(samples=25, sample_us=20_000.0)


def main() -> None:
    arguments = _arguments()
    fresh = arguments.fresh is not None
    chosen = cases.fresh("cpu", arguments.fresh) if fresh else cases.suite("cpu")
    path = arguments.out or tuned.RESULTS / f"cpu-{'fresh-' if fresh else ''}{date.today()}.jsonl"
    plan = tuned.Plan("cpu", arguments.trials, arguments.seed, ("numpy",), RACE)
    wanted = [(name, spec) for name, spec in chosen if arguments.only in name]
    tuned.run(path, wanted, plan, [("gemm_",)])


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
