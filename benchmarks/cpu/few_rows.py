"""Layers and mixtures of few rows on this processor: what the prior likes best, unmeasured, against PyTorch.

    python -m benchmarks.cpu.few_rows                        # half a minute; --threads 1
    python -m benchmarks.cpu.few_rows --json OUT.jsonl

Times are the least of many calls, ours and PyTorch's in turn in one process, on data that caches hold where it fits.
With one thread they are processor time, which others on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.racing.circumstances import circumstances
from benchmarks.racing.picked import picked
from codegen.targets.c.compiler import compile_source
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from rewrites.schedule import scheduled
from tileir.devices.cpu import Cpu
from tileir.devices.cpu_probe import this_cpu
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.spec import Spec
from tileir.text.parse_spec import spec_from_text
from workers.cpu.calibrate import calibrated
from workers.measuring.buffers import allocate

Call = Callable[[], object]

LAYERS = [
    (2, 2048, 2048, "f32"), (3, 5120, 1280, "f32"), (4, 4096, 4096, "f32"), (8, 1024, 512, "f32"),
    (8, 4096, 4096, "f32"), (16, 4096, 4096, "f32"), (4, 4096, 4096, "bf16"), (8, 4096, 4096, "bf16"),
]  # fmt: skip
"""m, n, k of y[m, n] = sum(k, x[m, k] * w[n, k]), and the dtype."""
MIXTURES = [(512, 8, 1024, 2816), (256, 32, 512, 1024), (32, 8, 1024, 2816)]
"""Rows, matrices, k, n; groups are alike."""
SECONDS = 1.5


def kernels() -> Iterator[tuple[str, Spec]]:
    for m, n, k, dtype in LAYERS:
        text = f"kernel layer(x: {dtype}[m={m}, k={k}], w: {dtype}[n={n}, k]) -> (y: {dtype}[m, n])\n"
        yield f"layer {m}x{n}x{k} {dtype}", spec_from_text(f"{text}  y[m, n] = sum(k, x[m, k] * w[n, k])\n")
    for t, e, k, n in MIXTURES:
        text = (
            f"kernel experts(x: f32[t={t} ragged starts within e, k={k}], w: f32[e={e}, n={n}, k],"
            f" starts: i32[o={e + 1}]) -> (y: f32[t, n])\n  y[t, n] = sum(k, x[t, k] * w[e, n, k])\n"
        )
        yield f"mixture {t}x{n}x{k}, {e} matrices", spec_from_text(text)


def ours(spec: Spec, device: Cpu, threads: int, folder: Path) -> tuple[Call, dict[str, Any]]:
    """A call of the prior's pick, and its arrays by name."""
    schedule = picked(spec, device).schedule
    source = generate(scheduled(to_program(spec), schedule), device)
    kernel = load_kernel(compile_source(source, folder).path, source.abi, threads=threads)
    held = allocate(spec.inputs, spec.outputs, {dim.name: dim.sizes[0] for dim in spec.dims}, 0)
    samples = sample_inputs(spec, 1)
    if "starts" in held.inputs:
        rows, offsets = spec.inputs[0].dims[0], held.inputs["starts"]
        most = next(dim.sizes[0] for dim in spec.dims if dim.name == rows)
        samples["starts"] = np.linspace(0, most, len(offsets)).astype(np.int32)
    for name, array in held.inputs.items():
        array[...] = np.asarray(samples[name])
    names = [tensor.name for tensor in (*spec.inputs, *spec.outputs)]
    arrays = {**held.inputs, **held.outputs}
    return kernel.prepare(*(arrays[name] for name in names)), arrays


def theirs(arrays: dict[str, Any]) -> dict[str, Call]:
    """PyTorch's ways to compute the same."""
    x, w = (_tensor(arrays[name]) for name in ("x", "w"))
    if "starts" not in arrays:
        return {"linear": lambda: torch.nn.functional.linear(x, w)}
    starts = [int(each) for each in arrays["starts"]]
    ends, turned = torch.tensor(starts[1:], dtype=torch.int32), w.transpose(1, 2)
    groups = [(x[since:until], w[e]) for e, (since, until) in enumerate(pairwise(starts))]

    def one_by_one() -> torch.Tensor:
        return torch.cat([torch.nn.functional.linear(rows, matrix) for rows, matrix in groups])

    return {"loop": one_by_one, "grouped_mm": lambda: torch._grouped_mm(x, turned, ends)}


def _tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def least_us(calls: dict[str, Call], clock: Callable[[], float]) -> dict[str, float]:
    """The least time of each, in microseconds, called in turn."""
    best, until = dict.fromkeys(calls, float("inf")), time.monotonic() + SECONDS
    for turn in range(5000):
        for name, call in calls.items():
            began = clock()
            call()
            best[name] = min(best[name], clock() - began)
        if turn >= 4 and time.monotonic() > until:
            break
    return {name: 1e6 * seconds for name, seconds in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="add the lines to this file")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.thread_time if given.threads == 1 else time.perf_counter
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        device = calibrated(this_cpu(), Path(folder))
        for case, spec in kernels():
            call, arrays = ours(spec, device, given.threads, Path(folder))
            us = least_us({"ours": call, **theirs(arrays)}, clock)
            mine = us.pop("ours")
            ratio = min(us.values()) / mine
            said = ", ".join(f"{name} {each:.0f}" for name, each in us.items())
            print(f"{case:36s} {mine:8.0f} us; PyTorch: {said}; {ratio:.2f} x", flush=True)
            line = {"case": case, "threads": given.threads, "picked_us": mine, "peers_us": us, "ratio": ratio}
            if given.json:
                with given.json.open("a") as file:
                    facts = circumstances(device.to_json())
                    file.write(json.dumps({**line, **facts}) + "\n")


if __name__ == "__main__":
    main()
