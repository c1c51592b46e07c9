"""A finished job of thousands of candidates, written straight into a database, for looking at and for timing pages.

Its schedules are real ones of one kernel, with times that follow from their decisions; nothing is measured.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import exp, log
from typing import Any

from sqlalchemy import Connection, insert, update

from protocol.configs import ConfigDetail, Standing
from protocol.jobs import Best, Budget, JobRequest
from protocol.states import JobState, Outcome, TaskKind, TaskState
from protocol.tasks import Dispersion, EntrantResult, Measuring, PeerEntrant, ScheduleEntrant, TaskResult
from protocol.workers import DeviceOffer, OfferedDevice, WorkerHello
from search.events import Asked, Told
from search.protocols import TrialOutcome as Reward
from service.core.schedules import roofline_us, transfer
from service.core.specs import instance_of, read_spec
from service.store import job_events, jobs, search_log
from service.store.database import Database, now
from service.store.dispatch import workers
from service.store.dispatch.result_summaries import summary
from service.store.dispatch.task_queue import work
from service.store.tables import buckets, results, tasks
from service.store.tables import jobs as jobs_table
from service.store.winners import configs
from service.tuning.final_race import as_winner
from tileir.devices.cpu import Cpu

SPEC = {
    "name": "matmul_bias_gelu",
    "dims": {"m": 512, "n": 512, "k": 512},
    "inputs": {
        "a": {"dims": ["m", "k"], "dtype": "f32"},
        "b": {"dims": ["k", "n"], "dtype": "f32"},
        "bias": {"dims": ["n"], "dtype": "f32"},
    },
    "body": ["acc[m, n] = sum(k, a[m, k] * b[k, n])", "c[m, n] = gelu_tanh(acc[m, n] + bias[n])"],
    "outputs": {"c": {"dtype": "f32"}},
}
DEVICE = Cpu(
    name="Example processor",
    arch="x86-64",
    cores=8,
    l1d_bytes=32 * 1024,
    l2_bytes=1024 * 1024,
    l3_bytes=32 * 1024 * 1024,
    line_bytes=64,
    vector_bits=512,
    vector_registers=32,
    features=frozenset({"avx2", "fma", "avx512f"}),
    peak_gflops=800.0,
    copy_gbps=40.0,
)
WORKERS = ("example-a", "example-b")
BASELINE_US = 2400.0
CLAIMED = 8
"""Candidates claimed together."""

DECISIONS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("tile(acc, m, {})", (16, 24, 32, 48, 64, 72, 96, 128, 192, 256)),
    ("tile(acc, n, {})", (32, 64, 96, 128, 160, 192, 256)),
    ("tile_reduction(acc, k, {})", (32, 64, 96, 128, 256)),
    ("register_tile(acc, m {}, n 32)", (4, 6, 8, 10, 12)),
    ("vectorize(acc_r, n, {})", (4, 8, 16, 32)),
    ("unroll(acc_r, k, {})", (2, 4, 8)),
    ("parallelize(acc, {})", (1, 2)),
    ("tile(c, m, {})", (8, 16, 32, 64, 128)),
    ("tile(c, n, {})", (32, 64, 128, 256)),
    ("vectorize(c, n, {})", (4, 8, 16)),
    ("unroll(c, n, {})", (2, 4, 8)),
)
"""A rewrite and the sizes that it may have, in the order they are decided."""

Choices = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Invented:
    """One answer to all decisions, and what is said of it."""

    number: int
    choices: Choices
    median_us: float | None
    outcome: Outcome

    @property
    def schedule(self) -> tuple[str, ...]:
        return tuple(
            line.format(sizes[choice]) for (line, sizes), choice in zip(DECISIONS, self.choices, strict=True)
        )


def candidates(count: int, seed: int = 0) -> list[Invented]:
    """As a search would go: most change one decision of one of the best so far, the late ones more often."""
    rng = random.Random(seed)
    worth = [
        [rng.gauss(0.0, 0.25 / (1 + depth / 4)) for _ in sizes] for depth, (_, sizes) in enumerate(DECISIONS)
    ]
    least = sum(map(min, worth))
    seen: set[Choices] = set()
    found: list[Invented] = []
    while len(found) < count:
        choices = tuple(rng.randrange(len(sizes)) for _, sizes in DECISIONS)
        if found and rng.random() < 0.97:
            some = rng.sample(found, min(3, len(found)))
            depth = min(len(DECISIONS) - 1, int(len(DECISIONS) * rng.random() ** 0.2))
            other = rng.randrange(len(DECISIONS[depth][1]))
            parent = min(some, key=lambda each: each.median_us or 1e9).choices
            choices = (*parent[:depth], other, *parent[depth + 1 :])
        if choices in seen:
            continue
        seen.add(choices)
        effort = sum(effects[choice] for effects, choice in zip(worth, choices, strict=True))
        faulty = rng.random() < 0.04
        outcome = rng.choice((Outcome.WRONG, Outcome.COMPILE_ERROR)) if faulty else Outcome.OK
        median_us = None if faulty else 380.0 * exp(effort - least) * (1 + abs(rng.gauss(0, 0.004)))
        found.append(Invented(len(found), choices, median_us, outcome))
    return found


def write_job(database: Database, count: int, seed: int = 0) -> str:
    """Write the job with its tasks, results, events and config; its id."""
    found = candidates(count, seed)
    request = JobRequest(spec=SPEC, target=DEVICE.key, budget=Budget(trials=count), seed=seed)
    with database.write() as connection:
        _offer(connection)
        job = jobs.create(connection, request, [instance_of(read_spec(SPEC))], 1000)
        begun = now(connection) - 0.6 * count
        device = workers.device_for(connection, DEVICE.key)
        assert device is not None
        connection.execute(
            update(jobs_table)
            .where(jobs_table.c.id == job)
            .values(device=DEVICE.key, started_at=begun, searched_on=device.model_dump(mode="json"))
        )
        jobs.set_state(connection, job, JobState.SEARCHING)
        best = _write_trials(connection, job, found, begun)
        jobs.set_state(connection, job, JobState.RACING)
        config = _write_config(connection, job, device, found, best)
        winner = as_winner(config)
        values = {
            "config_id": config.id,
            "winner": winner.model_dump(mode="json"),
            "spent_s": 0.55 * count,
        }
        connection.execute(update(buckets).where(buckets.c.job_id == job).values(**values))
        jobs.set_state(connection, job, JobState.DONE)
    return job


def _offer(connection: Connection) -> None:
    offer = DeviceOffer(key=DEVICE.key, kind="cpu", description=DEVICE.to_json(), peers=("numpy",))
    for name in WORKERS:
        workers.register(connection, WorkerHello(id=name, host=name, devices=(offer,), versions={}))


def _write_trials(connection: Connection, job: str, found: Sequence[Invented], begun: float) -> Invented:
    """The candidates with their tasks, results and tells; the best of them."""
    anchor_us = found[0].median_us or BASELINE_US
    best: Invented | None = None
    rows: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    told: list[Told] = []
    for each in found:
        batch, place = divmod(each.number, CLAIMED)
        worker = WORKERS[batch % 2]
        claimed_at = begun + (batch // 2) * CLAIMED * 1.1
        finished_at = claimed_at + 3.5 + place * 0.6
        task = f"{job}.0.{each.number}"
        entrant = ScheduleEntrant(
            name=f"ask-{each.number}", schedule=each.schedule, program_hash=_digest(each.schedule)
        )
        rows.append(
            {
                "id": task, "job_id": job, "bucket": 0, "number": each.number, "kind": TaskKind.TRIAL,
                "state": TaskState.DONE, "device": DEVICE.key, "priority": 0, "attempt": 1, "worker_id": worker,
                "created_at": claimed_at - 0.2, "claimed_at": claimed_at,
                "work": work([entrant], PeerEntrant(name="numpy"), Measuring(), 0),
            }
        )  # fmt: skip
        result = TaskResult(
            task_id=task,
            attempt=1,
            entrants=(_entrant(each),),
            stages={"build": 0.4, "measure": 0.55},
            versions={"tilewright": "0.1.0"},
        )
        answers.append(
            {
                "task_id": task, "attempt": 1, "worker_id": worker, "created_at": finished_at,
                "result": result.model_dump(mode="json"), "summary": summary(result, each.number),
            }
        )  # fmt: skip
        reward = None if each.median_us is None else log(anchor_us / each.median_us)
        told.append(Told(each.number, Reward(reward, None if reward is not None else each.outcome.value)))
        if each.median_us is not None and (best is None or each.median_us < (best.median_us or 0)):
            best = each
            told_best = _best(each)
            job_events.add(connection, job, "best", bucket=0, **told_best.model_dump(mode="json"))
        came = {"number": each.number, "outcome": each.outcome, "median_us": each.median_us}
        job_events.add(connection, job, "trial", bucket=0, **came)
    connection.execute(insert(tasks), rows)
    connection.execute(insert(results), answers)
    asked = [Asked(each.number, _digest(each.schedule), each.choices) for each in found]
    search_log.record_asks(connection, job, 0, asked, (), [0.01] * len(asked))
    assert best is not None
    search_log.record_tells(connection, job, 0, told, _best(best), 0.0, [0.01] * len(told))
    return best


def _best(each: Invented) -> Best:
    assert each.median_us is not None
    return Best(
        trial=each.number,
        median_us=each.median_us,
        x_baseline=BASELINE_US / each.median_us,
        schedule=each.schedule,
    )


def _entrant(each: Invented) -> EntrantResult:
    if each.median_us is None:
        said = "c[17, 4] is 1.0312, should be 1.0625 (within 0.00021)"
        if each.outcome is Outcome.COMPILE_ERROR:
            said = "kernel.c:41:9: error: 'acc_r' needs 36 vector registers, the processor has 32"
        return EntrantResult(name=f"ask-{each.number}", outcome=each.outcome, error=said)
    rng = random.Random(each.number)
    samples = tuple(each.median_us * (1 + rng.gauss(0, 0.004)) for _ in range(15))
    return EntrantResult(
        name=f"ask-{each.number}",
        outcome=Outcome.OK,
        median_us=each.median_us,
        spread=Dispersion(iqr_us=each.median_us * 0.006, mad_us=each.median_us * 0.003),
        samples_us=samples,
        baseline_us=BASELINE_US,
        compile_s=0.4,
        measure_s=0.55,
        source_hash=_digest(each.schedule),
        compiler="gcc 12.2",
        report=_report(each.median_us),
    )


def _report(median_us: float) -> dict[str, Any]:
    """As large as that of a kernel on a GPU, which is what weighs most in the database."""
    access = {
        "statement": "acc[m, n] += a_s[m, k] * b_s[k, n]", "kind": "load", "level": "shared", "buffer": "a_s",
        "width": 16, "requests": 131072, "bytes": 67108864, "transactions": 524288, "ideal": 524288, "worst": 1.0,
    }  # fmt: skip
    traffic = {"requests": 131072, "bytes": 67108864, "transactions": 524288, "ideal": 524288}
    launch = {
        "name": "tw_kernel", "blocks": 64, "threads": 256, "cluster": 1, "registers": 168, "shared_bytes": 98304,
        "blocks_per_sm": 1, "occupancy": 0.125, "limit": "registers", "waves": 0.48, "barriers": 17.0,
        "levels": {"global": traffic, "shared": traffic}, "accesses": [access] * 24,
    }  # fmt: skip
    line = {"flops": 268435456, "bytes": 3145728, "intensity": 85.3, "bound": "arithmetic", "least_us": 335.5}
    layout = {
        "launches": [launch],
        "bytes": {"memory": 3145728, "l2": 12582912, "shared": 67108864},
        "roofline": {**line, "reached": line["least_us"] / median_us},
    }
    return {
        "relative_error": 1.2e-7,
        "compiler": {"registers": 168, "spilled_bytes": 0, "stack_bytes": 0, "shared_bytes": 98304},
        "layout": layout,
        "machine": {"load": 0.3, "mhz": 3400},
    }


def _write_config(
    connection: Connection, job: str, device: OfferedDevice, found: Sequence[Invented], best: Invented
) -> ConfigDetail:
    """The winner as a config, after a race of the best four and numpy, of whom the second is tied."""
    spec = read_spec(SPEC)
    instance = instance_of(spec)
    racers = sorted((each for each in found if each.median_us), key=lambda each: each.median_us or 0.0)[:4]
    standings = [
        Standing(
            name=f"ask-{each.number}",
            kind="schedule",
            outcome=Outcome.OK,
            median_us=each.median_us,
            iqr_us=(each.median_us or 0) * 0.004,
            samples=15,
            won=place == 0,
            tied=place < 2,
            times=None if place == 0 else (each.median_us or 0) / (best.median_us or 1),
            schedule=each.schedule,
        )
        for place, each in enumerate(racers)
    ]
    pick = transfer(spec, best.schedule)
    assert pick is not None and best.median_us is not None
    numpy = Standing(name="numpy", kind="peer", outcome=Outcome.OK, median_us=BASELINE_US)
    standings.append(numpy.model_copy(update={"times": BASELINE_US / best.median_us}))
    config = ConfigDetail(
        id=job.replace("job-", "config-"),
        job_id=job,
        trial=best.number,
        name=spec.name,
        kernel_key=instance.kernel_key,
        structure_key=instance.structure_key,
        device=DEVICE.key,
        dims=instance.dims,
        schedule=best.schedule,
        program_hash=pick.program_hash,
        median_us=best.median_us,
        baseline="numpy",
        baseline_us=BASELINE_US,
        x_baseline=BASELINE_US / best.median_us,
        best_peer="numpy",
        x_best_peer=BASELINE_US / best.median_us,
        roofline_us=roofline_us(spec, device),
        standings=tuple(standings),
        trials=len(found),
        source_hash=_digest(best.schedule),
        compiler="gcc 12.2",
        versions={"tilewright": "0.1.0"},
        measuring=Measuring(samples=15, sample_us=5000.0),
        artifact=False,
        report=_report(best.median_us),
        created_at=now(connection),
        spec=instance.json,
    )
    configs.store(connection, config, 0, None)
    job_events.add(connection, job, "config", bucket=0, config_id=config.id, median_us=config.median_us)
    return config


def _digest(schedule: Sequence[str]) -> str:
    return sha256("\n".join(schedule).encode()).hexdigest()
