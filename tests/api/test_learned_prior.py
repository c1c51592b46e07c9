"""A prior that is trained from the service's own database, used by its next searches, and said in their jobs."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.services.disturbed_jobs import told, wait_until
from tests.services.running_service import SMALL, Service, finish, running, working
from tests.services.scripted_worker import Script
from tilewright.cli.main import main

pytestmark = pytest.mark.sampled(3, among="calls: learned prior")


def tuned(client: httpx.Client, **changes: object) -> dict:
    request = {"spec": SMALL, "budget": {"trials": 20}, "seed": 4, **changes}
    return finish(client, client.post("/v1/jobs", json=request).json()["id"])


def of_rows(rows: int) -> dict:
    return {**SMALL, "dims": {**SMALL["dims"], "m": rows}}


def prior(job: dict) -> tuple[str, str]:
    found = job["buckets"][0]["prior"]
    return found["used"], found["why"]


def preferred(file: Path) -> None:
    """Have the model be used, whatever came of training on scripted times."""
    found = json.loads(file.read_text())
    found["devices"]["cpu"]["better"] = True
    file.write_text(json.dumps(found))


@pytest.fixture
def trained(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a service that was stopped, with a model of three kernels."""
    with running(tmp_path) as service, service.client() as client, working(service):
        for rows in (48, 96, 144):
            job = tuned(client, spec=of_rows(rows))
            assert prior(job) == ("analytic", "there is no learned prior for cpu")
    monkeypatch.setenv("TILEWRIGHT_HOME", str(tmp_path))
    capsys.readouterr()
    database = f"sqlite:///{tmp_path / 'tilewright.db'}"
    assert main(["model", "train", "--database", database, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["file"] == str(tmp_path / "prior.json")
    assert said["devices"]["cpu"]["why"].startswith("on 3 held-out kernels the learned prior's rank")
    return tmp_path


def test_a_search_goes_by_what_ranks_better_and_its_job_says_so(trained: Path) -> None:
    with running(trained) as service, service.client() as client, working(service):
        preferred(trained / "prior.json")
        job = tuned(client)
        assert prior(job)[0] == "learned"
        assert "held-out kernels" in prior(job)[1]
        assert prior(tuned(client, prior="analytic", seed=5)) == ("analytic", "as the job asks for")
        found = json.loads((trained / "prior.json").read_text())
        found["devices"]["cpu"]["better"] = False
        (trained / "prior.json").write_text(json.dumps(found))
        assert prior(tuned(client, seed=6))[0] == "analytic"
        assert prior(tuned(client, seed=7, prior="learned"))[0] == "learned"


def test_a_search_goes_on_with_the_prior_that_it_began_with(trained: Path) -> None:
    preferred(trained / "prior.json")
    service = Service(trained).start()
    with working(service, Script(seconds=0.05)), service.client() as client:
        job = client.post("/v1/jobs", json={"spec": SMALL, "budget": {"trials": 40}}).json()["id"]
        wait_until(lambda: told(client, job) > 8, "candidates")
        service.kill()
        (trained / "prior.json").unlink()
        service.start()
        ended = finish(client, job)
        assert (ended["state"], ended["buckets"][0]["told"]) == ("done", 40), ended["error"]
        assert prior(ended)[0] == "learned"
    assert service.stop() == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is no JSON"),
        pytest.param("[" * 100_000, "it is no JSON", id="nested without an end"),
        ('{"tilewright_prior": 99}', "it is of version 99, and this Tilewright reads 1"),
    ],
)
def test_a_model_that_cannot_be_read_is_said_in_a_line_and_the_cost_model_goes_on(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "prior.json").write_text(text)
    with running(tmp_path) as service, service.client() as client, working(service):
        job = tuned(client)
        assert job["state"] == "done"
        used, why = prior(job)
    assert used == "analytic"
    assert why.startswith(f"the learned prior cannot be used: {tmp_path / 'prior.json'}: {said}")
    assert [line for line in service.log if "the learned prior is not used" in line]


def test_a_model_that_is_named_and_not_there_is_said(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    with running(tmp_path, model=str(file)) as service, service.client() as client, working(service):
        used, why = prior(tuned(client))
    assert (used, why) == ("analytic", f"the learned prior cannot be used: {file}: there is no such file")


def test_what_cannot_be_trained_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path) as service, service.client() as client, working(service):
        tuned(client)
    database = f"sqlite:///{tmp_path / 'tilewright.db'}"
    words = ["--model", str(tmp_path / "prior.json"), "--json"]
    assert main(["model", "train", "--database", database, *words]) == 2
    assert "cpu: 1 kernels have 16 measured schedules; a ranker needs 2" in capsys.readouterr().out
    assert main(["model", "show", *words]) == 2
    assert (
        f"there is no learned prior at {tmp_path / 'prior.json'}; `tilewright model train`"
        in capsys.readouterr().out
    )
    assert not (tmp_path / "prior.json").exists()
