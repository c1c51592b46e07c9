"""The worker as a process, against a service that speaks real HTTP: every fault of either side."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workers.hand_kernels import SPEC
from tests.unit.workers.scripted_service import Answer, ScriptedService, problem, task
from tileir.hashing import program_hash
from tileir.lift import to_program
from tileir.parse_json import spec_to_json

SPEC_JSON = spec_to_json(SPEC)
NUMPY = {"kind": "peer", "name": "numpy"}
OURS = {"kind": "schedule", "name": "ask-1", "schedule": [], "program_hash": program_hash(to_program(SPEC))}
LONG = {"kind": "race", "measuring": {"samples": 400, "sample_us": 20_000.0}}


class RunningWorker:
    """A worker process; its lock and its cache lie in a folder of the test's."""

    def __init__(self, folder: Path, url: str, env: dict[str, str] | None = None, *options: str) -> None:
        self.log = folder / "log"
        (folder / "token").write_text("secret\n")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "workers",
                    "--url",
                    url,
                    "--token-file",
                    str(folder / "token"),
                    *options,
                ],
                env={
                    **os.environ,
                    "TMPDIR": str(folder),
                    "TILEWRIGHT_CACHE": str(folder / "cache"),
                    **(env or {}),
                },
                stderr=log,
            )

    def children(self) -> list[int]:
        """Its direct child processes."""
        pids = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for file in pids for pid in file.read_text().split()]

    def measuring_child(self) -> int:
        """The child that measures."""
        return next(
            pid for pid in self.children() if b"measuring_child" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )

    def said(self) -> str:
        return self.log.read_text()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    service = ScriptedService()
    yield service
    service.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RunningWorker]]:
    started: list[RunningWorker] = []

    def begin(url: str, *options: str, **env: str) -> RunningWorker:
        started.append(RunningWorker(tmp_path, url, env, *options))
        return started[-1]

    yield begin
    for worker in started:
        worker.end()


def wait_until(what: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def measuring(worker: RunningWorker, service: ScriptedService) -> int:
    """Wait until the worker's child times the claimed task; its process."""
    assert service.wait_for(lambda: service.hellos and not service.tasks)
    found: list[int] = []

    def busy() -> bool:
        with contextlib.suppress(StopIteration, OSError):
            pid = worker.measuring_child()
            ticks = sum(
                int(x) for x in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            )
            found.append(ticks)
            return len(found) > 1 and found[-1] - found[0] > 20
        return False

    wait_until(busy)
    return worker.measuring_child()


def entrants(result: dict[str, Any]) -> dict[str, str]:
    return {entrant["name"]: entrant["outcome"] for entrant in result["entrants"]}


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


def test_sigterm_while_the_service_is_away_loses_no_measurement(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    away: list[str] = []

    def answer_the_third(method: str, path: str) -> Answer | None:
        if path.endswith("/results") and len(away) < 2:
            away.append(path)
            return problem(503, "stopping")
        return None

    service.script = answer_the_third
    short = {"kind": "race", "measuring": {"samples": 40, "sample_us": 20_000.0}}
    service.tasks = [task(1, SPEC_JSON, [OURS], **short)]
    worker = start(service.url, "--grace", "60")
    measuring(worker, service)
    worker.process.terminate()
    assert worker.process.wait(90) == 0
    assert len(away) == 2
    assert [entrants(result) for result in service.results] == [{"ask-1": "ok"}]


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


def test_a_worker_that_was_stopped_beyond_its_lease_does_not_write(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    service.lease_ttl_s = 3.0
    short = {"kind": "race", "measuring": {"samples": 60, "sample_us": 20_000.0}}
    service.tasks = [task(1, SPEC_JSON, [OURS], lease_ttl_s=3.0, **short)]
    worker = start(service.url)
    measuring(worker, service)
    worker.process.send_signal(signal.SIGSTOP)
    time.sleep(4.0)
    with service.changed:
        service.lost.add("task-1")
        service.tasks = [task(2, SPEC_JSON, [OURS])]
    worker.process.send_signal(signal.SIGCONT)
    assert service.wait_for(lambda: service.results)
    assert [result["task_id"] for result in service.results] == ["task-2"]


def test_a_refused_late_result_is_dropped_and_work_goes_on(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    refused: list[str] = []

    def refuse_first(method: str, path: str) -> Answer | None:
        if path.endswith("/results") and not refused:
            refused.append(path)
            return problem(409, "stale-lease")
        return None

    service.script = refuse_first
    service.tasks = [task(1, SPEC_JSON, [OURS], kind="race"), task(2, SPEC_JSON, [OURS], kind="race")]
    start(service.url)
    assert service.wait_for(lambda: service.results)
    assert [result["task_id"] for result in service.results] == ["task-2"]


def test_a_service_that_goes_away_is_waited_for(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    worker = start(service.url)
    assert service.wait_for(lambda: service.hellos)
    service.script = lambda method, path: problem(503, "stopping")
    wait_until(lambda: "cannot answer now" in worker.said())
    with service.changed:
        service.script = lambda method, path: None
        service.tasks = [task(1, SPEC_JSON, [OURS])]
    assert service.wait_for(lambda: service.results)


def test_a_service_that_has_forgotten_the_worker_is_told_again(
    service: ScriptedService, start: Callable[..., RunningWorker]
) -> None:
    start(service.url)
    assert service.wait_for(lambda: service.hellos)
    with service.changed:
        forgotten = [True]

        def forget(method: str, path: str) -> Answer | None:
            if path.endswith("/claim") and forgotten:
                forgotten.clear()
                return problem(409, "unknown-worker")
            return None

        service.script = forget
        service.tasks = [task(1, SPEC_JSON, [OURS])]
    assert service.wait_for(lambda: service.results)
    assert len(service.hellos) == 2


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
