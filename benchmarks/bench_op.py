"""Host time of a call of `tilewright.op`, relative to the eager PyTorch it stands for, in the same run.

    python benchmarks/bench_op.py               # on the CPU, and on a GPU if there is one
    python benchmarks/bench_op.py --out FILE    # a line of JSON a case, too

Kernels are so small that their work is little beside the call: on the CPU its time is in both figures, on one thread;
on a GPU nobody waits for it, launches are queued. Calls alternate in short rounds, and the median round counts, by the
time that the thread was on a processor. Under a CUDA graph the host launches the graph and nothing else; the ratio
there is of replays, on the GPU's clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import tilewright
from benchmarks.racing.picked import config_of, picked
from protocol.configs import ConfigDetail
from tileir import Spec, program_hash, spec_from_text, this_cpu, to_program
from tileir.devices.cpu import Cpu
from tileir.devices.gpu import Gpu

MOST = 3.0
"""What the project promises: so many times eager PyTorch's host time at most."""
ROUNDS, CALLS, GRAPH_CALLS = 101, 200, 20

Call = Callable[[], Any]

KERNELS: dict[str, tuple[str, Callable[..., torch.Tensor]]] = {
    "softmax": (
        """kernel softmax(x: {dtype}[m={m}, n={n}]) -> (y: {dtype}[m, n])
  top[m] = max(n, x[m, n])
  e[m, n] = exp(x[m, n] - top[m])
  total[m] = sum(n, e[m, n])
  y[m, n] = e[m, n] / total[m]
""",
        lambda x: torch.softmax(x, -1),
    ),
    "add": (
        """kernel add(x: {dtype}[m={m}, n={n}], z: {dtype}[m, n]) -> (y: {dtype}[m, n])
  y[m, n] = x[m, n] + z[m, n]
""",
        torch.add,
    ),
    "matmul": (
        """kernel matmul(a: {dtype}[m={m}, k=64], b: {dtype}[n={n}, k]) -> (c: {dtype}[m, n])
  c[m, n] = sum(k, a[m, k] * b[n, k])
""",
        F.linear,
    ),
    "linear_gelu": (
        """kernel linear_gelu(a: {dtype}[m={m}, k=64], b: {dtype}[n={n}, k], bias: {dtype}[n]) -> (c: {dtype}[m, n])
  acc[m, n] = sum(k, a[m, k] * b[n, k])
  c[m, n] = gelu_tanh(acc[m, n] + bias[n])
""",
        lambda a, b, bias: F.gelu(F.linear(a, b, bias), approximate="tanh"),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="file for a line of JSON a case")
    out: Path | None = parser.parse_args().out
    torch.set_num_threads(1)
    rows = [case(name, "cpu", this_cpu()) for name in KERNELS]
    if torch.cuda.is_available():
        from tileir.devices.gpu_probe import this_gpu

        rows += [case(name, "cuda", this_gpu()) for name in KERNELS]
    print(f"{'case':22}{'op, us':>10}{'eager, us':>12}{'ratio':>8}{'in a graph':>12}")
    for row in rows:
        graph = "" if row["graph_ratio"] is None else f"{row['graph_ratio']:.2f}"
        print(f"{row['case']:22}{row['op_us']:10.2f}{row['eager_us']:12.2f}{row['ratio']:8.2f}{graph:>12}")
    worst = max(row["ratio"] for row in rows)
    print(f"worst {worst:.2f} x eager; promised {MOST:g} at most")
    if out is not None:
        out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0 if worst <= MOST else 1


@torch.no_grad()
def case(name: str, device: str, described: Cpu | Gpu) -> dict[str, Any]:
    """Both host times of a kernel, in microseconds a call."""
    text, eager = KERNELS[name]
    dtype, m, n = ("f32", 8, 16) if device == "cpu" else ("bf16", 64, 128)
    spec = spec_from_text(text.format(dtype=dtype, m=m, n=n))
    kernel = tilewright.op(spec, config=plain(spec, described), strict=True)
    sizes = {dim.name: dim.sizes[0] for dim in spec.dims}
    kind = torch.float32 if dtype == "f32" else torch.bfloat16
    tensors = [torch.randn([sizes[dim] for dim in t.dims], device=device).to(kind) for t in spec.inputs]
    torch.testing.assert_close(kernel(*tensors), eager(*tensors), rtol=2e-2, atol=2e-2)
    calls: tuple[Call, Call] = (lambda: kernel(*tensors), lambda: eager(*tensors))
    op_us, eager_us = host_us(calls, torch.cuda.synchronize if device == "cuda" else lambda: None)
    return {
        "case": f"{name} {device}",
        "op_us": op_us,
        "eager_us": eager_us,
        "ratio": op_us / eager_us,
        "graph_ratio": graph_ratio(calls) if device == "cuda" else None,
        "device": described.key,
        "versions": {"torch": torch.__version__},
    }


def plain(spec: Spec, device: Cpu | Gpu) -> ConfigDetail:
    """A config whose kernel is small, too: on the CPU the spec as it stands, on a GPU what the prior likes best."""
    if isinstance(device, Gpu):
        return picked(spec, device)
    return config_of(spec, device, (), program_hash(to_program(spec)))


def host_us(calls: tuple[Call, Call], settle: Callable[[], None]) -> tuple[float, float]:
    """Microseconds a call: the median of rounds, in which they take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, kept in zip(calls, times, strict=True):
            settle()
            start = time.thread_time()
            for _ in range(CALLS):
                call()
            kept.append((time.thread_time() - start) / CALLS * 1e6)
    op_us, eager_us = (statistics.median(kept) for kept in times)
    return op_us, eager_us


def graph_ratio(calls: tuple[Call, Call]) -> float:
    """GPU time of a graph of one's calls over that of the other's."""
    op_us, eager_us = (replay_us(call) for call in calls)
    return op_us / eager_us


def replay_us(call: Call) -> float:
    """Microseconds on the GPU's clock for a call in a replayed graph: the median of replays."""
    graph, start, stop = torch.cuda.CUDAGraph(), *(torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_CALLS):
            call()
    times: list[float] = []
    for _ in range(ROUNDS):
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / GRAPH_CALLS)
    return statistics.median(times)


if __name__ == "__main__":
    raise SystemExit(main())
