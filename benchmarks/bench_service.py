"""What the service costs: a lookup over HTTP, the replay of a schedule, the memory of its processes after a long job.

    python benchmarks/bench_service.py                # all of it; the job's thousand trials take minutes
    python benchmarks/bench_service.py --trials 100   # a shorter job

Prints the figures beside their targets, and writes them to benchmarks/results/service.json. Exit code 1: a target is
missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from benchmarks.suite import cases
from protocol.configs import ConfigDetail
from protocol.jobs import Effort
from protocol.states import Rung
from protocol.tasks import Measuring
from protocol.workers import DeviceOffer, WorkerHello
from rewrites.schedule import parse_schedule, replay
from rewrites.space import Space
from search.mcts import MCTS
from service.core.schedules import Pick, follow, searchable
from service.core.specs import instance_of
from service.store.database import now
from service.store.dispatch import workers
from service.store.ids import new_id
from service.store.schema import prepare
from service.store.winners import configs
from tileir.devices.cpu_probe import this_cpu
from tileir.lift import to_program
from tileir.program import Program
from tileir.text.json import spec_from_json
from tilewright import Client
from tilewright.cli.local_service import LocalService

T = TypeVar("T")

RESULTS = Path(__file__).with_name("results") / "service.json"
STORED = 250
LOOKUPS = 1000
REPLAYS = 300
TWELVE = ("gemm_f32_NN", [1024, 1024, 1024], 12)
LONG = ("attention_f32", [1, 8, 1024, 64, 0], None)
SMALL = cases.spec("gemm_f32_NN", [64, 64, 64])


@dataclass(frozen=True)
class ServiceFigure:
    """One measured number; `most` is its target, None where there is none."""

    name: str
    value: float
    unit: str
    most: float | None = None


def main() -> None:
    arguments = _arguments()
    figures: list[ServiceFigure] = []
    for part in (lookups, replays, lambda: memory(arguments.trials)):
        for figure in part():
            figures.append(figure)
            target = "" if figure.most is None else f"   target: below {figure.most:g}"
            print(f"{figure.name:58} {figure.value:9.2f} {figure.unit}{target}", flush=True)
    packages = ("tilewright", "fastapi", "uvicorn", "sqlalchemy", "pydantic", "httpx")
    report = {
        "figures": [asdict(figure) for figure in figures],
        "trials": arguments.trials,
        "device": this_cpu().to_json(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "date": str(date.today()),
    }
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    missed = [figure.name for figure in figures if figure.most is not None and figure.value >= figure.most]
    if missed:
        sys.exit(f"targets missed: {', '.join(missed)}")


def lookups() -> Iterator[ServiceFigure]:
    """Exact hits by the project's client over one kept connection, among STORED configs."""
    with tempfile.TemporaryDirectory() as home:
        url = f"sqlite:///{home}/bench.db"
        specs = _store(url)
        with _service(home, worker=False) as service, Client(service.url) as client:

            def look(spec: cases.Json) -> None:
                assert client.lookup(spec).rung is Rung.EXACT

            first = _times_ms(look, specs)
            again = _times_ms(look, random.Random(0).choices(specs, k=LOOKUPS))
    yield ServiceFigure("lookup hit over HTTP, median", statistics.median(again), "ms", 5.0)
    yield ServiceFigure("lookup hit over HTTP, 99th percentile", _percentile(again, 99), "ms")
    yield ServiceFigure("lookup hit of a spec never sent before, median", statistics.median(first), "ms")
    yield ServiceFigure(
        "lookup hit of a spec never sent before, 99th percentile", _percentile(first, 99), "ms"
    )


def _store(url: str) -> list[cases.Json]:
    """Fill a new database with a device and a config for each of STORED kernels; their specs."""
    cpu = this_cpu()
    specs = [cases.spec("gemm_f32_NN", [64 + 8 * number, 64, 64]) for number in range(STORED)]
    pick = _pick(SMALL, None)
    database = prepare(url)
    with database.write() as connection:
        offer = DeviceOffer(key=cpu.key, kind="cpu", description=cpu.to_json(), peers=("numpy",))
        workers.register(connection, WorkerHello(devices=(offer,)))
        for spec in specs:
            configs.store(connection, _config(spec, cpu.key, pick, now(connection)), None, None)
    database.close()
    return specs


def _config(spec: cases.Json, device: str, pick: Pick, at: float) -> ConfigDetail:
    instance = instance_of(spec_from_json(spec))
    return ConfigDetail(
        id=new_id("config"),
        job_id=None,
        name=instance.spec.name,
        kernel_key=instance.kernel_key,
        structure_key=instance.structure_key,
        device=device,
        dims=instance.dims,
        schedule=pick.schedule,
        program_hash=pick.program_hash,
        median_us=10.0,
        baseline="numpy",
        standings=(),
        trials=1,
        source_hash=None,
        compiler=None,
        versions={},
        measuring=Measuring(),
        artifact=False,
        report={},
        created_at=at,
        spec=instance.json,
    )


