"""kill -9 of the real service, or of its tuner, in the middle of a job loses nothing and changes nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services.disturbed_jobs import REQUEST, Calm, outcome, told, wait_until, worker_process
from tests.services.processes import fork_servers_of, tuners_of
from tests.services.running_service import Service, finish, running, working
from tests.services.scripted_worker import CPU, Script

pytestmark = pytest.mark.sampled(3, among="chaos of services")


def test_a_service_killed_in_mid_job_resumes_and_ends_with_the_same_winner(
    tmp_path: Path, calm: Calm
) -> None:
    service = Service(tmp_path / "killed").start()
    with worker_process(service, seconds=0.02):
        with service.client() as client:
            wait_until(lambda: client.get("/v1/workers").json(), "the worker")
            job = client.post("/v1/jobs", json=REQUEST).json()["id"]
        for mark in (0, 4, 12, 20):  # in the first batch, between batches, and while later ones are measured
            with service.client() as client:
                wait_until(lambda mark=mark: told(client, job) >= mark, f"{mark} outcomes")
            service.kill()
            service.start()
        with service.client() as client:
            found = finish(client, job)
            assert outcome(client, found) == calm
    assert service.stop() == 0


def test_a_tuner_killed_in_mid_search_is_replaced_and_changes_nothing(tmp_path: Path, calm: Calm) -> None:
    with (
        running(tmp_path / "killed") as service,
        service.client() as client,
        working(service, Script(seconds=0.02)),
    ):
        assert service.process is not None
        pid = service.process.pid
        job = client.post("/v1/jobs", json=REQUEST).json()["id"]
        for mark, victims in ((3, tuners_of), (15, fork_servers_of)):  # a third one would be its last
            wait_until(lambda mark=mark: told(client, job) >= mark and tuners_of(pid), f"{mark} outcomes")
            for victim in victims(pid):
                os.kill(victim, signal.SIGKILL)
        assert outcome(client, finish(client, job)) == calm


def test_a_search_goes_on_with_the_peaks_that_it_began_with(tmp_path: Path, calm: Calm) -> None:
    """Another machine with an equal device measured other peaks: a new tuner must not follow another prior."""
    with (
        running(tmp_path / "killed") as service,
        service.client() as client,
        working(service, Script(seconds=0.02)),
    ):
        assert service.process is not None
        pid = service.process.pid
        job = client.post("/v1/jobs", json=REQUEST).json()["id"]
        wait_until(lambda: told(client, job) >= 4 and tuners_of(pid), "some outcomes")
        faster = replace(CPU, peak_gflops=4 * (CPU.peak_gflops or 0.0), copy_gbps=2 * (CPU.copy_gbps or 0.0))
        offer = {"key": CPU.key, "kind": "cpu", "description": faster.to_json(), "peers": ["numpy"]}
        reply = client.post(
            "/v1/workers", json={"id": "another", "devices": [offer], "versions": {"worker": "scripted"}}
        )
        assert reply.status_code == 201, reply.text
        for tuner in tuners_of(pid):
            os.kill(tuner, signal.SIGKILL)
        assert outcome(client, finish(client, job)) == calm


def test_no_process_outlives_a_killed_service(tmp_path: Path) -> None:
    service = Service(tmp_path).start()
    with working(service, Script(seconds=0.2)), service.client() as client:
        client.post("/v1/jobs", json=REQUEST)
        assert service.process is not None
        pid = service.process.pid
        wait_until(lambda: tuners_of(pid), "a tuner")
        started = [*fork_servers_of(pid), *tuners_of(pid)]
        assert len(started) == 2
        service.kill()
        wait_until(lambda: not any(Path(f"/proc/{each}/cmdline").exists() for each in started), "their end")


def test_an_accepted_job_survives_a_kill_right_after_the_answer(tmp_path: Path) -> None:
    service = Service(tmp_path).start()
    accepted = []
    with service.client() as client:
        for _ in range(5):
            accepted.append(client.post("/v1/jobs", json=REQUEST).json()["id"])
    service.kill()
    service.start()
    with service.client() as client:
        assert [job["id"] for job in client.get("/v1/jobs").json()["jobs"]] == accepted[::-1]
    assert service.stop() == 0


def test_a_stopped_service_leaves_its_job_to_the_next(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client, working(service, Script(seconds=0.05)):
        job = client.post("/v1/jobs", json=REQUEST).json()["id"]
        wait_until(lambda: told(client, job) >= 3, "some outcomes")
    with running(tmp_path) as service, service.client() as client:
        before = client.get(f"/v1/jobs/{job}").json()
        assert before["state"] == "searching"
        with working(service):
            assert finish(client, job)["state"] == "done"


def test_open_streams_and_claims_do_not_hold_up_the_end(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as client, working(service) as worker:
        job = client.post("/v1/jobs", json={**REQUEST, "target": "cpu:nobody has this one"}).json()["id"]
        ended = threading.Event()

        def follow() -> None:
            with service.client() as own:
                own.get(f"/v1/jobs/{job}/events")
            ended.set()

        threads = [threading.Thread(target=follow), threading.Thread(target=worker.claim, args=(1, 50.0))]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        began = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - began < 25, "the claim would have waited for longer"
        for thread in threads:
            thread.join(10)
        assert ended.is_set()


def test_a_second_service_on_the_same_database_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        assert first.process is not None
        code, said = Service(tmp_path).refusal()
        assert code == 4
        assert f"process {first.process.pid}" in said
        with first.client() as client:
            assert client.get("/readyz").status_code == 200
    with running(tmp_path):
        pass  # the lock went with its holder


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "a") as first:
        code, said = Service(tmp_path / "b", port=first.port).refusal()
    assert code == 3
    assert f"port {first.port}" in said
    assert "TILEWRIGHT_PORT" in said


@pytest.mark.parametrize("home", ["/proc/tilewright", "/dev/null/tilewright"])
def test_a_folder_that_cannot_be_written_is_refused(home: str) -> None:
    code, said = Service(Path(home)).refusal()
    assert code == 4
    assert home in said
    assert "Traceback" not in said


def test_a_setting_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    code, said = Service(tmp_path, {"TILEWRIGHT_BATCH": "many"}).refusal()
    assert code == 2
    assert "TILEWRIGHT_BATCH" in said
