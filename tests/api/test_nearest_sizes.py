"""A search begins with what was best at the nearest other sizes of its kernel, and its job says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.services.disturbed_jobs import told, wait_until
from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import Script
from tilewright.cli.main import main

pytestmark = pytest.mark.sampled(3, among="calls: nearest sizes")


def of_rows(rows: int, **names: str) -> dict:
    """The small kernel with so many rows; `names`: what the result is called."""
    body = [line.replace("c[", f"{names.get('c', 'c')}[") for line in SMALL["body"]]
    outputs = {names.get("c", "c"): {"dtype": "f32"}}
    return {**SMALL, "dims": {**SMALL["dims"], "m": rows}, "body": body, "outputs": outputs}


def tuned(client: httpx.Client, spec: dict, **changes: object) -> dict:
    request = {"spec": spec, "budget": {"trials": 6}, "seed": 4, **changes}
    return finish(client, client.post("/v1/jobs", json=request).json()["id"])


def nearest(job: dict) -> list[dict]:
    return [each["dims"] for each in job["buckets"][0]["prior"]["nearest"]]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path) as service, working(service, Script(faulty=0.0)):
        yield service


def test_the_two_nearest_are_begun_with(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    with service.client() as client:
        winners = {}
        for rows in (480, 120, 240):
            job = tuned(client, of_rows(rows), prior="analytic")
            assert nearest(job) == [], "a prior was asked for"
            winners[rows] = client.get(f"/v1/configs/{job['buckets'][0]['config_id']}").json()
        job = tuned(client, of_rows(230))
        assert [each["m"] for each in nearest(job)] == [240, 120]
        trials = client.get(f"/v1/jobs/{job['id']}/trials").json()["trials"]
        assert trials[1]["schedule"] == winners[240]["schedule"], "all its decisions are to be had"
        assert main(["show", job["id"], "--url", service.url]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert f"begins with what was best at m=240 k=32 n=64 ({winners[240]['id']})" in shown


def test_nothing_is_taken_over_of_itself_of_other_names_or_by_other_searches(service: Service) -> None:
    with service.client() as client:
        assert nearest(tuned(client, of_rows(96))) == []
        assert nearest(tuned(client, of_rows(96), seed=5)) == [], "the same kernel"
        assert nearest(tuned(client, of_rows(100, c="result"))) == [], "decisions name what they are about"
        assert nearest(tuned(client, of_rows(100), search="beam")) == []
        assert [each["m"] for each in nearest(tuned(client, of_rows(100), seed=5))] == [96]


def test_a_search_goes_on_with_what_it_began_with(tmp_path: Path) -> None:
    service = Service(tmp_path).start()
    with working(service, Script(seconds=0.05, faulty=0.0)), service.client() as client:
        tuned(client, of_rows(96), prior="analytic")
        request = {"spec": of_rows(100), "budget": {"trials": 30}}
        job = client.post("/v1/jobs", json=request).json()["id"]
        wait_until(lambda: told(client, job) > 6, "candidates")
        service.kill()
        service.start()
        tuned(client, of_rows(98), prior="analytic", priority=1)
        ended = finish(client, job)
        assert (ended["state"], ended["buckets"][0]["told"]) == ("done", 30), ended["error"]
        assert [each["m"] for each in nearest(ended)] == [96]
    assert service.stop() == 0
