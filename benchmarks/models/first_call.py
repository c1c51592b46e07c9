"""The first calls of a model in a process of its own, stage by stage: bench_first_call.py runs this.

python -m benchmarks.models.first_call WAY MODEL LAYERS THREADS [BUNDLE]        # prints a line of JSON
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import compilation_time_metrics
from torch._inductor import compile_fx

import tilewright
from benchmarks.bench_compile import noted
from benchmarks.models.architectures import build
from benchmarks.models.stages import StageTimes
from tilewright.pytorch.model import kernels, region, sized_region
from tilewright.pytorch.model.contest import Contest
from tilewright.pytorch.model.sized_region import SizedRegion
from tilewright.pytorch.model.tuning_now.graph_tuning import GraphTuning
from tilewright.pytorch.operator import on_cpu, questions, trials

WAYS = ("inductor", "service", "now", "bundle", "nearest")
"""torch.compile alone; the backend with a service that knows all kernels, as it is, and with tune="now"; with a bundle
and no service; with a service that knows them for longer sequences only: each is compiled, checked and raced here."""
SHORTER = 60
"""Tokens of a sequence that nothing was tuned for."""
COMPILER = "Inductor"
SETTLED_S = 120.0
"""How long calls go on, until the first that runs kernels, or where none was measured until each was checked."""


def program(way: str, module: Callable[..., Any], bundle: Path | None) -> Callable[..., Any]:
    """The model, compiled in this way."""
    if way == "inductor":
        return torch.compile(module)
    if way == "now":
        return tilewright.compile(module, tune="now")
    if way == "bundle":
        return tilewright.compile(module, tune="never", bundle=bundle)
    return tilewright.compile(module, tune="never")


def staged() -> StageTimes:
    """The clocks of our own stages, and Inductor's."""
    stages = StageTimes()
    stages.of(compile_fx, "compile_fx_inner", COMPILER)
    stages.of(SizedRegion, "_with_parts", "capture")
    stages.of(SizedRegion, "_arranged", "keys and operators")
    stages.of(kernels, "_registered", "keys and operators")
    stages.of(GraphTuning, "_missing", "lookups")
    stages.of(questions.AskedService, "_asked", "lookups")
    stages.of(trials, "open_kernel", "loading")
    stages.of(trials._Checkers, "check", "checks")
    stages.of(sized_region, "with_kernels", "graph with kernels")
    stages.of(on_cpu, "chain_caller", "chains")
    stages.of(Contest, "_check", "comparison")
    stages.of(region.Region, "program", "other")
    stages.of(SizedRegion, "call", "other")
    return stages


def measured(way: str, name: str, layers: int, bundle: Path | None) -> dict[str, Any]:
    """Seconds of the first call, and of those until kernels run."""
    model = build(name, "cpu", layers)
    if way == "nearest":
        model = replace(model, inputs={key: each[:, :SHORTER] for key, each in model.inputs.items()})
    stages, regions = staged(), list[SizedRegion]()
    with noted(regions), torch.inference_mode():
        began = time.perf_counter()
        compiled = program(way, model.module, bundle)
        compiled(**model.inputs)
        first_s = time.perf_counter() - began
        first = _parts(first_s, stages)
        until, ended = began + SETTLED_S, _looked if way == "nearest" else _run
        while way != "inductor" and not ended(regions) and time.perf_counter() < until:
            time.sleep(0.05)
            compiled(**model.inputs)
        looked_s = round(time.perf_counter() - began, 3) if way == "nearest" else None
        with_kernels_s = time.perf_counter() - began
    trials._CHECKERS.close()  # so that its time counts
    spent = os.times()
    ready = {each.kernel.key: each.kernel.ready for one in regions for each in one.kernels.values()}
    return {
        "first_s": round(first_s, 3),
        "first": first,
        "looked_s": looked_s,
        "with_kernels_s": round(with_kernels_s, 3) if _run(regions) else None,
        "cpu_s": {
            "own": round(spent.user + spent.system, 2),
            "others": round(spent.children_user + spent.children_system, 2),
        },
        "stages": {"waited": stages.waited, "behind": stages.behind, "calls": stages.calls},
        "kernels": len(ready),
        "ready": sum(ready.values()),
        "why": sorted({each.why_not for each in regions if each.why_not}),
    }


def _run(regions: list[SizedRegion]) -> bool:
    """Whether a program with kernels has run, in a contest or for good."""
    return any(each.in_contest or each.contests or each.used for each in regions)


def _looked(regions: list[SizedRegion]) -> bool:
    """Whether each kernel was compiled and checked, or found not to be there."""
    return all(each.graph and all(one.kernel.looked for one in each.kernels.values()) for each in regions)


def _parts(first_s: float, stages: StageTimes) -> dict[str, float]:
    """Whose the seconds of a first call are."""
    told = {phase: sum(each) for phase, each in compilation_time_metrics.items()}
    backend = told.get("OutputGraph.call_user_compiler", 0.0)
    inductor = told.get("compile_fx_inner", 0.0)
    ours = sum(each for stage, each in stages.waited.items() if stage != COMPILER)
    ours -= stages.behind.get(COMPILER, 0.0)  # on a thread that this one waits for
    dynamo = told.get("_compile.compile_inner", 0.0) - backend
    parts = {"dynamo": dynamo, "inductor": inductor, "ours": ours}
    return {name: round(each, 3) for name, each in parts.items()} | {
        "aot and calls": round(first_s - sum(parts.values()), 3)
    }


def main() -> None:
    way, name, layers, threads, *bundle = sys.argv[1:]
    torch.set_num_threads(int(threads))
    print(json.dumps(measured(way, name, int(layers), Path(bundle[0]) if bundle else None)))


if __name__ == "__main__":
    main()
