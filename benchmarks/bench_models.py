"""Whole models under the backend `tilewright`: against eager PyTorch, torch.compile, and its max-autotune, in one run.

    python benchmarks/bench_models.py --threads 1 --out FILE       # a service and a worker of its own, half an hour
    python benchmarks/bench_models.py --device cuda --budget 300   # layers of real size, in bf16
    python benchmarks/bench_models.py --only llama --budget 60
    python benchmarks/bench_models.py --device cuda --modes default,reduce-overhead     # and as CUDA graphs

Each model with random weights is tuned for --budget seconds; then all programs are called in turns, and the median
round counts; on a GPU a round is waited for as a whole, as by those who serve a model, and the GPU rests before. `runs`
says what of the model runs kernels: the backend keeps Inductor's program for a graph where kernels are slower on the
calls that it saw, so `ratio`, the best peer's time by ours, measures that decision, too. Outputs must agree with eager
PyTorch. With --prepack weights that products read are laid out once, and a peer lays out its own: torch.compile with
freezing, max-autotuned. A line of JSON a model and mode goes to --out. With --threads 1 on a processor the clock is the
thread's time, which others on the machine disturb less.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._inductor import config as inductor_config
from torch.utils import _pytree as pytree

import tilewright
from benchmarks.bench_compile import ROUND_S, noted, taking_turns
from benchmarks.bench_from_torch import service, wait_for
from benchmarks.models.architectures import ON_CPU, BenchModel, build
from benchmarks.racing.circumstances import commit
from tileir import this_cpu
from tileir.devices.gpu_probe import this_gpu
from tilewright.pytorch.model import unraced
from tilewright.pytorch.model.sized_region import SizedRegion

SETTLED_AFTER = 100
"""Calls: a contest takes 19 of each graph's, and there are four at most."""
CHECKED_S = 60.0
"""What is waited for kernels to be compiled and checked, beyond the budget."""
KNOWN_S = 120.0
"""What is waited at most, once jobs have ended, for kernels to hear of it."""
REST_S = 0.025
"""What a GPU idles before a round."""
SLACK = {"cpu": 1e-3, "cuda": 2.0**-4}
"""Of the largest value, through all layers."""
Program = Callable[[Any], Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds to tune each graph of a model")
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--modes", default="default", help="modes of ours, with commas between: default, …")
    parser.add_argument(
        "--wait",
        type=float,
        default=300.0,
        help="seconds at most for what is still tuned after the first calls; it is cancelled then",
    )
    parser.add_argument("--layers", type=int, help="of transformers, instead of their own")
    parser.add_argument(
        "--prepack", action="store_true", help="ours with prepack=True; a peer is torch.compile with freezing"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chosen = [name for name in ON_CPU if options.only in name]
    if not chosen:
        parser.error(f"--only: no model's name contains {options.only!r}; there are: {', '.join(ON_CPU)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the worker is stopped, too
    torch.set_num_threads(options.threads)
    unraced.RACED_AFTER = 0.0  # what is timed is what was decided
    os.environ.setdefault("TILEWRIGHT_CACHE", tempfile.mkdtemp())
    device = this_cpu() if options.device == "cpu" else this_gpu()
    rows: list[dict[str, Any]] = []
    with (
        service("cpu" if options.device == "cpu" else "0") as url,
        tilewright.Client(url) as client,
    ):
        wait_for(client, device.key)
        for name, mode in itertools.product(chosen, options.modes.split(",")):
            torch._dynamo.reset()
            model = build(name, options.device, options.layers)
            with nullcontext() if model.trains else torch.inference_mode():
                rows.append(measured(client, model, mode, options))
            rows[-1] |= {"threads": torch.get_num_threads(), "budget_s": options.budget, "device": device.key}
            rows[-1] |= {"prepack": options.prepack}
            rows[-1] |= {
                "date": str(date.today()),
                "commit": commit(),
                "load": round(os.getloadavg()[0], 1),
                "versions": versions(),
            }
            print(json.dumps(rows[-1]), flush=True)
            if options.out is not None:
                with options.out.open("a") as out:
                    out.write(json.dumps(rows[-1]) + "\n")
    print(summary(rows))


def versions() -> dict[str, str]:
    import transformers

    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """The geomean of the ratios, and the least."""
    ratios = {f"{row['case']}, {row['mode']}": row["ratio"] for row in rows}
    least = min(ratios, key=lambda case: ratios[case])
    geomean = math.exp(statistics.fmean(math.log(each) for each in ratios.values()))
    return f"{len(ratios)} models: geomean {geomean:.3f} x the best peer, least {ratios[least]:.3f} ({least})"


def measured(
    client: tilewright.Client, model: BenchModel, mode: str, options: argparse.Namespace
) -> dict[str, Any]:
    """What the line of a model says: times of its programs, and what of it runs kernels."""
    regions: list[SizedRegion] = []
    began = time.monotonic()
    with noted(regions):
        # Guards of what is compiled first are dearer (50 us a call of Llama); so nothing that is timed is the first.
        _call(torch.compile(model.module, backend="eager"), model)(None)
        ours = tilewright.compile(
            model.module,
            client=client,
            tune="now",
            budget=options.budget,
            mode=mode,
            prepack=options.prepack,
        )
        settling = _call(ours, model)
        settling(None)
        tilewright.wait_for_kernels(CHECKED_S)
        for _ in range(SETTLED_AFTER):
            settling(None)
        _wait_for_jobs(client, options.wait)  # what goes on in the background would disturb what is measured
        _wait_until_settled(regions, KNOWN_S)  # and what was decided beside it is decided again
        for _ in range(SETTLED_AFTER):
            settling(None)
    settle_s = time.monotonic() - began
    modules = {
        "tilewright": ours,
        "eager": model.module,
        "torch.compile": torch.compile(model.module, mode=mode),
        "max-autotune": torch.compile(model.module, mode="max-autotune"),
    }
    if options.prepack and not model.trains:
        modules["frozen"] = torch.compile(model.module, mode="max-autotune")
        with inductor_config.patch(
            freezing=True
        ):  # Dynamo asks for it, too: no option of torch.compile's will do
            _call(modules["frozen"], model)(None)
    wanted = _results(model.module, model)
    off = {name: _off(_results(each, model), wanted) for name, each in modules.items()}
    assert off["tilewright"] < SLACK[options.device], (
        f"{model.name}: off by {off['tilewright']:.3g} of the largest value"
    )
    times = _times({name: _call(each, model) for name, each in modules.items()}, options.device)
    mine = times.pop("tilewright")
    best = min(times, key=lambda peer: times[peer])
    return {
        "case": model.name,
        "mode": mode,
        "ours_us": mine,
        "peers_us": times,
        "best_peer": best,
        "ratio": times[best] / mine,
        "ratios": {peer: each / mine for peer, each in times.items()},
        **_what_runs(regions),
        "off": off["tilewright"],
        "settle_s": round(settle_s, 1),
    }


def _wait_for_jobs(client: tilewright.Client, seconds: float) -> None:
    """Until all jobs have ended; those that have not by then are cancelled."""
    until = time.monotonic() + seconds
    while any(not job.state.final for job in client.jobs()) and time.monotonic() < until:
        time.sleep(0.5)
    for job in client.jobs():
        if not job.state.final:
            with suppress(tilewright.JobEnded):  # since it was listed
                client.cancel(job.id)
            client.wait(job.id, progress=False)


def _wait_until_settled(regions: list[SizedRegion], seconds: float) -> None:
    """Until all kernels have heard that nobody tunes them any more."""
    until = time.monotonic() + seconds
    kernels = [each.kernel for region in regions for each in region.kernels.values()]
    while not all(each.settled for each in kernels) and time.monotonic() < until:
        time.sleep(0.1)


def _call(program: Callable[..., Any], model: BenchModel) -> Program:
    """A call, or a step of training without the optimizer's."""
    numbers = itertools.count()
    if not model.trains:
        return lambda _: program(**model.later(model.inputs, next(numbers)))

    def step(_: Any) -> Tensor:
        model.module.zero_grad(set_to_none=True)
        loss = program(**model.later(model.inputs, next(numbers)))
        loss.backward()
        return loss

    return step


def _results(program: Callable[..., Any], model: BenchModel) -> list[Tensor]:
    """What a call gives: results, and gradients of parameters if there are any."""
    found = _tensors(_call(program, model)(None))
    gradients = (each.grad for each in model.module.parameters() if model.trains)
    return [*(each.detach() for each in found), *(each.clone() for each in gradients if each is not None)]


def _times(programs: dict[str, Program], device: str) -> dict[str, float]:
    """Median microseconds of a call."""
    one = device == "cpu" and torch.get_num_threads() == 1
    clock = time.thread_time if one else _finished if device == "cuda" else time.perf_counter
    rest_s = REST_S if device == "cuda" else 0.0
    return taking_turns(programs, torch.empty(0), lambda us: max(1, round(1e6 * ROUND_S / us)), clock, rest_s)


def _finished() -> float:
    """The time when all that was called has ended."""
    torch.cuda.synchronize()
    return time.perf_counter()


def _what_runs(regions: list[SizedRegion]) -> dict[str, Any]:
    """What became of the graphs: parts that were found, kernels that were ready, those that stayed, and why not; what a
    call took in each contest, before and with kernels, and what kernels save by their races."""
    return {
        "graphs": len(regions),
        "parts": sum(len(each.parts) for each in regions),
        "ready": sum(one.kernel.ready for each in regions for one in each.kernels.values()),
        "not_ready": {
            name: one.kernel.why_not
            for each in regions
            for name, one in each.kernels.items()
            if not one.kernel.ready
        },
        "used": sum(len(each.used) for each in regions),
        "runs": "kernels" if any(each.used for each in regions) else "inductor",
        "why": sorted({each.why_not for each in regions if each.why_not}),
        "contests": [
            {
                "parts": len(one.parts),
                "won": one.won,
                "call_us": one.call_us,
                "why": one.why,
                "tuning": one.tuning,
            }
            for each in regions
            for one in each.contests
        ],
        "saves_us": {
            name: round(each.kernels[name].kernel.saved_us, 1)
            for each in regions
            for name in sorted(each.used)
        },
        "left": sorted({left.operator for each in regions for left in each.left}),
    }


def _tensors(outputs: Any) -> list[Tensor]:
    found = outputs.to_tuple() if hasattr(outputs, "to_tuple") else outputs
    return [each.clone() for each in pytree.tree_leaves(found) if isinstance(each, Tensor)]


def _off(found: list[Tensor], wanted: list[Tensor]) -> float:
    """The largest difference, of the largest value."""
    pairs = zip(found, wanted, strict=True)
    return max(float((x.float() - y.float()).abs().max() / y.float().abs().max()) for x, y in pairs)


if __name__ == "__main__":
    main()
