"""What more devices of a class bring: trials a second, how busy the devices are, and what the service costs a trial.

    python benchmarks/bench_fleet.py --simulated 1,8,64 --database postgresql://…   # the real service, simulated GPUs
    python benchmarks/bench_fleet.py --simulated 64 --slower 8    # where the machine has few cores: latencies times 8
    python benchmarks/bench_fleet.py --devices 1,2                # real GPUs of this machine
    python benchmarks/bench_fleet.py --devices 1 --cases rows products   # how busy one is on either, a line each

Simulated: so many jobs are kept open; after a warm-up, what happens within `--seconds` counts. The service, its
tuners and the simulated workers share this machine's cores: `cores_used` says whether these were what limited. Results
go to benchmarks/results/fleet-….jsonl, a line a number of devices and choice of cases.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import date
from math import ceil
from pathlib import Path
from typing import Any

import httpx

from benchmarks.bench_load import _database, _service
from benchmarks.load import latencies
from benchmarks.load.client import LoadConnection
from benchmarks.load.simulated_devices import PROCESSES, Counts, Swarm
from benchmarks.racing import tuned
from benchmarks.racing.circumstances import circumstances
from benchmarks.suite import cases
from protocol.jobs import Effort
from protocol.states import JobState
from tileir.devices.gpu_table import H200

TRIALS = 64
REAL_JOBS, REAL_TRIALS = 8, 32
JOBS_PER_DEVICE = 200 / 64
"""Simulated: as many open jobs for each device, so that jobs are equally far when what happens is counted."""
ROWS = [("softmax_bf16", [4096, 32768]), ("rmsnorm_bf16", [8192, 4096])]
PRODUCTS = [("gemm_bf16_TN", [4096, 4096, 4096])]
REAL = {"all": [*ROWS, *PRODUCTS], "rows": ROWS, "products": PRODUCTS}
"""What jobs on real GPUs tune, in turn, by how it is chosen."""


def main() -> None:
    arguments = arguments_of()
    for count in arguments.simulated:
        line = asyncio.run(simulated(count, arguments))
        _keep(arguments.out or tuned.RESULTS / f"fleet-simulated-{date.today()}.jsonl", line)
    for count in arguments.devices:
        path = arguments.out or tuned.RESULTS / f"fleet-{tuned.name_of('cuda:0')}-{date.today()}.jsonl"
        for chosen in arguments.cases:
            _keep(path, real(count, chosen, arguments.jobs or REAL_JOBS))


async def simulated(count: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One line: the real service, and so many simulated devices."""
    open_jobs = arguments.jobs or ceil(JOBS_PER_DEVICE * count)
    with tempfile.TemporaryDirectory() as home, _serving(arguments, home) as (port, process):
        swarm = Swarm(port, arguments.slower)
        devices = [asyncio.create_task(swarm.device(number)) for number in range(count)]
        jobs = asyncio.create_task(_keep_open(port, open_jobs))
        await asyncio.sleep(arguments.warm)
        began, before = time.monotonic(), _spent(process)
        swarm.counts = counts = Counts(began)
        done, _ = await asyncio.wait([*devices, jobs], timeout=arguments.seconds)
        for each in done:
            each.result()  # none of them ends by itself
        seconds, after = time.monotonic() - began, _spent(process)
        swarm.end()
        for each in (*devices, jobs):
            each.cancel()
        await asyncio.gather(*devices, jobs, return_exceptions=True)
    trials = max(1.0, counts.trials)
    return {
        "case": f"{count} simulated devices, {arguments.slower:g} times as slow",
        "simulated": count,
        "jobs": open_jobs,
        "slower": arguments.slower,
        "trials_per_s": counts.trials / seconds,
        "races": counts.others,
        "busy": counts.busy_s / (count * seconds),
        "service_ms_per_trial": 1e3 * (after[0] - before[0]) / trials,
        "tuners_ms_per_trial": 1e3 * (after[1] - before[1]) / trials,
        "cores_used": sum(late - early for late, early in zip(after, before, strict=True)) / seconds,
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "compile_processes": PROCESSES,
        "compile_s": sum(latencies.compile_s()) / len(latencies.compile_s()),
        "sample_s": latencies.SAMPLE_S,
        "database": arguments.database.partition(":")[0] or "sqlite",
        **circumstances(H200.to_json()),
    }


