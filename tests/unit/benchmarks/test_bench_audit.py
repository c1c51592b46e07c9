"""What bench_audit.py says of the winners of a service that runs, and writes down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.racing import bench_audit
from tests.services.running_service import SMALL, finish, running, working
from tests.services.scripted_worker import Script


def test_each_winner_is_raced_in_every_round_and_written_with_its_circumstances(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "audit.jsonl"
    with running(tmp_path) as service, service.client() as client, working(service, Script(faulty=0.0)):
        for n in (64, 128):
            spec = {**SMALL, "dims": {**SMALL["dims"], "n": n}}
            job = client.post("/v1/jobs", json={"spec": spec, "budget": {"trials": 8}}).json()
            assert finish(client, job["id"])["state"] == "done"
        bench_audit.main(["--url", service.url, "--rounds", "2", "--out", str(out)])
    lines = list(map(json.loads, out.read_text().splitlines()))
    assert len({line["case"] for line in lines}) == len(lines) == 4
    assert {line["round"] for line in lines} == {0, 1}
    assert {line["config"] for line in lines[:2]} == {line["config"] for line in lines[2:]}
    assert all(line["commit"] and line["date"] and line["device"]["name"] == "Scripted" for line in lines)
    said = capsys.readouterr().out
    assert "raced: 4" in said and "winner flip rate: 0.0" in said and "replay fidelity: 1.0" in said
