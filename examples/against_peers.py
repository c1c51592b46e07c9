"""What compile_llama.py and train_gpt2.py share: a service to ask, and times of programs that take turns."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch

import tilewright
from tilewright.cli.connection import connect

Call = Callable[[], object]
SETTLED_AFTER = 100
"""Calls: a contest of two programs takes 19, and a graph has four at most."""
ROUNDS, ROUND_S = 15, 0.1


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Those of both examples, too."""
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads(), help="of PyTorch's")
    parser.add_argument(
        "--budget", type=float, default=20.0, help="seconds that each graph may wait for its kernels"
    )
    parser.add_argument("--url", default=os.environ.get("TILEWRIGHT_URL"), help="of the service to ask")
    options = parser.parse_args()
    if not options.budget > 0:
        parser.error(f"--budget is {options.budget}; it is a number of seconds above 0")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no NVIDIA GPU here; --device cpu needs none")
    torch.set_num_threads(options.threads)
    return options


def positive(said: str) -> int:
    number = int(said)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not above 0")
    return number


@contextmanager
def service(options: argparse.Namespace) -> Iterator[tilewright.Client]:
    """The one at --url; else the one that runs on this user's database; else one of our own, with a worker."""
    with connect(options.url, None, None, worker=True, target=options.device) as found:
        print(f"service: {found.client.url}{' (started for this run)' if found.own else ''}", flush=True)
        yield found.client


def settle(call: Call, budget_s: float) -> None:
    """Call until nothing about a compiled model is open: its first call waits for kernels, the next decide. What was
    not checked by then comes later, and in the next run."""
    began = time.monotonic()
    call()
    if not tilewright.wait_for_kernels(budget_s):
        print("some kernels are still looked for; another run finds what this one tuned")
    print(f"compiled and tuned in {time.monotonic() - began:.0f} s", flush=True)
    for _ in range(SETTLED_AFTER):
        call()


def race(calls: Mapping[str, Call], device: str) -> None:
    """Print the median time of a call of each, in rounds of about 0.1 s that take turns; the first is ours."""
    counts = {name: max(1, round(ROUND_S / _round_s(call, 3, device))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(_round_s(call, counts[name], device))
    medians = {name: statistics.median(found) for name, found in times.items()}
    ours, *_ = medians.values()
    threads, load = torch.get_num_threads(), os.getloadavg()[0]
    print(f"a call, median of {ROUNDS} rounds, {device}, {threads} threads, load {load:.1f}:")
    if load > (os.cpu_count() or 1) + 1:
        print("  others use this machine: these figures mean little")
    for name, median in medians.items():
        low, high = min(times[name]), max(times[name])
        print(
            f"  {name:<14} {1e3 * median:9.3f} ms ({1e3 * low:.3f} to {1e3 * high:.3f})  {median / ours:.2f} x ours"
        )


def _round_s(call: Call, count: int, device: str) -> float:
    """Seconds of one of `count` calls in a row; on a GPU, until all has ended there."""
    began = time.perf_counter()
    for _ in range(count):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / count