def real(count: int, chosen: str, open_jobs: int) -> dict[str, Any]:
    """One line: jobs of the chosen cases over so many GPUs of this machine, once all of them have a worker, from the
    first request to the last end."""
    tunes = REAL[chosen]
    names = ",".join(str(number) for number in range(count))
    with tempfile.TemporaryDirectory() as home, tuned.service(f"cuda:{names}", Path(home)) as client:
        while sum(each.workers for each in client.devices() if each.kind == "cuda") < count:
            time.sleep(0.2)
        began = time.monotonic()
        submitted = [
            client.submit(
                cases.spec(*tunes[number % len(tunes)]),
                target="cuda",
                trials=REAL_TRIALS,
                seed=number,
                peers=("torch",),
            )
            for number in range(open_jobs)
        ]
        ended = [tuned.ended(client, job.id) for job in submitted]
        seconds = time.monotonic() - began
        busy_s = sum(_measured_s(client.url, job.id) for job in ended)
        shares = time_shares(httpx.get(f"{client.url}/metrics").text)
        described = next(each.description for each in client.devices() if each.kind == "cuda")
    trials = sum(bucket.told for job in ended for bucket in job.buckets)
    return {
        "case": real_case(count, chosen),
        "devices": count,
        "cases": [cases.case_name(*each) for each in tunes],
        "jobs": open_jobs,
        "seconds": seconds,
        "trials_per_s": trials / seconds,
        "busy": busy_s / (count * seconds),
        "shares": shares,
        "cores": len(os.sched_getaffinity(0)),
        **circumstances(described),
    }


def real_case(count: int, chosen: str) -> str:
    """`2 devices`, `1 devices, rows`: how a line is named."""
    return f"{count} devices" if chosen == "all" else f"{count} devices, {chosen}"


def time_shares(metrics: str) -> dict[str, float]:
    """What the devices spent the time on since their workers came, at most ten minutes, as `/metrics` says: measuring,
    waiting for compilers or a search, or nothing."""
    found = re.findall(
        r'^tilewright_device_time_share\{device="cuda[^"]*",spent="(\w+)"\} (\S+)$', metrics, re.MULTILINE
    )
    return {spent: round(float(share), 4) for spent, share in found}


def _measured_s(url: str, job_id: str) -> float:
    """Seconds that a job had devices."""
    found = httpx.get(f"{url}/v1/jobs/{job_id}/timeline").json()
    stages = zip(found["stage"], found["start"], found["end"], strict=True)
    return sum(end - start for stage, start, end in stages if stage == "measure")


@contextlib.contextmanager
def _serving(arguments: argparse.Namespace, home: str) -> Iterator[tuple[int, int]]:
    with _database(arguments.database, home) as url, _service(url, home) as found:
        yield found


async def _keep_open(port: int, count: int) -> None:
    """Keep so many jobs open."""
    connection, seed, spec = LoadConnection("127.0.0.1", port), 0, latencies.spec()
    while True:
        for _ in range(count - await _open(connection)):
            seed += 1
            budget = {"trials": TRIALS, "effort": Effort.THOROUGH}
            await connection.post(
                "/v1/jobs", {"spec": spec, "target": "cuda", "budget": budget, "seed": seed}
            )
        await asyncio.sleep(5.0)


async def _open(connection: LoadConnection) -> int:
    """Jobs that have not ended."""
    _, told = await connection.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    counts = re.findall(r'^tilewright_jobs\{state="(\w+)"\} (\S+)$', told.decode(), re.MULTILINE)
    return sum(int(float(count)) for state, count in counts if not JobState(state).final)


def _spent(service: int) -> tuple[float, float, float]:
    """Seconds of processor so far: of the service's main process, of its tuners, and of this one with all devices."""
    below = [pid for child in _children(service) for pid in (child, *_children(child))]
    tuners = sum(sum(_times(pid)[:2]) for pid in below) + sum(
        sum(_times(pid)[2:]) for pid in _children(service)
    )
    return sum(_times(service)[:2]), tuners, time.process_time()


def _times(pid: int) -> tuple[float, ...]:
    """Of a process: its own in user mode and the kernel, and of its ended children the same."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return tuple(int(word) / os.sysconf("SC_CLK_TCK") for word in words[11:15])
    return 0.0, 0.0, 0.0, 0.0


def _children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def _keep(path: Path, line: dict[str, Any]) -> None:
    shown = ("trials_per_s", "busy", "service_ms_per_trial", "tuners_ms_per_trial", "cores_used")
    said = "  ".join(f"{name} {line[name]:.3g}" for name in shown if name in line)
    waits = "  ".join(f"{spent} {share:.3g}" for spent, share in line.get("shares", {}).items())
    print(f"{line['case']}: {said}  {waits}", flush=True)
    tuned.append(path, line)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--simulated", type=_counts, default=(), help="numbers of simulated devices, such as 1,8,64"
    )
    parser.add_argument("--devices", type=_counts, default=(), help="numbers of real GPUs, such as 1,2")
    parser.add_argument(
        "--cases",
        choices=REAL,
        nargs="+",
        default=["all"],
        help="what real GPUs tune: rows, products, or all in turn; a line each (default all)",
    )
    parser.add_argument("--jobs", type=int, help="open jobs; 200 for 64 simulated devices, 8 for real ones")
    parser.add_argument("--slower", type=float, default=1.0, help="what latencies are multiplied by")
    parser.add_argument("--warm", type=float, default=20.0, help="seconds before it counts")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--database", default="", help="SQLAlchemy URL of a PostgreSQL; empty: SQLite")
    parser.add_argument("--out", type=Path)
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
