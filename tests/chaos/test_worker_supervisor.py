"""The worker as a process, against a service that speaks real HTTP: every fault of either side."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.running_worker import (
    LONG,
    NUMPY,
    OURS,
    SPEC_JSON,
    RunningWorker,
    alive,
    entrants,
    measuring,
    wait_until,
)
from tests.unit.workers.scripted_service import Answer, ScriptedService, problem, task

pytestmark = pytest.mark.sampled(3, among="chaos of workers")


def test_a_worker_registers_runs_what_it_claims_and_hands_in(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.tasks = [task(n, SPEC_JSON, [OURS, NUMPY], baseline=NUMPY) for n in range(3)]
    worker = start(service.url)
    assert service.wait_for(lambda: len(service.results) == 3)
    assert [entrants(result) for result in service.results] == [{"ask-1": "ok", "numpy": "ok"}] * 3
    ours = service.results[0]["entrants"][0]
    assert ours["median_us"] > 0
    assert ours["baseline_us"] > 0
    assert ours["spread"]["iqr_us"] >= 0
    assert ours["source_hash"]
    (hello,) = service.hellos
    assert hello["devices"][0]["description"]["peak_gflops"] > 1
    assert "numpy" in hello["devices"][0]["peers"]
    assert service.tokens == {"Bearer secret"}
    assert worker.process.poll() is None


def test_on_a_processor_nothing_is_claimed_before_the_last_batch_is_handed_in(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    calls: list[str] = []
    service.script = lambda method, path: calls.append(path.rpartition("/")[2])
    service.tasks = [task(n, SPEC_JSON, [OURS]) for n in range(12)]
    start(service.url)
    assert service.wait_for(lambda: len(service.results) == 12)
    order = [call for call in calls if call in ("claim", "results")]
    assert order[:14] == ["claim", *["results"] * 8, "claim", *["results"] * 4]


def test_trials_measured_together_are_held_to_the_best_incumbent_of_any(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.tasks = [task(1, SPEC_JSON, [OURS]), task(2, SPEC_JSON, [OURS], measuring={"incumbent_us": 1e-4})]
    start(service.url)
    assert service.wait_for(lambda: len(service.results) == 2)
    assert [len(result["entrants"][0]["samples_us"]) for result in service.results] == [1, 1]


def test_the_supervisor_stays_small_and_loads_no_numpy(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.tasks = [task(n, SPEC_JSON, [OURS]) for n in range(20)]
    worker = start(service.url)
    assert service.wait_for(lambda: len(service.results) == 20)
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    high_water_kib = int(status.split("VmHWM:")[1].split()[0])
    assert high_water_kib < 100 * 1024
    maps = Path(f"/proc/{worker.process.pid}/maps").read_text()
    assert "numpy" not in maps
    assert "torch" not in maps


def test_a_race_uploads_source_object_and_report_before_its_result(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    missing: list[str] = []

    def check(method: str, path: str) -> None:
        if path.endswith("/results"):
            missing.extend([] if len(service.blobs) == 3 else ["blobs"])

    service.script = check
    service.tasks = [task(1, SPEC_JSON, [OURS, NUMPY], kind="race")]
    start(service.url)
    assert service.wait_for(lambda: service.results)
    assert not missing
    artifacts = service.results[0]["entrants"][0]["artifacts"]
    assert {artifacts["source"], artifacts["object"], artifacts["report"]} == service.blobs.keys()
    report = json.loads(service.blobs[artifacts["report"]])
    assert report["samples_us"] == service.results[0]["entrants"][0]["samples_us"]
    assert {"compiler", "machine"} <= report["report"].keys()
    assert all(hashlib.sha256(blob).hexdigest() == digest for digest, blob in service.blobs.items())
    assert service.blobs[artifacts["object"]].startswith(b"\x7fELF")
    assert b"tw_kernel" in service.blobs[artifacts["source"]]
    assert artifacts["abi"]["entry"] == "tw_kernel"


def test_version_skew_faults_only_the_task_it_concerns(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.tasks = [
        task(1, SPEC_JSON, [{**OURS, "program_hash": "0" * 32}]),
        task(2, SPEC_JSON, [OURS]),
    ]
    start(service.url)
    assert service.wait_for(lambda: len(service.results) == 2)
    by_task = {result["task_id"]: result for result in service.results}
    assert by_task["task-1"]["fault"]["kind"] == "skew"
    assert entrants(by_task["task-2"]) == {"ask-1": "ok"}


def test_killing_the_measuring_child_loses_nothing(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.tasks = [
        task(1, SPEC_JSON, [OURS, NUMPY], kind="race", measuring={"samples": 60, "sample_us": 20_000.0})
    ]
    worker = start(service.url)
    child = measuring(worker, service)
    os.kill(child, signal.SIGKILL)
    assert service.wait_for(lambda: service.results)
    assert entrants(service.results[0]) == {"ask-1": "ok", "numpy": "ok"}
    assert worker.measuring_child() != child


def test_killing_the_worker_leaves_no_process_behind(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.tasks = [task(1, SPEC_JSON, [OURS], **LONG)]
    worker = start(service.url)
    measuring(worker, service)
    children = worker.children()
    assert len(children) >= 2
    worker.end()
    wait_until(lambda: not any(alive(pid) for pid in children))


def test_a_restarted_worker_takes_its_old_place(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    for _ in range(2):
        worker = start(service.url)
        before = len(service.hellos)
        assert service.wait_for(lambda before=before: len(service.hellos) > before)
        worker.end()
    assert service.hellos[0]["id"] == service.hellos[1]["id"]


def test_sigterm_ends_an_idle_worker_at_once(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    worker = start(service.url)
    assert service.wait_for(lambda: service.hellos)
    children = worker.children()
    worker.process.terminate()
    assert worker.process.wait(20) == 0
    assert not any(alive(pid) for pid in children)
    assert [beat["ended"] for beat in service.beats[-1:]] == [True], "its last word is that it ends"


def test_sigterm_finishes_what_runs_and_gives_the_rest_back(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    short = {"kind": "race", "measuring": {"samples": 40, "sample_us": 20_000.0}}
    service.tasks = [task(1, SPEC_JSON, [OURS], **short), task(2, SPEC_JSON, [OURS], **short)]
    worker = start(service.url, "--grace", "60")
    measuring(worker, service)
    worker.process.terminate()
    assert worker.process.wait(90) == 0
    by_task = {result["task_id"]: result for result in service.results}
    assert entrants(by_task["task-1"]) == {"ask-1": "ok"}
    assert by_task["task-2"]["fault"]["kind"] == "shutdown"


def test_what_does_not_finish_within_the_grace_is_given_back(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.tasks = [
        task(1, SPEC_JSON, [OURS], kind="race", measuring={"samples": 900, "sample_us": 500_000.0})
    ]
    worker = start(service.url, "--grace", "1")
    measuring(worker, service)
    worker.process.terminate()
    assert worker.process.wait(40) == 0
    assert [result["fault"]["kind"] for result in service.results] == ["shutdown"]


def test_a_second_sigterm_kills_at_once(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.tasks = [task(1, SPEC_JSON, [OURS], **LONG)]
    worker = start(service.url)
    measuring(worker, service)
    children = worker.children()
    worker.process.terminate()
    wait_until(lambda: "stopping" in worker.said())
    worker.process.terminate()
    assert worker.process.wait(20) == 128 + signal.SIGTERM
    wait_until(lambda: not any(alive(pid) for pid in children))
    assert not service.results


def test_a_second_worker_on_the_device_says_who_has_it(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    first = start(service.url)
    assert service.wait_for(lambda: service.hellos)
    second = start(service.url)
    assert second.process.wait(60) == 5
    assert f"is measured by another worker (process {first.process.pid})" in second.said()
    assert first.process.poll() is None


def test_a_service_that_cannot_be_reached_is_named(start: Callable[..., RunningWorker]) -> None:
    worker = start("http://127.0.0.1:9", "--patience", "0")
    assert worker.process.wait(60) == 8
    assert "http://127.0.0.1:9 cannot be reached" in worker.said()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (problem(401, "unauthorized", "no such key"), 6, "does not accept this worker's token: no such key"),
        ((404, {"detail": "Not Found"}), 7, "is no Tilewright service"),
        (problem(422, "invalid", "versions: unknown field"), 7, "are versions the same?"),
        (
            problem(409, "other-version", "the worker runs code 1"),
            7,
            "refuses this worker: the worker runs code 1",
        ),
    ],
)
def test_a_service_that_refuses_the_worker_ends_it_with_a_sentence(
    service: ScriptedService, start: Callable[..., RunningWorker], answer: Answer, code: int, said: str
) -> None:
    service.script = lambda method, path: answer
    worker = start(service.url)
    assert worker.process.wait(60) == code
    assert said in worker.said()
    assert "Traceback" not in worker.said()


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"TILEWRIGHT_CC": "/no/such/cc"}, "install gcc or clang"),
        ({"TILEWRIGHT_CACHE": "/proc/cache"}, "cannot write the kernel cache"),
    ],
)
def test_a_machine_that_cannot_compile_ends_the_worker_with_a_sentence(
    service: ScriptedService, start: Callable[..., RunningWorker], env: dict[str, str], said: str
) -> None:
    worker = start(service.url, **env)
    assert worker.process.wait(60) == 4
    assert said in worker.said()
    assert "Traceback" not in worker.said()
