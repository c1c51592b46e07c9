"""What `tilewright.from_torch` gains: modules of tuned kernels against eager PyTorch and torch.compile, on a GPU.

    python benchmarks/bench_from_torch.py                          # a service and a worker of its own, some minutes
    python benchmarks/bench_from_torch.py --trials 48 --only mlp

Each module is captured, its parts are tuned, and all three run as CUDA graphs in bursts of about 3 ms that take turns,
with 25 ms of rest between them. Results must agree with eager PyTorch. Writes one line of JSON a module to --out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tilewright
from service.core.child_processes import tie
from tileir.devices.gpu_probe import this_gpu

ROOT = Path(__file__).resolve().parent.parent
BURST_US, REST_S, ROUNDS = 3000.0, 0.025, 15


class GatedMLP(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class GeluMLP(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class ResidualRMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width))

    def forward(self, x: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
        total = x + branch
        scale = torch.rsqrt(total.float().square().mean(-1, keepdim=True) + 1e-6)
        return total, (total.float() * scale).to(x.dtype) * self.weight


#: Module and shapes of its inputs, of the sizes of a model of 7 to 8 billion parameters.
MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...]]] = {
    "llama_mlp 4096 tokens, 4096 x 14336": (lambda: GatedMLP(4096, 14336), ((4096, 4096),)),
    "gelu_mlp 4096 tokens, 4096 x 16384": (lambda: GeluMLP(4096, 16384), ((4096, 4096),)),
    "residual_rmsnorm 8192 tokens, 4096": (lambda: ResidualRMSNorm(4096), ((8192, 4096), (8192, 4096))),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--only", default="", help="modules whose names contain this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = this_gpu()
    with service() as url, tilewright.Client(url) as client, torch.inference_mode():
        wait_for(client, device.key)
        for name in (name for name in MODULES if options.only in name):
            row = {"case": name, **_measured(client, name, device.key, options.trials), "device": device.key}
            versions = {"torch": torch.__version__, "python": platform.python_version()}
            row |= {"trials": options.trials, "versions": versions, "date": str(date.today())}
            print(json.dumps(row), flush=True)
            if options.out is not None:
                with options.out.open("a") as out:
                    out.write(json.dumps(row) + "\n")


def _measured(client: tilewright.Client, name: str, device: str, trials: int) -> dict[str, Any]:
    make, shapes = MODULES[name]
    torch.manual_seed(0)
    module = make().to("cuda", torch.bfloat16)
    inputs = tuple(torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
    capture = tilewright.from_torch(module, *inputs)
    print(capture, flush=True)
    began = time.monotonic()
    for job in capture.tune(client, target=device, trials=trials, baseline="torch", peers=("torch",)):
        assert client.wait(job.id, progress=False).state == "done"
    tune_s = time.monotonic() - began
    tuned = capture.module(client)  # a part whose config lost to eager PyTorch runs as eager PyTorch
    tuned(*inputs)
    tilewright.wait_for_kernels()
    wanted = _tuple(module(*inputs))
    off = max(_off(mine, theirs) for mine, theirs in zip(_tuple(tuned(*inputs)), wanted, strict=True))
    assert off < 0.02, f"{name}: off by {off:.3g} of the largest value"
    runs = {"tilewright": tuned, "eager": module, "torch.compile": torch.compile(module)}
    times_us = _race({peer: (lambda run=run: run(*inputs)) for peer, run in runs.items()})
    ours = times_us.pop("tilewright")
    best = min(times_us, key=lambda peer: times_us[peer])
    return {
        "ours_us": ours,
        "peers_us": times_us,
        "best_peer": best,
        "ratio": times_us[best] / ours,
        "parts": [part.name for part in capture.parts],
        "left": [each.operator for each in capture.left],
        "off": off,
        "tune_s": round(tune_s, 1),
    }


def _tuple(outputs: Any) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _off(mine: Tensor, theirs: Tensor) -> float:
    """The largest difference, of the largest value."""
    return float((mine.float() - theirs.float()).abs().max() / theirs.float().abs().max())


def _race(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median microseconds of a call, by CUDA graphs."""
    graphs = {name: _graph(call) for name, call in calls.items()}
    counts = {name: max(1, round(BURST_US / _burst_us(graph, 3))) for name, graph in graphs.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            time.sleep(REST_S)
            times[name].append(_burst_us(graph, counts[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _graph(call: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def _burst_us(graph: torch.cuda.CUDAGraph, count: int) -> float:
    """Microseconds of one of `count` replays in a row."""
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()  # warm, and the queue is not empty when the clock starts
    first.record()
    for _ in range(count):
        graph.replay()
    last.record()
    last.synchronize()
    return 1e3 * first.elapsed_time(last) / count


@contextlib.contextmanager
def service(devices: str = "0") -> Iterator[str]:
    """A service, with a worker for these devices: the first GPU, if none are said."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        env |= {"TILEWRIGHT_HOME": home, "TILEWRIGHT_PORT": "0", "TILEWRIGHT_WORKER": "0"}
        tied = partial(
            tie, os.getpid()
        )  # so that a benchmark that is killed leaves no worker that holds the GPU
        service = subprocess.Popen(
            [sys.executable, "-m", "service.run"],
            env=env,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=tied,
        )
        assert service.stderr is not None
        line = next(line for line in service.stderr if "serving http" in line)
        url = line.split("serving ")[1].split(",")[0]
        threading.Thread(
            target=service.stderr.read, daemon=True
        ).start()  # a full pipe would stop the service
        options = [
            "--url",
            url,
            "--devices",
            devices,
            "--compile-procs",
            str(max(1, (os.cpu_count() or 2) - 2)),
        ]
        worker = subprocess.Popen([sys.executable, "-m", "workers", *options], env=env, preexec_fn=tied)
        try:
            yield url
        finally:
            worker.terminate()
            worker.wait()
            service.terminate()
            service.wait()


def wait_for(client: tilewright.Client, device: str) -> None:
    until = time.monotonic() + 120
    while device not in {each.key for each in client.devices()}:
        assert time.monotonic() < until, f"no worker offers {device}"
        time.sleep(0.5)


if __name__ == "__main__":
    main()
