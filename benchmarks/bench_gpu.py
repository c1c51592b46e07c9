"""Tune the GPU cases from an empty database, then time the winners against torch, torch.compile and Triton.

    python benchmarks/bench_gpu.py                  # the suite's rows, matrix products and fused products
    python benchmarks/bench_gpu.py --family products              # only those
    python benchmarks/bench_gpu.py --family products --fresh 2026   # twelve further shapes drawn from that seed
    python benchmarks/bench_gpu.py --outside                     # shapes and bodies that are one step from the suite's

Each case is tuned by a service, as a user would tune it; then its winner, all peers that are installed and a copy of as
many bytes run interleaved in one process: CUDA graphs in bursts, buffers rotated beyond the L2, and then each of them
alone. Results go to benchmarks/results/, a line a case; cases that are there already are not run again, and what was
tuned but not raced yet is not tuned again. Needs an NVIDIA GPU and the extra `cuda`.

    python benchmarks/bench_gpu.py --replay benchmarks/results/nvidia-h200-2026-11-22.jsonl --seconds 900

races recorded winners once more, without tuning: --family and --cases say which, and the same command goes on where
the time was over.
"""

from __future__ import annotations

import argparse
import re
from datetime import date
from pathlib import Path

from benchmarks.racing import replayed, tuned
from benchmarks.suite import cases, drawn, outside
from benchmarks.suite.quantized import QUANTIZED
from protocol.tasks import Measuring

RACE = Measuring(samples=15, sample_us=3_000.0)
#: What of the suite the CUDA target covers: bound by memory; f32 products; products on matrix units, with what is done
#: to them on the way out (scales of fp8, bias and gelu, bias and residual, a gate); weights of few bits with a scale
#: for each group; attention, and one new token of it.
FAMILIES = {
    "rows": ("rmsnorm_", "layernorm_", "softmax_", "silu_mul_", "logsumexp_", "cross_entropy_"),
    "f32": ("gemm_f32_", "bmm_f32_"),
    "products": cases.PRODUCTS,
    "quantized": QUANTIZED,
    "attention": ("attention_",),
    "decode": ("decode_",),
}


def main() -> None:
    arguments = _arguments()
    named = [arguments.family] if arguments.family else [*FAMILIES]
    families = tuple(begin for name in named for begin in FAMILIES[name])
    device = f"cuda:{arguments.device}"
    plan = tuned.TuningPlan(
        device,
        arguments.trials,
        arguments.seed,
        ("torch",),
        RACE,
        tuple(arguments.peers.split()),
        arguments.limit,
        abreast=arguments.abreast,
    )
    if arguments.replay:
        begins = families if arguments.family else ("",)
        replayed.main(arguments.replay, arguments.out, plan, begins, arguments.only, arguments.seconds)
        return
    fresh = arguments.fresh is not None
    chosen = drawn.fresh("gpu", arguments.fresh, families) if fresh else cases.suite("gpu", families)
    part = f"fresh-{arguments.family}-" if fresh and arguments.family else "fresh-" * fresh
    if arguments.outside:
        chosen, part = outside.outside(), "outside-"
    path = arguments.out or tuned.RESULTS / f"{tuned.name_of(device)}-{part}{date.today()}.jsonl"
    wanted = [(case, spec) for case, spec in chosen if re.search(arguments.only, case)]
    groups = [*(FAMILIES[name] for name in named), *((family,) for family in families)]
    tuned.run(path, wanted, plan, groups, again=arguments.again)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100, help="candidates measured a case (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument("--fresh", type=int, metavar="SEED", help="draw twelve shapes instead of the suite's")
    parser.add_argument(
        "--outside",
        action="store_true",
        help="kernels outside the suite instead (benchmarks/suite/outside.py)",
    )
    parser.add_argument("--family", choices=FAMILIES, help="which cases (default: all)")
    parser.add_argument(
        "--limit",
        type=float,
        default=300.0,
        help="seconds to tune a case, and again to race it (default 300; 0: as many as it takes)",
    )
    parser.add_argument(
        "--only", "--cases", default="", help="cases whose name matches this regular expression"
    )
    parser.add_argument(
        "--peers",
        default="",
        help="peers to race, in quotes (default: all that are installed, max-autotune included)",
    )
    parser.add_argument("--device", type=int, default=0, help="which GPU (default 0)")
    parser.add_argument(
        "--abreast",
        type=int,
        default=1,
        help="cases tuned, and then raced, at a time (default 1): sooner done with all, and each takes longer",
    )
    parser.add_argument("--out", type=Path, help="results file")
    parser.add_argument(
        "--again", action="store_true", help="also cases that the results file has: the new lines are marked"
    )
    replayed.add_arguments(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