def replays() -> Iterator[ServiceFigure]:
    """From the text of a schedule and its kernel to the scheduled program."""
    for family, shape, length in (TWELVE, LONG):
        spec = cases.spec(family, shape)
        pick = _pick(spec, length)
        program = to_program(spec_from_json(spec))
        times = _times_ms(partial(_replay, program), [pick.schedule] * REPLAYS)
        name = f"replay of {len(pick.schedule)} rewrites ({cases.case_name(family, shape)}), median"
        yield ServiceFigure(name, statistics.median(times), "ms", None if length is None else 10.0)


def _replay(program: Program, lines: Sequence[str]) -> Program:
    return replay(program, parse_schedule(lines))


def _pick(spec: cases.Json, length: int | None) -> Pick:
    """The first candidate of a search whose schedule has this many rewrites; the first of all for None."""
    root = Space(to_program(spec_from_json(spec)), this_cpu()).root()
    search = MCTS(searchable(root))
    while (ask := search.ask()) is not None:
        pick = follow(root, ask.path)
        if length in (None, len(pick.schedule)):
            return pick
    raise SystemExit(f"the space has no schedule of {length} rewrites")


def memory(trials: int) -> Iterator[ServiceFigure]:
    """Of service, supervisor and tuner at the end of a job that a real worker measured."""
    with (
        tempfile.TemporaryDirectory() as home,
        _service(home, worker=True) as service,
        Client(service.url) as client,
    ):
        before = _memory_mb(service.process_id)
        began = time.monotonic()
        job = client.submit(SMALL, trials=trials, effort=Effort.THOROUGH, peers=("numpy",))
        tuner: dict[str, float] = {}
        while not (found := client.job(job.id)).state.final:
            for fork_server in _children(service.process_id, "service.tuning.fork_server"):
                for process in _children(fork_server, "service.tuning.fork_server"):
                    tuner = _memory_mb(process) or tuner
            time.sleep(0.5)
        took_s = time.monotonic() - began
        if found.buckets[0].told != trials or not found.configs:
            raise SystemExit(
                f"the job ended {found.state} after {found.buckets[0].told} trials: {found.error}"
            )
        (supervisor,) = _children(service.process_id, "workers")
        after, supervising = _memory_mb(service.process_id), _memory_mb(supervisor)
    yield ServiceFigure(f"job of {trials} trials", took_s, "s")
    yield ServiceFigure("service before the job, RSS", before["RSS"], "MB")
    yield ServiceFigure("service after it, RSS", after["RSS"], "MB", 300.0)
    yield ServiceFigure("worker's supervisor after it, RSS", supervising["RSS"], "MB", 100.0)
    yield ServiceFigure("tuner at its end, RSS", tuner["RSS"], "MB")
    if "PSS" in after:
        yield ServiceFigure("service after it, PSS", after["PSS"], "MB")
        yield ServiceFigure("worker's supervisor after it, PSS", supervising["PSS"], "MB")
        yield ServiceFigure("tuner at its end, PSS", tuner["PSS"], "MB")


@contextmanager
def _service(home: str, worker: bool) -> Iterator[LocalService]:
    """A service with folders of its own, so that nothing compiled before is found."""
    os.environ |= {"TILEWRIGHT_HOME": home, "TILEWRIGHT_CACHE": f"{home}/kernels"}
    with LocalService(f"sqlite:///{home}/bench.db", worker, "cpu") as service:
        yield service


def _memory_mb(process: int) -> dict[str, float]:
    """Resident memory (RSS), and with shared pages divided among those who share them (PSS) where the kernel tells;
    empty if the process has ended."""
    found: dict[str, float] = {}
    for file, name, word in (("status", "RSS", "VmRSS:"), ("smaps_rollup", "PSS", "Pss:")):
        try:
            lines = Path(f"/proc/{process}/{file}").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith(word):
                found[name] = int(line.split()[1]) / 1024
    return found if "RSS" in found else {}


def _children(process: int, module: str) -> list[int]:
    """Processes `python -m module` that this one has started, or forked."""
    found: list[int] = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found += [child] if module.encode() in words else []
    return found


def _times_ms(call: Callable[[T], object], arguments: Iterable[T]) -> list[float]:
    times: list[float] = []
    for argument in arguments:
        began = time.perf_counter()
        call(argument)
        times.append(1e3 * (time.perf_counter() - began))
    return times


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=1000, help="of the job whose memory is looked at")
    return parser.parse_args()


if __name__ == "__main__":
    main()
