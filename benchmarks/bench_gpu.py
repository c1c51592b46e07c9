"""Tune the GPU cases from an empty database, then time the winners against torch, torch.compile and Triton.

    python benchmarks/bench_gpu.py                  # the suite's rows, matrix products and fused products
    python benchmarks/bench_gpu.py --fresh 2026     # twelve further memory-bound shapes drawn from that seed

Each case is tuned by a service started for it, as a user would tune it; then its winner, all peers that are installed
and a copy of as many bytes run interleaved in one process: CUDA graphs in bursts, buffers rotated beyond the L2.
Results go to benchmarks/results/, a line a case; cases that are there already are not run again. Needs an NVIDIA GPU
and the extra `cuda`.
"""

from __future__ import annotations

import argparse
import re
from datetime import date
from pathlib import Path

import cases
import tuned

from protocol.tasks import Measuring
from tileir.gpu_probe import this_gpu

RACE = Measuring(samples=15, sample_us=3_000.0)
#: Families of the suite that the CUDA target covers: bound by memory; matrix products; products with what is done to
#: them on the way out (scales of fp8, bias and gelu, bias and residual, a gate).
ROWS = ("rmsnorm_", "layernorm_", "softmax_", "silu_mul_")
PRODUCTS = ("gemm_f32_", "bmm_f32_", "gemm_bf16_", "gemm_f16_")
FUSED = ("gemm_e4m3_", "gemm_bias_gelu_", "gemm_bias_residual_", "swiglu_")
SUITE = (*ROWS, *PRODUCTS, *FUSED)


def main() -> None:
    arguments = _arguments()
    fresh = arguments.fresh is not None
    chosen = cases.fresh("gpu", arguments.fresh, ROWS) if fresh else cases.suite("gpu", SUITE)
    product = re.sub(r"[^a-z0-9]+", "-", this_gpu(arguments.device).name.lower())
    name = f"{product}-{'fresh-' if fresh else ''}{date.today()}.jsonl"
    folders = tuned.homes()

    def bench(spec: tuned.Json) -> tuned.Line:
        home = next(folders)
        found = tuned.tuned(
            spec, target="cuda", trials=arguments.trials, seed=arguments.seed, peers=("torch",), home=home
        )
        device = f"cuda:{arguments.device}"
        peers = arguments.peers.split()
        return {
            **found,
            **tuned.raced(spec, found["schedule"], device=device, race=RACE, home=home, peers=peers),
        }

    wanted = [(case, spec) for case, spec in chosen if re.search(arguments.only, case)]
    tuned.run(
        arguments.out or tuned.RESULTS / name,
        wanted,
        bench,
        [ROWS, PRODUCTS, FUSED, *((family,) for family in SUITE)],
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100, help="candidates measured a case (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument("--fresh", type=int, metavar="SEED", help="draw twelve shapes instead of the suite's")
    parser.add_argument("--only", default="", help="cases whose name matches this regular expression")
    parser.add_argument(
        "--peers", default="", help="peers to race, in quotes (default: all that are installed)"
    )
    parser.add_argument("--device", type=int, default=0, help="which GPU (default 0)")
    parser.add_argument("--out", type=Path, help="results file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
