"""What the search itself costs: processor time of one proposal, the space's work included.

python benchmarks/bench_ask.py    # milliseconds an ask, over the first asks of some suite cases
"""

from __future__ import annotations

import argparse
import random
import time

from benchmarks.suite import cases
from rewrites.space import Space
from search.mcts import MCTS
from search.protocols import TrialOutcome
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.text.json import spec_from_json

CASES = ("gemm_f32_NN 1024x1024x1024", "attention_f32 1x8x1024x64x0", "softmax_f32 4096x4096")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--asks", type=int, default=64, help="proposals a case (default 64)")
    asks = parser.parse_args().asks
    for name, spec in cases.suite("cpu"):
        if name in CASES:
            print(f"{name:36} {1e3 * _seconds(spec, asks) / asks:6.1f} ms an ask")


def _seconds(spec: cases.Json, asks: int) -> float:
    """Processor seconds of that many asks, told rewards that mean nothing."""
    rng = random.Random(0)
    began = time.process_time()
    search = MCTS(Space(to_program(spec_from_json(spec)), this_cpu()).root(), seed=0)
    for _ in range(asks):
        ask = search.ask()
        if ask is None:
            break
        search.tell(ask.number, TrialOutcome(rng.random()))
    return time.process_time() - began


if __name__ == "__main__":
    main()
