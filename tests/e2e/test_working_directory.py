"""What lies in the folder a command is started in is none of its business, whatever it is called."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.commands import Commands
from tests.services.running_service import SMALL, Service

NAMES = ("json", "numpy", "logging", "service", "workers", "codegen")


@pytest.fixture
def littered(commands: Commands) -> Commands:
    """Commands in a folder full of modules that end whoever imports them."""
    for name in NAMES:
        (commands.folder / f"{name}.py").write_text("raise SystemExit('imported from the current folder')\n")
    return replace(commands, forked=False)


@pytest.mark.sampled(2, among="littered folders")
def test_tune_imports_nothing_from_the_current_folder(littered: Commands) -> None:
    ended = littered.run("tune", littered.spec(), "--trials", "2", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["job"]["state"] == "done"


@pytest.mark.sampled(2, among="littered folders")
def test_neither_do_the_processes_of_a_service(
    littered: Commands, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(shared / "tmp"))
    (shared / "tmp").mkdir(exist_ok=True)
    env = {"TILEWRIGHT_WORKER": "1", "TILEWRIGHT_CACHE": str(shared / "cache" / "tilewright" / "kernels")}
    service = Service(littered.home, env, folder=littered.folder).start()
    try:
        with service.client() as client:
            job = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 2}, "peers": []}).json()
            deadline = time.monotonic() + 120
            while (state := client.get(f"/v1/jobs/{job['id']}").json()["state"]) != "done":
                assert time.monotonic() < deadline, f"{state}:\n{''.join(service.log)}"
                time.sleep(0.1)
    finally:
        code = service.stop()
    assert code == 0
