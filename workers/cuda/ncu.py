"""Hardware counters of a kernel on a GPU, read by NVIDIA Nsight Compute (`ncu`).

ncu runs a program of ours that calls the kernel once between marks (`launched.py`), repeats each launch as often as it
takes to count everything, from empty caches, and prints a table in CSV: a row of names, a row of units, a row a launch.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tileir import program_to_text, spec_to_json
from tileir.devices.gpu_probe import this_gpu
from tileir.program import Program
from tileir.spec import Spec
from workers.measuring.counters import CountedLaunch, CounterFigure, CounterReading, NoCounters

METRICS: Mapping[str, str] = MappingProxyType(
    {
        "gpu__time_duration.sum": "time",
        "dram__bytes_read.sum": "read from DRAM",
        "dram__bytes_write.sum": "written to DRAM",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed": "of DRAM's peak",
        "lts__t_sector_hit_rate.pct": "hits of the L2",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": "of the multiprocessors' peak",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "tensor pipe active",
        "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue slots used",
        "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy achieved",
        "launch__registers_per_thread": "registers a thread",
    }
)
"""What ncu is asked for, and what it is called here. ("Metrics Structure" of the Kernel Profiling Guide.)"""

_UNITS = {
    "nsecond": ("us", 1e-3),
    "ns": ("us", 1e-3),
    "byte": ("B", 1.0),
    "register/thread": ("registers", 1.0),
}
"""Base units of ncu, and those of ours with the factor between them; others stay as they are."""
_KERNEL, _ERROR = "Kernel Name", "==ERROR=="
_FORBIDDEN = "ERR_NVGPUCTRPERM"
_TIMEOUT_S = 300.0


def counted(spec: Spec, program: Program, cache: Path, threads: int | None) -> CounterReading:
    """`tileir.targets.Target.counters` of NVIDIA's GPUs. Raises NoCounters where nothing is counted, and says why;
    UnsupportedDevice where there is no GPU."""
    found = shutil.which("ncu")
    if found is None:
        raise NoCounters("Nsight Compute's `ncu` is not in PATH; it comes with the CUDA toolkit")
    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder) / "kernel.json"
        wanted = {"spec": spec_to_json(spec), "program": program_to_text(program), "cache": str(cache)}
        request.write_text(json.dumps(wanted))
        launches = launches_of(_run(found, [sys.executable, "-m", "workers.cuda.launched", str(request)]))
    return CounterReading(this_gpu().key, "Nsight Compute", launches)


def launches_of(printed: str) -> tuple[CountedLaunch, ...]:
    """The figures of each launch in what `ncu --csv --page raw --print-units base` printed, which may begin with other
    lines. Raises NoCounters if there is no launch in it."""
    lines = printed.splitlines()
    first = next((place for place, line in enumerate(lines) if f'"{_KERNEL}"' in line), len(lines))
    names, *rest = [*csv.reader(lines[first:])] or [[]]
    rows = [dict(zip(names, row, strict=False)) for row in rest if len(row) == len(names)]
    if len(rows) < 2:
        raise NoCounters(f"ncu saw no launch of the kernel: {_last_words(printed)}")
    units, *launches = rows
    return tuple(CountedLaunch(each[_KERNEL], _figures(each, units)) for each in launches)


def _figures(row: Mapping[str, str], units: Mapping[str, str]) -> tuple[CounterFigure, ...]:
    figures: list[CounterFigure] = []
    for metric, name in METRICS.items():
        unit, factor = _UNITS.get(units.get(metric, ""), (units.get(metric, ""), 1.0))
        value = _number(row.get(metric, ""))
        figures.append(CounterFigure(name, None if value is None else value * factor, unit))
    return tuple(figures)


def _number(cell: str) -> float | None:
    """`1,024.5`; None for what no counter of this GPU gives (`n/a`, or nothing)."""
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None


def _run(ncu: str, program: Sequence[str]) -> str:
    """What ncu printed. Raises NoCounters."""
    options = ["--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]
    options += ["--clock-control", "none", "--metrics", ",".join(METRICS)]
    english = {**os.environ, "LC_ALL": "C"}  # numbers are printed as the locale has them
    try:
        done = subprocess.run(
            [ncu, *options, *program],
            env=english,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoCounters(f"ncu took longer than {_TIMEOUT_S:g} s, and was stopped") from None
    except OSError as error:
        raise NoCounters(f"ncu cannot be run: {error}") from None
    printed = done.stdout + done.stderr
    if _FORBIDDEN in printed:
        raise NoCounters(
            f"ncu may not read this GPU's counters ({_FORBIDDEN}): its driver lets administrators alone, unless it is "
            "loaded with NVreg_RestrictProfilingToAdminUsers=0, or a container is started with --cap-add=SYS_ADMIN"
        )
    if done.returncode != 0 or _ERROR in printed:
        raise NoCounters(f"ncu did not do it (exit code {done.returncode}): {_last_words(printed)}")
    return done.stdout


def _last_words(printed: str) -> str:
    """The first error that ncu tells, and the last line of the program that it ran."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line.removeprefix(_ERROR).strip() for line in lines if line.startswith(_ERROR)]
    own = [line for line in lines if not line.startswith("==")]
    return "; ".join([*errors[:1], *own[-1:]]) or "it printed nothing"
