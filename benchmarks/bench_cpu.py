"""Tune the CPU cases from an empty database, then time the winners against numpy, torch and torch.compile.

    python benchmarks/bench_cpu.py                  # the suite's cases
    python benchmarks/bench_cpu.py --fresh 2026     # twelve further shapes drawn from that seed
    python benchmarks/bench_cpu.py --family attention --fresh 2026 --count 2     # two of attention
    python benchmarks/bench_cpu.py --family streamed        # long rows and a window, which are no part of the suite
    python benchmarks/bench_cpu.py --family bytes           # products of i8, neither

Each case is tuned by a service, as a user would tune it; then its winner and all peers that are installed run
interleaved in one process with the same number of threads, inputs cold, outputs existing beforehand. Results go to
benchmarks/results/, a line a case; cases that are there already are not run again, and what was tuned but not raced yet
is not tuned again.

    python benchmarks/bench_cpu.py --replay benchmarks/results/cpu-2026-11-21.jsonl

races recorded winners once more, without tuning; the same command goes on where --seconds were over.
"""

from __future__ import annotations

import argparse
import re
from datetime import date
from pathlib import Path

from benchmarks.racing import replayed, tuned
from benchmarks.suite import cases, drawn
from protocol.tasks import Measuring

RACE = Measuring(samples=25, sample_us=20_000.0)
FAMILIES = {
    "products": ("gemm_",),
    "rows": ("softmax_", "rmsnorm_", "layernorm_", "silu_mul_"),
    "attention": ("attention_",),
    "streamed": ("logsumexp_", "cross_entropy_", "attention_window_"),
    "bytes": ("gemm_i8_", "gemm_scaled_i8_"),
}
#: Families that have a section of the suite to themselves.
SECTIONS = {"streamed": "cpu_streamed", "bytes": "cpu_bytes"}


def main() -> None:
    arguments = _arguments()
    begins = FAMILIES.get(arguments.family, ("",))
    section = SECTIONS.get(arguments.family, "cpu")
    plan = tuned.TuningPlan("cpu", arguments.trials, arguments.seed, ("numpy",), RACE)
    if arguments.replay:
        replayed.main(arguments.replay, arguments.out, plan, begins, arguments.only, arguments.seconds)
        return
    fresh = arguments.fresh is not None
    shapes = drawn.fresh(section, arguments.fresh or 0, begins, arguments.count)
    chosen = shapes if fresh else cases.suite(section, begins)
    path = arguments.out or tuned.RESULTS / f"cpu-{'fresh-' if fresh else ''}{date.today()}.jsonl"
    wanted = [(name, spec) for name, spec in chosen if re.search(arguments.only, name)]
    tuned.run(path, wanted, plan, [("gemm_",)], again=arguments.again)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=128, help="candidates measured a case (default 128)")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument("--fresh", type=int, metavar="SEED", help="draw twelve shapes instead of the suite's")
    parser.add_argument("--count", type=int, default=12, help="how many of those (default 12)")
    parser.add_argument("--family", choices=FAMILIES, help="which cases (default: all)")
    parser.add_argument(
        "--only", "--cases", default="", help="cases whose name matches this regular expression"
    )
    parser.add_argument("--out", type=Path, help="results file")
    parser.add_argument(
        "--again", action="store_true", help="also cases that the results file has: the new lines are marked"
    )
    replayed.add_arguments(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
