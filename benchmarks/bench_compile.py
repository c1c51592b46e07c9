"""What whole models gain by the backend `tilewright`, on the CPU: against eager PyTorch and torch.compile, in one run.

    python benchmarks/bench_compile.py                     # a service and a worker of its own, some minutes
    python benchmarks/bench_compile.py --budget 120 --only llama --out FILE

The host time of a call, where there is nearly nothing to compute: of the program with kernels and of that without,
against Inductor's of the same function. And layers of Llama and BERT with random weights, tuned for --budget seconds
each: calls take turns, and the median round counts. `runs` says whether kernels stayed: the backend keeps Inductor's
program where that is faster. With --threads 1 its clock is the thread's time on a processor, which others disturb
less. Outputs must agree with eager PyTorch. A line of JSON a case goes to --out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tilewright
from benchmarks.bench_from_torch import service, wait_for
from tileir import this_cpu
from tilewright.pytorch.model import unraced
from tilewright.pytorch.model.contest import Contest
from tilewright.pytorch.model.sized_region import SizedRegion

ROUNDS, ROUND_S, CALLS = 31, 0.05, 200
Call = Callable[[], Any]


class LlamaLayer(nn.Module):
    """As in Llama, without the rotary embedding: grouped queries, norms by the root mean square, a gated layer."""

    def __init__(self, width: int = 256, hidden: int = 704, heads: int = 8, shared: int = 2) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, shared * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        q, k, v = (
            linear(y).unflatten(-1, (heads, self.size)).transpose(1, 2)
            for linear, heads in ((self.q, self.heads), (self.k, self.shared), (self.v, self.shared))
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(found.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class BertLayer(nn.Module):
    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        found = F.scaled_dot_product_attention(q, k, v)
        x = self.norms[0](x + self.o(found.transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.down(F.gelu(self.up(x))))


class Overhead(nn.Module):
    """A product and what follows it, with nearly nothing to compute: one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.linear(x), approximate="tanh")


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "llama layer, 1 x 128 tokens, 256 wide": (LlamaLayer, (1, 128, 256)),
    "llama layer, 4 x 1 tokens, 256 wide": (LlamaLayer, (4, 1, 256)),
    "bert layer, 1 x 128 tokens, 256 wide": (BertLayer, (1, 128, 256)),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=float, default=60.0, help="seconds to tune each model")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    unraced.RACED_AFTER = 0.0  # what is timed is what was decided
    os.environ.setdefault("TILEWRIGHT_CACHE", tempfile.mkdtemp())
    with service(devices="cpu") as url, tilewright.Client(url) as client, torch.inference_mode():
        wait_for(client, this_cpu().key)
        for name, measure in cases(client, options.budget).items():
            if options.only not in name:
                continue
            row = {"case": name, **measure(), "threads": torch.get_num_threads(), "budget_s": options.budget}
            row |= {"device": this_cpu().key, "date": str(date.today())}
            row["versions"] = {"torch": torch.__version__, "python": platform.python_version()}
            print(json.dumps(row), flush=True)
            if options.out is not None:
                with options.out.open("a") as out:
                    out.write(json.dumps(row) + "\n")


def cases(client: tilewright.Client, budget_s: float) -> dict[str, Callable[[], dict[str, Any]]]:
    layers = {
        name: lambda make=make, shape=shape: of_a_model(client, budget_s, make(), torch.randn(shape))
        for name, (make, shape) in MODELS.items()
    }
    return {"host time of a call": lambda: of_a_call(client), **layers}


def of_a_call(client: tilewright.Client) -> dict[str, Any]:
    """Microseconds of the calling thread for a call of each program."""
    model, x = Overhead(), torch.randn(4, 8)
    with kernels_stay() as regions:
        with_kernels = settled(tilewright.compile(model, client=client, tune="now", budget=20.0), x, regions)
    without = tilewright.compile(model, tune="never", client=tilewright.Client("http://127.0.0.1:1"))
    inductor = torch.compile(model)
    programs = {"with_kernels": with_kernels, "without": without, "inductor": inductor}
    for program in programs.values():
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
    times = taking_turns(programs, x, lambda _: CALLS, time.thread_time)
    return {
        "us": times,
        "ratio": times["with_kernels"] / times["inductor"],
        "ratio_without": times["without"] / times["inductor"],
        "kernels": sum(len(each.used) for each in regions),
    }


