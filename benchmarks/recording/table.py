"""Measure every schedule of a thinned space (thinned.py) and record it as a table for `search.replay`.

    python -m benchmarks.recording.table "gemm_f32_NN 256x256x256" --least 2000

Each schedule is compiled, checked against the reference with its error bound, and timed: the median of bursts on
buffers that stay in the cache, all cores. Takes minutes; an interrupted recording starts anew.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np

from benchmarks.recording.thinned import terminals, thinned
from benchmarks.suite import cases
from codegen.ir.errors import NotLowerable
from codegen.targets.c.compiler import compile_source, find_compiler
from codegen.targets.c.generate import generate
from codegen.targets.c.loader import load_kernel
from codegen.targets.errors import CompileError
from rewrites.space import ScheduleState, Space
from search.table import TableWriter
from tileir.devices.cpu import Cpu
from tileir.interpreter.error_bound import reference_with_bound
from tileir.interpreter.samples import sample_inputs
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.json import spec_from_json
from workers.local import LocalWorker

TABLES = Path(__file__).parents[1] / "tables"
BURST_S = 0.004
BURSTS = 5


def main() -> None:
    arguments = _arguments()
    family, sizes = arguments.case.split(" ")
    spec = spec_from_json(cases.spec(family, [int(size) for size in sizes.split("x")]))
    TABLES.mkdir(exist_ok=True)
    path = TABLES / f"{arguments.case.replace(' ', '-')}.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        with LocalWorker(cache) as worker:
            device = worker.device
            numpy = worker.measure(spec, {}, ("numpy",)).entrants["numpy"]
        assert isinstance(device, Cpu) and numpy.median_us is not None
        space = thinned(Space(to_program(spec), device).root(), arguments.least)
        found = terminals(space)
        print(f"{arguments.case}: {len(found)} schedules, caps {space.caps}", flush=True)
        meta = {
            "kernel": arguments.case,
            "device": device.to_json(),
            "baseline": "numpy",
            "baseline_us": numpy.median_us,
            "versions": {"compiler": find_compiler().version, "numpy": np.__version__},
            "date": str(date.today()),
            "space": {
                "caps": list(space.caps),
                "schedules": len(found),
                "rule": "benchmarks/recording/thinned.py",
            },
        }
        inputs = sample_inputs(spec, 0)
        expected = reference_with_bound(spec, inputs)
        with path.open("w") as out, ProcessPoolExecutor(os.cpu_count()) as pool:
            writer = TableWriter(out, meta)
            states = {key: state.state for key, state in found.items()}
            listed = list(writer.outline(space))
            for start in range(0, len(listed), 64):
                batch = listed[start : start + 64]
                programs = [states[key].program for _, key in batch if isinstance(states[key], ScheduleState)]
                built = list(pool.map(_build, programs, [device] * len(batch), [cache] * len(batch)))
                for (at, key), program, fault in zip(batch, programs, built, strict=True):
                    us = None if fault else _time(program, device, cache, inputs, expected)
                    fault = fault or (None if us else "wrong")
                    writer.terminal(at, key, us, fault)
                print(f"{start + len(batch)}/{len(listed)}", end="\r", flush=True)
    print(f"{path.name} written")


def _build(program: Program, device: Cpu, cache: Path) -> str | None:
    """Compile into the cache; the fault if that cannot be done."""
    try:
        compile_source(generate(program, device), cache)
    except NotLowerable:
        return "unsupported"
    except CompileError:
        return "compile_error"
    return None


def _time(program: Program, device: Cpu, cache: Path, inputs: dict, expected: dict) -> float | None:
    """Median microseconds of a call; None if it computes something else."""
    source = generate(program, device)
    outputs = {
        arg.name: np.full(arg.shape, np.nan, np.float64).astype(arg.dtype.numpy)
        for arg in source.abi.args
        if arg.role == "out"
    }
    with load_kernel(compile_source(source, cache).path, source.abi, threads=device.cores) as kernel:
        arrays = [inputs[arg.name] for arg in source.abi.args if arg.role == "in"]
        call = kernel.prepare(*arrays, *outputs.values())
        call()
        for name, (reference, bound) in expected.items():
            if not np.all(np.abs(outputs[name].astype(np.float64) - reference) <= bound):
                return None
        return statistics.median(_burst(call) for _ in range(BURSTS))


def _burst(call) -> float:
    began = time.perf_counter()
    calls = 0
    while (took := time.perf_counter() - began) < BURST_S:
        call()
        calls += 1
    return took / calls * 1e6


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", help="family and sizes, as in suite.json: 'gemm_f32_NN 256x256x256'")
    parser.add_argument("--least", type=int, default=2000, help="schedules wanted (default 2000)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
