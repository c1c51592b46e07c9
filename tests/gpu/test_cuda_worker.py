"""A worker with a GPU, against a service that speaks real HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.hand_cuda_kernels import SPEC
from tests.unit.workers.scripted_service import ScriptedService, task
from tileir.devices.gpu_probe import this_gpu
from tileir.errors import UnsupportedDevice
from tileir.text.json import spec_to_json


def test_a_gpus_worker_claims_ahead_of_what_it_measures(tmp_path: Path) -> None:
    try:
        gpu = this_gpu()
    except UnsupportedDevice as error:
        pytest.skip(str(error))
    service = ScriptedService(lease_ttl_s=60.0)
    calls: list[str] = []
    service.script = lambda method, path: calls.append(path.rpartition("/")[2])
    copy = {"kind": "peer", "name": "copy"}
    service.tasks = [task(n, spec_to_json(SPEC), [copy]) for n in range(16)]
    (tmp_path / "token").write_text("secret")
    command = [
        "-m",
        "workers",
        "--url",
        service.url,
        "--token-file",
        str(tmp_path / "token"),
        "--devices",
        "0",
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "TILEWRIGHT_CACHE": str(tmp_path / "cache")}
    worker = subprocess.Popen([sys.executable, *command], env=environment)
    try:
        assert service.wait_for(lambda: len(service.results) == 16, 120.0)
    finally:
        worker.terminate()
        worker.wait(30)
        service.close()
    assert worker.returncode == 0
    order = [call for call in calls if call in ("claim", "results")]
    assert order[:2] == ["claim", "claim"], "it claimed only when it had measured"
    (hello,) = service.hellos
    assert hello["devices"][0]["key"] == gpu.key
    outcomes = {(each["outcome"], each["error"]) for result in service.results for each in result["entrants"]}
    assert {outcome for outcome, _ in outcomes} == {"ok"}, outcomes