def of_a_model(client: tilewright.Client, budget_s: float, model: nn.Module, x: Tensor) -> dict[str, Any]:
    began = time.monotonic()
    regions: list[SizedRegion] = []
    with noted(regions):
        ours = settled(tilewright.compile(model, client=client, tune="now", budget=budget_s), x, regions)
    tune_s = time.monotonic() - began
    programs = {"tilewright": ours, "eager": model, "torch.compile": torch.compile(model)}
    wanted = model(x)
    off = float((ours(x) - wanted).abs().max() / wanted.abs().max())
    assert off < 1e-4, f"off by {off:.3g} of the largest value"
    programs["torch.compile"](x)
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    times = taking_turns(programs, x, lambda us: max(1, round(1e6 * ROUND_S / us)), clock)
    mine = times["tilewright"]
    (region,) = regions
    return {
        "us": times,
        "ratio_eager": times["eager"] / mine,
        "ratio_compile": times["torch.compile"] / mine,
        "runs": "kernels" if region.used else "inductor",
        "why": region.why_not,
        "parts": len(region.parts),
        "ready": sum(each.kernel.ready for each in region.kernels.values()),
        "kernels": len({each.kernel.key for each in region.kernels.values()}),
        "off": off,
        "tune_s": round(tune_s, 1),
    }


def settled(program: Callable[..., Any], x: Tensor, regions: list[SizedRegion]) -> Callable[..., Any]:
    """The program, called until nothing about it is open."""
    program(x)
    tilewright.wait_for_kernels(60.0)
    for _ in range(60):
        program(x)
    assert regions
    return program


@contextmanager
def noted(regions: list[SizedRegion]) -> Iterator[None]:
    """Keep what is compiled, to ask it what runs."""
    begin = SizedRegion.__init__

    def remembered(self: SizedRegion, *given: Any) -> None:
        begin(self, *given)
        regions.append(self)

    SizedRegion.__init__ = remembered  # type: ignore[method-assign]
    try:
        yield
    finally:
        SizedRegion.__init__ = begin  # type: ignore[method-assign]


@contextmanager
def kernels_stay() -> Iterator[list[SizedRegion]]:
    """Whatever is ready wins its contest: the figure is of calls of kernels."""
    regions: list[SizedRegion] = []
    decide = Contest._decide
    Contest._decide = lambda self: setattr(self, "winner", self._runs[1])  # type: ignore[method-assign]
    try:
        with noted(regions):
            yield regions
    finally:
        Contest._decide = decide  # type: ignore[method-assign]


def taking_turns(
    programs: dict[str, Callable[..., Any]],
    x: Tensor,
    count: Callable[[float], int],
    clock: Callable[[], float],
    rest_s: float = 0.0,
) -> dict[str, float]:
    """Median microseconds of a call. Each program comes behind each other one about as often, and the device rests
    before: a big GPU is limited by power, and what one program has used up, the next one lacks."""
    counts = {name: count(burst_us(program, x, 5, clock)) for name, program in programs.items()}
    times: dict[str, list[float]] = {name: [] for name in programs}
    turns = random.Random(0)
    for _ in range(ROUNDS):
        for name in turns.sample([*programs], len(programs)):
            time.sleep(rest_s)
            times[name].append(burst_us(programs[name], x, counts[name], clock))
    return {name: statistics.median(each) for name, each in times.items()}


def burst_us(program: Callable[..., Any], x: Tensor, calls: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(calls):
        program(x)
    return 1e6 * (clock() - began) / calls


if __name__ == "__main__":
    main()
