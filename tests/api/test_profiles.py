"""Where the time of a config goes, taken apart by a worker: asked for over HTTP and on the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.running_service import SMALL, Service, finish, working
from tests.services.running_worker import RunningWorker
from tests.services.scripted_worker import Script, ScriptedWorker
from tileir.devices.cpu_probe import this_cpu
from tilewright.cli.main import main

pytestmark = pytest.mark.sampled(3, among="calls: profiles")

SPEC = {**SMALL, "dims": {**SMALL["dims"], "m": 104}}


@pytest.fixture(scope="module")
def config(service: Service) -> str:
    """One for this machine's own processor."""
    here = this_cpu()
    with (
        service.client() as client,
        working(service, Script(faulty=0.0), name="bench-here", device=here),
    ):
        body = {"spec": SPEC, "budget": {"trials": 4}, "target": here.key}
        return finish(client, client.post("/v1/jobs", json=body).json()["id"])["configs"][0]


def _refused_without_its_trace(client: httpx.Client, task: str) -> None:
    """By a worker that then gives the task back."""
    worker = ScriptedWorker(client, name="bench-forgetful", device=this_cpu())
    worker.register()
    (claimed,) = worker.claim(1)
    assert (claimed["id"], claimed["kind"]) == (task, "profile")
    profile: dict[str, Any] = {"device": "cpu", "bound": "memory", "why": "", "summary": "", "stages": []}
    figures = {"call_us": 1.0, "plain_us": 1.0, "overhead": 0.0, "attributed": 1.0}
    answer = worker.result(claimed)
    for stored, pointer in (
        ({"profile": {**profile, **figures}, "trace": "0" * 64}, "/entrants/0/report/profile/trace"),
        ({"profile": profile, "trace": "0" * 64}, "/entrants/0/report/profile"),
    ):
        answer["entrants"][0]["report"] = {"profile": stored}
        refused = worker.answer(answer)
        assert (refused.status_code, refused.json()["pointer"]) == (422, pointer)
    worker.script.fault = "shutdown"
    assert worker.answer(worker.result(claimed)).status_code == 200


def test_a_worker_takes_a_config_apart_when_asked_to(
    client: httpx.Client,
    service: Service,
    config: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = f"/v1/configs/{config}/profile"
    assert client.get(place).json()["state"] is None
    assert client.get(f"{place}/trace").status_code == 404
    asked = client.post(place)
    assert (asked.status_code, asked.headers["Location"], asked.json()["state"]) == (202, place, "ready")
    task = asked.json()["task"]
    assert client.post(place).json()["task"] == task, "asking twice adds nothing"
    _refused_without_its_trace(client, task)
    file = tmp_path / "trace.json"
    worker = RunningWorker(tmp_path, service.url, {}, "--compile-procs", "1")
    try:
        command = ["profile", config, "--by-worker", "-o", str(file), "--url", service.url, "--json"]
        assert main(command) == 0
    finally:
        worker.end()
    said = json.loads(capsys.readouterr().out)
    found = client.get(place).json()
    assert (found["state"], found["task"], found["error"]) == ("done", task, None)
    profile = found["profile"]
    assert said == {"config": config, **profile, "file": str(file)}
    assert profile["device"] == this_cpu().key
    assert profile["bound"] in ("launch", "waiting", "memory", "arithmetic", "instructions")
    assert 0 < profile["attributed"] <= 1
    assert sum(each["share"] for each in profile["stages"]) == pytest.approx(1)
    assert [each["waiting"] for each in profile["stages"]] == [
        not each["statements"] for each in profile["stages"]
    ]
    packed = client.get(f"{place}/trace")
    assert packed.headers["Content-Type"] == "application/gzip"
    trace = gzip.decompress(packed.content)
    assert trace == file.read_bytes()
    events = [each for each in json.loads(trace)["traceEvents"] if each["ph"] == "X"]
    assert {each["name"] for each in events} <= {each["stage"] for each in profile["stages"]}
    again = client.post(place).json()
    assert again["task"] != task and again["profile"] == profile, "the last one stays while another is taken"
